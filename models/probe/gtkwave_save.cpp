#include "probe/gtkwave_save.h"

#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "base/output.h"

namespace railyard::probe {
namespace {

// GTKWave finds the dump by its path relative to the save file, which it derives from the two paths stored in the save
// file. Any common folder gives the same relative path.
const std::string kFolder = "/railyard/";
const std::string kSavedAs = "view.gtkw";

// Trace flags, as GTKWave 3.3 writes them to its save files.
enum Flag : unsigned {
  kHex = 0x2,
  kDecimal = 0x4,
  kBinary = 0x8,
  kRightJustified = 0x20,
  kBlank = 0x200,
  kCollapsed = 0x1000,
  kTranslatedByFile = 0x2000,
  kAnalogStep = 0x8000,
  kAnalogRow = 0x20000,
  kAnalogFullScale = 0x80000,
  kClosed = 0x400000,
  kGroupBegin = 0x800000,
  kGroupEnd = 0x1000000
};

// GTKWave's zoom is minus the binary logarithm of the time that 200 pixels stand for.
constexpr double kFramePixels = 200;
constexpr int kMarkers = 27;          // the primary one and A to Z, all unset
constexpr double kWavePixels = 1050;  // width of the waves in the window asked for below

unsigned flags(GtkwaveSave::Format format) {
  using Format = GtkwaveSave::Format;
  switch (format) {
    case Format::wire: return kBinary | kRightJustified;
    case Format::decimal: return kDecimal | kRightJustified;
    case Format::hex: return kHex | kRightJustified;
    case Format::text: return kHex | kRightJustified;
    case Format::curve: return kDecimal | kRightJustified | kAnalogStep | kAnalogFullScale;
    case Format::real_curve: return kRightJustified | kAnalogStep | kAnalogFullScale;
  }
  return kHex;
}

std::string flag_line(unsigned value) {
  char line[16];
  std::snprintf(line, sizeof line, "@%x\n", value);
  return line;
}

std::string color_line(GtkwaveSave::Color color) {
  return color == GtkwaveSave::Color::none ? "" : "[color] " + std::to_string(static_cast<int>(color)) + "\n";
}

std::string named(const std::string& full_name, const std::string& alias) {
  return (alias.empty() ? "" : "+{" + alias + "} ") + full_name + "\n";
}

}  // namespace

void GtkwaveSave::begin_group(const std::string& name, Group state) {
  groups_.push_back({name, state == Group::closed, false});
}

void GtkwaveSave::end_group() {
  if (groups_.empty()) throw std::logic_error("GTKWave view: a group ended that had not begun");
  const OpenGroup group = groups_.back();
  groups_.pop_back();
  if (group.written)
    traces_ += flag_line(kGroupEnd | kBlank | (group.closed ? kClosed | kCollapsed : 0u)) + "-" + group.name + "\n";
}

// A group is written with its first signal.
void GtkwaveSave::write_groups() {
  for (OpenGroup& group : groups_) {
    if (group.written) continue;
    group.written = true;
    traces_ += flag_line(kGroupBegin | kBlank | (group.closed ? kClosed : 0u)) + "-" + group.name + "\n";
  }
}

void GtkwaveSave::add_signal(const std::string& full_name, Format format, unsigned rows, Color color,
                             const std::string& alias) {
  if (full_name.empty()) return;
  write_groups();
  traces_ += color_line(color) + flag_line(flags(format)) + named(full_name, alias);
  for (unsigned row = 1; row < rows; ++row) traces_ += flag_line(kAnalogRow) + "-\n";
}

void GtkwaveSave::add_translated(const std::string& full_name, const std::string& filter_path, Color color,
                                 const std::string& alias) {
  if (full_name.empty()) return;
  write_groups();
  traces_ += color_line(color) + flag_line(flags(Format::hex) | kTranslatedByFile) + "^1 " + filter_path + "\n" +
             named(full_name, alias);
}

void GtkwaveSave::show(Time from, Time to) {
  from_ = from;
  to_ = to;
}

std::string GtkwaveSave::str() const {
  if (!groups_.empty()) throw std::logic_error("GTKWave view: group '" + groups_.back().name + "' was not ended");
  std::string text = "[dumpfile] \"" + kFolder + vcd_path_ + "\"\n[savefile] \"" + kFolder + kSavedAs +
                     "\"\n[timestart] " + std::to_string(from_.fs()) + "\n";
  text += "[size] 1400 900\n[pos] -1 -1\n";
  if (from_ < to_) {
    char zoom[32];
    const double frame = static_cast<double>((to_ - from_).fs()) * kFramePixels / kWavePixels;
    std::snprintf(zoom, sizeof zoom, "*%.6f", -std::log2(frame));
    text += zoom;
    for (int marker = 0; marker < kMarkers; ++marker) text += " -1";
    text += "\n";
  }
  return text + "[treeopen] railyard.\n[sst_width] 20\n[signals_width] 240\n[sst_expanded] 0\n" + traces_;
}

void GtkwaveSave::write(const std::string& path) const { write_file(path, str()); }

}  // namespace railyard::probe
