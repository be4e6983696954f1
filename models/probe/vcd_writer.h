// The waveform file: an IEEE 1364 value change dump (VCD) that is written only when values change.
//
// SystemC's own sc_trace compares every traced variable at every time step. With thousands of traced ports, this costs
// a hundred times as much as the model. Here the model reports each change with its time. A change may be posted for a
// later instant, since the end of an activity is often known at its start (a link is busy until its train has left).
// Changes are kept in order of (time, posting) and are written when advance() passes their time. Within one instant
// only the last value of a signal counts: a link that falls and rises at the same femtosecond shows no glitch.
//
//   VcdWriter vcd("trace.vcd", {});
//   Signal busy = vcd.add_wire("prefill0.plx0.port3.tx.busy", 1);
//   vcd.start();
//   vcd.advance(now);                        // once per distinct instant of the model, before its changes
//   vcd.busy_until(busy, now + duration);    // rises now, falls then; calling it again moves the fall, in O(1)
//   vcd.finish(end);
//
// The file has no date, so it is identical from run to run. It is written in whole instants: after an interrupted run,
// it is a valid waveform up to the last complete instant; after a kill during a write, up to a complete line. The time
// unit is 1 fs, as in the model. A thread of the writer keeps the posted changes and writes the file (vcd_file.h); the
// caller only collects changes in batches.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include "probe/vcd_file.h"

namespace railyard::probe {

/// The part of a run that is written.
struct VcdWindow {
  Time from;                         ///< earlier changes only set the values of the initial dump, stamped `from`
  Time to = Time::max();             ///< last instant written; never beyond 2^63 fs (2.5 h), the limit of GTKWave
  std::vector<std::string> filters;  ///< fnmatch globs on names as written, `*` matching dots too; one that matches a
                                     ///< scope takes all below it; none: every signal
};

class VcdWriter {
 public:
  /// @throws std::system_error when the file cannot be created
  explicit VcdWriter(const std::string& path, VcdWindow window = {});
  /// Writes the complete instants that are still buffered; errors are only reported by finish().
  ~VcdWriter();
  VcdWriter(const VcdWriter&) = delete;
  VcdWriter& operator=(const VcdWriter&) = delete;

  // Registration, before start(). A signal that the filter excludes is not valid(). Posting to it is allowed and costs
  // one branch; check valid() before rendering a text. Names are hierarchical with dots; each part becomes a scope
  // under the top scope `railyard`. Brackets are rewritten ("port[3]" -> port3, "GPU_P[0][3]" -> GPU_P0_3); any other
  // character that is not a letter, a digit, '_', '-' or '$' becomes '_'. The initial values are 0, 0.0 and "".
  // @throws std::logic_error for a duplicate name, a name with an empty part, a width out of range, or after start()
  Signal add_wire(std::string_view name, unsigned width_bits);  ///< an unsigned integer of 1 to 64 bits
  Signal add_real(std::string_view name);
  Signal add_string(std::string_view name);  ///< a GTKWave string variable: text drawn on the wave
  /// The name of a signal in GTKWave, "railyard.prefill0.gpu3.sm.active[7:0]"; empty if the filter excludes the signal.
  std::string full_name(Signal signal) const;

  /// Writes the header. The initial values follow when the first instant of the window is complete.
  void start();

  /// All changes before `now` are final. Changes at `now` are still possible; earlier ones are refused from now on.
  void advance(Time now) {
    if (now_ < now) now_ = now;
    if (last_ < now) closed_ = true;
  }
  Time now() const { return now_; }

  // Changes. @pre `when` >= now(). @throws std::logic_error for an earlier instant, or if a value does not fit the
  // wire. If the result of an addition does not fit, the file ends there, and a later call (at the latest finish())
  // throws. Drive a wire in one way only: by change() and add(), or by change_until().
  void change(Signal wire, Time when, std::uint64_t value) {
    if (heeds_value(wire, value)) say(wire, when, Action::set, value);
  }
  void change_real(Signal real, Time when, double value);  ///< finite
  void change_string(Signal string, Time when, std::string_view text);
  /// Adds to the value of the wire at `when`: bytes in flight, queue depth, credits.
  void add(Signal wire, Time when, std::int64_t difference);
  /// The wire is `value` from now() until `when`, and 0 afterwards. A later call replaces both. At most one fall per
  /// signal is pending.
  void change_until(Signal wire, Time when, std::uint64_t value) {
    if (heeds_value(wire, value)) say(wire, when, Action::hold, value);
  }
  void busy_until(Signal wire, Time when) { change_until(wire, when, 1); }
  /// The same for a string: it is `text` from now() until `when`, and empty afterwards.
  void text_until(Signal string, Time when, std::string_view text);

  /// Writes changes up to `end`, and `end` as the last timestamp. Later changes are dropped.
  /// @throws std::system_error if any part of the file could not be written
  void finish(Time end);

 private:
  struct Shape {
    VcdKind kind;
    std::uint8_t width;
  };
  // Size of a batch for the file's thread, and the number of batches that may wait: 1 MB in total.
  static constexpr std::size_t kBatchChanges = 8 * 1024;
  static constexpr std::size_t kMostBatches = 8;
  static constexpr std::size_t kMostOfChange = 3;  // entries of a change: the present, a far instant, the change
  struct Batch {
    std::vector<VcdChange> changes = std::vector<VcdChange>(kBatchChanges);  ///< the first `size` of these
    std::size_t size = 0;
    std::string texts;
  };
  using Action = VcdChange::Action;

  Signal add_signal(std::string_view name, VcdKind kind, unsigned width_bits);
  bool selected(const std::string& name) const;
  std::string header() const;
  /// False if a change has no effect: the signal is filtered out, or the window is over.
  bool heeds(Signal signal, VcdKind kind) const {
    if (!signal.valid() || closed_) return false;
    if (shapes_[signal].kind != kind) refuse_kind(signal);
    return true;
  }
  bool heeds_value(Signal wire, std::uint64_t value) const {
    if (!heeds(wire, VcdKind::wire)) return false;
    if (!fits(value, shapes_[wire].width)) refuse_value(wire, value);
    return true;
  }
  [[noreturn]] void refuse(Signal signal, const std::string& why) const;
  [[noreturn]] void refuse_kind(Signal signal) const;
  [[noreturn]] void refuse_value(Signal wire, std::uint64_t value) const;
  [[noreturn]] void refuse_time(Signal signal, Time when) const;
  void say_now() {
    if (said_ == now_) return;
    said_ = now_;
    batch_.changes[batch_.size++] = {Action::advance, now_.fs()};
  }
  void say(Signal signal, Time when, Action action, std::uint64_t value) {
    if (when < now_) refuse_time(signal, when);
    say_now();
    std::uint64_t delay_fs = (when - now_).fs();
    if (delay_fs >= VcdChange::kFar) {
      delay_fs = VcdChange::kFar;
      batch_.changes[batch_.size++] = {Action::far, when.fs()};
    }
    batch_.changes[batch_.size++] = {action, value, signal, static_cast<std::uint32_t>(delay_fs)};
    if (batch_.size + kMostOfChange > kBatchChanges) hand_over();
  }
  std::uint64_t keep(std::string_view text);
  void hand_over();
  void stop();
  void work();  // on the thread

  const VcdWindow window_;
  const Time last_;  // last instant that may be written
  bool started_ = false;
  bool closed_ = false;  // nothing more is written
  Time now_;
  Time said_;  // last instant passed to the file
  Table<Signal, Shape> shapes_;
  Table<Signal, std::string> names_;
  std::unordered_set<std::string> taken_;
  Batch batch_;

  std::mutex mutex_;  // protects all members below, except file_, which belongs to the thread while it runs
  std::condition_variable has_work_, has_room_;
  std::deque<Batch> waiting_;
  std::vector<Batch> used_;
  std::exception_ptr error_;
  bool stopping_ = false;
  VcdFile file_;
  std::thread thread_;
};

}  // namespace railyard::probe
