// The file behind a VcdWriter: takes changes in the order in which the model made them, keeps those of later instants until
// their time, and writes each instant once, as text. The writer has
// checked them but for one thing: an addition may leave its wire's range. It runs on a thread of the writer's, so that a
// run does not wait for its waveform to be formatted.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "base/units.h"

namespace railyard::probe {

using Signal = Index<struct SignalTag>;

constexpr unsigned kMaxWidthBits = 64;
constexpr bool fits(std::uint64_t value, unsigned width_bits) { return width_bits == kMaxWidthBits || value >> width_bits == 0; }

enum class VcdKind : std::uint8_t { wire, real, string };

/// One thing that the model said.
struct VcdChange {
  enum class Action : std::uint8_t {
    advance,    ///< everything before `when` is final
    set,        ///< value: an integer, or the bits of a double
    add,        ///< value: a difference in two's complement
    text,       ///< value: where the text is: offset << 32 | size
    hold,       ///< a 1-bit wire is high until `when`
    hold_text,  ///< value: as for text; then nothing
    fall        ///< the file's own: the end of a hold
  };
  Time when;
  std::uint64_t value;
  Signal signal;
  Action action;
};

class VcdFile {
 public:
  /// Nothing before `from` or after `last` is written. @throws std::runtime_error when the file cannot be created
  VcdFile(const std::string& path, Time from, Time last);
  /// Writes the complete instants that are still buffered; errors are only reported by finish().
  ~VcdFile();
  VcdFile(const VcdFile&) = delete;
  VcdFile& operator=(const VcdFile&) = delete;

  /// Before start(). Signals are numbered from 0.
  Signal add_signal(const std::string& name, VcdKind kind, unsigned width_bits);
  std::string code(Signal signal) const { return {states_[signal].code, states_[signal].code_size}; }
  void start(const std::string& header);

  /// @param texts  what the texts' offsets count in
  /// @throws std::logic_error when an addition leaves the wire's range; what was complete before stays
  void take(const VcdChange& change, std::string_view texts);
  void flush();
  /// @throws std::runtime_error when any part of the file could not be written
  void finish(Time end);

 private:
  struct State {
    std::uint64_t value = 0;    // what the model says: integer, the bits of a double
    std::uint64_t written = 0;  // what the file says
    Time falls_at = Time::max();
    Time armed_at =
        Time::max();         // instant of this signal's fall in the heap; the fall itself may since have moved later
    std::uint32_t text = 0;  // strings: index into texts_
    VcdKind kind = VcdKind::wire;
    std::uint8_t width = 1;
    bool touched = false;  // in touched_
    std::uint8_t code_size = 0;
    char code[5] = {};
  };
  struct Text {
    std::string value, written;
  };
  using Action = VcdChange::Action;
  struct Pending {
    Time when;
    std::uint64_t order;
    std::uint64_t value;  // Action::text: index into waiting_texts_
    Signal signal;
    Action action;
    bool operator>(const Pending& o) const { return when != o.when ? o.when < when : o.order < order; }
  };

  void post_text(Signal signal, Time when, std::string_view text);
  void post(Signal signal, Time when, Action action, std::uint64_t value);
  void apply(const Pending& pending);
  void fall_at(Signal signal, State& state, Time when);
  void fall(Signal signal, State& state);
  void set_value(Signal signal, std::uint64_t value);
  void set_text(Signal signal, std::string_view text);
  void add_value(Signal signal, std::uint64_t difference);
  void touch(Signal signal, State& state);
  void move_to(Time now);
  void complete_instant(Time next);
  void stamp(Time when);
  void write_value(State& state);
  void dump_initial_values();

  const std::string path_;
  const Time from_, last_;
  std::FILE* file_ = nullptr;
  int write_error_ = 0;
  std::string buffer_;
  bool started_ = false;
  bool dumped_ = false;  // the initial values are out
  bool closed_ = false;  // past the last instant
  Time now_;
  Time stamped_;
  std::uint64_t order_ = 0;
  Table<Signal, State> states_;
  Table<Signal, std::string> names_;
  std::vector<Text> texts_;
  std::vector<Signal> touched_;
  std::vector<Pending> pending_;  // binary heap, the soonest first
  std::vector<std::string> waiting_texts_;
  std::vector<std::uint32_t> free_texts_;
};

}  // namespace railyard::probe
