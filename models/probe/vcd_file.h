// The file behind a VcdWriter. It takes changes in the order in which the model made them, keeps changes of later
// instants until their time (upcoming.h), and writes each instant once, as text (vcd_text.h). The writer has checked
// all changes, except that an addition may exceed the range of its wire. The file runs on a thread of the writer, so a
// run does not wait for formatting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "base/units.h"
#include "probe/upcoming.h"
#include "probe/vcd_text.h"

namespace railyard::probe {

using Signal = Index<struct SignalTag>;

constexpr unsigned kMaxWidthBits = 64;
constexpr bool fits(std::uint64_t value, unsigned width_bits) {
  return width_bits == kMaxWidthBits || value >> width_bits == 0;
}

enum class VcdKind : std::uint8_t { wire, real, string };

/// One change, in 16 bytes, because there are millions.
struct VcdChange {
  enum class Action : std::uint8_t {
    advance,   ///< value: an instant; all earlier changes are final
    far,       ///< value: the instant of the next change, or the end of the next hold
    set,       ///< value: an integer, or the bits of a double
    add,       ///< value: a difference in two's complement
    text,      ///< value: position of the text: offset << 32 | size
    hold,      ///< value: of the wire until then; afterwards 0
    hold_text  ///< value: as for text; afterwards empty
  };
  static constexpr std::uint32_t kFar = 0xffffffffu;
  static constexpr std::uint32_t kMostSignals = 1u << 28;

  VcdChange() = default;
  VcdChange(Action of, std::uint64_t value_given, Signal signal_given = Signal(0), std::uint32_t delay_given_fs = 0)
      : value(value_given), delay_fs(delay_given_fs), signal(signal_given.value() & (kMostSignals - 1)), action(of) {}

  std::uint64_t value;
  std::uint32_t delay_fs;  ///< from the present, or kFar
  std::uint32_t signal : 28;
  Action action : 4;
};
static_assert(sizeof(VcdChange) == 16);

class VcdFile {
 public:
  /// Writes only changes from `from` to `last`. @throws std::system_error if the file cannot be created
  VcdFile(const std::string& path, Time from, Time last) : from_(from), last_(last), out_(path) {}

  /// Before start(). Signals are numbered from 0.
  Signal add_signal(const std::string& name, VcdKind kind, unsigned width_bits);
  std::string code(Signal signal) const { return std::string(states_[signal].code.text()); }
  void start(const std::string& header);

  /// @param texts  the buffer to which the offsets of texts refer
  /// @throws std::logic_error if an addition exceeds the range of its wire; complete instants stay in the file
  void take(const VcdChange* first, const VcdChange* last, std::string_view texts);
  /// @throws std::system_error when any part of the file could not be written
  void finish(Time end);

 private:
  struct State {
    std::uint64_t value = 0;    // in the model: an integer, the bits of a double, or the number of texts so far
    std::uint64_t written = 0;  // in the file
    VcdCode code;
    std::uint32_t text = 0;  // strings: index into texts_
    VcdKind kind = VcdKind::wire;
    std::uint8_t width = 1;
    bool touched = false;  // in touched_
  };
  /// State of a held signal: when it falls, and the instant of its queued fall. The fall may have moved later since.
  struct Hold {
    Time falls_at = Time::max(), armed_at = Time::max();
  };
  struct Text {
    std::string value, written;
  };
  struct Pending {
    enum class Action : std::uint32_t { set, add, text, fall };
    Pending(Time at, std::uint64_t what, Signal of, Action how) : when(at), value(what), signal(of), action(how) {}
    Time when;
    std::uint64_t value;  // Action::text: index into waiting_texts_
    Signal signal;
    Action action;
  };

  void set(Signal signal, Time when, std::uint64_t value);
  void add(Signal signal, Time when, std::uint64_t difference);
  void set_text(Signal signal, Time when, std::string_view text);
  void fall_at(Signal signal, Time when);
  void post(Time when, std::uint64_t value, Signal signal, Pending::Action action) {
    if (when <= last_) upcoming_.post(when, value, signal, action);
  }
  void apply(const Pending& pending);
  void fall(const Pending& pending);
  void set_value(Signal signal, std::uint64_t value);
  void set_text_value(Signal signal, std::string_view text);
  void add_value(Signal signal, std::uint64_t difference);
  void touch(Signal signal, State& state);
  void move_to(Time now);
  void complete_instant(Time next);
  void write_changes();
  char* write_value(char* out, State& state);
  [[noreturn]] void refuse(Signal signal, std::uint64_t difference) const;
  void dump_initial_values();

  const Time from_, last_;
  VcdText out_;
  bool dumped_ = false;  // the initial values are out
  bool closed_ = false;  // past the last instant
  Time now_;
  Time far_;  // of the change that is next
  Time stamped_;
  Table<Signal, State> states_;
  Table<Signal, Hold> holds_;
  Table<Signal, std::string> names_;
  std::vector<Text> texts_;
  std::vector<Signal> touched_;
  Upcoming<Pending> upcoming_;
  std::vector<std::string> waiting_texts_;
  std::vector<std::uint32_t> free_texts_;
};

}  // namespace railyard::probe
