// The view for a waveform: a GTKWave save file (.gtkw). It opens a trace with signals selected, grouped and drawn in a
// suitable way: text as text, occupancy as a curve, a busy wire as a wire.
//
//   GtkwaveSave view("trace.vcd");
//   view.begin_group("prefill0");
//   view.add_signal(vcd.full_name(active), GtkwaveSave::Format::curve, 2);
//   view.end_group();
//   view.show(Time(), end);
//   view.write("out/trace.gtkw");
//
// Signals that the writer's filter excludes have an empty name and are skipped. Groups without signals are not written.
// The save file contains the relative path of the dump, so the folder can be moved.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace railyard::probe {

class GtkwaveSave {
 public:
  enum class Format {
    wire,       ///< one bit, or a vector in binary
    decimal,    ///< a vector as a number
    hex,        ///< a vector in hexadecimal, or as text through a translate file
    text,       ///< a string variable
    curve,      ///< a vector as a stepped curve, scaled over the whole run
    real_curve  ///< a real as a stepped curve, scaled over the whole run
  };
  enum class Color {
    none = 0,
    red = 1,
    orange = 2,
    yellow = 3,
    green = 4,
    violet = 7
  };  ///< colours that are readable on black
  enum class Group { open, closed };

  /// @param vcd_path  relative to the folder of the save file: "trace.vcd"
  explicit GtkwaveSave(std::string vcd_path) : vcd_path_(std::move(vcd_path)) {}

  void begin_group(const std::string& name, Group state = Group::open);
  void end_group();
  /// @param full_name VcdWriter::full_name(); an empty one is skipped
  /// @param rows      height in rows
  /// @param alias     shown instead of the signal's name
  void add_signal(const std::string& full_name, Format format, unsigned rows = 1, Color color = Color::none,
                  const std::string& alias = {});
  /// A vector whose values are replaced by texts: lines "HEXVALUE text" in a file named relative to the save file's
  /// folder.
  void add_translated(const std::string& full_name, const std::string& filter_path, Color color = Color::none,
                      const std::string& alias = {});
  /// The part of the run that is visible when the view opens.
  void show(Time from, Time to);

  /// The save file's text. @throws std::logic_error when a group was not ended
  std::string str() const;
  /// @throws std::system_error when the file cannot be written
  void write(const std::string& path) const;

 private:
  struct OpenGroup {
    std::string name;
    bool closed;
    bool written;
  };
  void write_groups();

  std::string vcd_path_;
  std::string traces_;
  std::vector<OpenGroup> groups_;
  Time from_, to_;
};

}  // namespace railyard::probe
