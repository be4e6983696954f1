#include "probe/vcd_file.h"

#include <cstring>
#include <stdexcept>

namespace railyard::probe {
namespace {

double double_of(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::string_view text_of(const VcdChange& change, std::string_view texts) {
  return texts.substr(change.value >> 32, change.value & 0xffffffff);
}

}  // namespace

Signal VcdFile::add_signal(const std::string& name, VcdKind kind, unsigned width_bits) {
  State state;
  state.code = VcdCode(static_cast<std::uint32_t>(states_.size()));
  state.kind = kind;
  state.width = static_cast<std::uint8_t>(width_bits);
  if (kind == VcdKind::string) {
    state.text = static_cast<std::uint32_t>(texts_.size());
    texts_.emplace_back();
  }
  names_.push_back(name);
  holds_.push_back({});
  return states_.push_back(state);
}

void VcdFile::start(const std::string& header) {
  out_.raw(header);
  out_.write();
}

inline void VcdFile::touch(Signal signal, State& state) {
  if (state.touched) return;
  state.touched = true;
  touched_.push_back(signal);
}

inline void VcdFile::set_value(Signal signal, std::uint64_t value) {
  State& state = states_[signal];
  if (state.value == value) return;
  state.value = value;
  touch(signal, state);
}

inline void VcdFile::add_value(Signal signal, std::uint64_t difference) {
  const State& state = states_[signal];
  const std::uint64_t value = state.value + difference;
  const bool wraps = static_cast<std::int64_t>(difference) < 0 ? state.value < value : value < state.value;
  if (!fits(value, state.width) || (state.width == kMaxWidthBits && wraps)) refuse(signal, difference);
  set_value(signal, value);
}

void VcdFile::refuse(Signal signal, std::uint64_t difference) const {
  throw std::logic_error("waveform signal '" + names_[signal] + "' would leave its range by an addition of " +
                         std::to_string(static_cast<std::int64_t>(difference)));
}

void VcdFile::set_text_value(Signal signal, std::string_view text) {
  State& state = states_[signal];
  texts_[state.text].value = text;
  set_value(signal, state.value + 1);
}

inline void VcdFile::set(Signal signal, Time when, std::uint64_t value) {
  if (when == now_) return set_value(signal, value);
  post(when, value, signal, Pending::Action::set);
}

inline void VcdFile::add(Signal signal, Time when, std::uint64_t difference) {
  if (when == now_) return add_value(signal, difference);
  post(when, difference, signal, Pending::Action::add);
}

void VcdFile::set_text(Signal signal, Time when, std::string_view text) {
  if (when == now_) return set_text_value(signal, text);
  if (last_ < when) return;
  if (free_texts_.empty()) {
    free_texts_.push_back(static_cast<std::uint32_t>(waiting_texts_.size()));
    waiting_texts_.emplace_back();
  }
  const std::uint32_t slot = free_texts_.back();
  free_texts_.pop_back();
  waiting_texts_[slot] = text;
  post(when, slot, signal, Pending::Action::text);
}

// When a queued fall is due, a later fall is queued again. Only an earlier fall needs a new entry.
inline void VcdFile::fall_at(Signal signal, Time when) {
  Hold& hold = holds_[signal];
  hold.falls_at = when;
  if (now_ < when && when < hold.armed_at) {
    hold.armed_at = when;
    post(when, 0, signal, Pending::Action::fall);
  }
}

inline void VcdFile::fall(const Pending& pending) {
  Hold& hold = holds_[pending.signal];
  if (hold.armed_at != pending.when) return;  // an earlier fall has replaced this one
  hold.armed_at = Time::max();
  if (pending.when < hold.falls_at) {
    hold.armed_at = hold.falls_at;
    post(hold.falls_at, 0, pending.signal, Pending::Action::fall);
  } else if (hold.falls_at == pending.when) {
    if (states_[pending.signal].kind == VcdKind::string) return set_text_value(pending.signal, {});
    set_value(pending.signal, 0);
  }
}

inline void VcdFile::apply(const Pending& pending) {
  switch (pending.action) {
    case Pending::Action::set: set_value(pending.signal, pending.value); break;
    case Pending::Action::add: add_value(pending.signal, pending.value); break;
    case Pending::Action::text:
      set_text_value(pending.signal, waiting_texts_[pending.value]);
      free_texts_.push_back(static_cast<std::uint32_t>(pending.value));
      break;
    case Pending::Action::fall: fall(pending); break;
  }
}

void VcdFile::move_to(Time now) {
  const auto step = [this](Time when) {
    if (when == now_ || closed_) return;
    complete_instant(when);
    now_ = when;
  };
  while (!closed_) {
    const Pending* next = upcoming_.due(now);
    if (next == nullptr) break;
    const Pending soonest = *next;
    upcoming_.pop();
    step(soonest.when);
    apply(soonest);
  }
  step(now);
}

// The present instant is over; no change happens before `next`.
void VcdFile::complete_instant(Time next) {
  if (!dumped_) {
    if (from_ < next) dump_initial_values();
  } else if (!touched_.empty()) {
    write_changes();
  }
  if (last_ < next) closed_ = true;
}

void VcdFile::write_changes() {
  char* out = out_.begin(touched_.size() + 1);
  for (const Signal signal : touched_) {
    State& state = states_[signal];
    state.touched = false;
    if (state.value == state.written) continue;
    if (state.kind == VcdKind::string && texts_[state.text].value == texts_[state.text].written) continue;
    if (stamped_ != now_) {
      stamped_ = now_;
      out = out_.stamp(out, now_);
    }
    out = write_value(out, state);
  }
  out_.end(out);
  touched_.clear();
  out_.may_write();
}

void VcdFile::dump_initial_values() {
  dumped_ = true;
  stamped_ = from_;
  out_.stamp(from_);
  out_.raw("$dumpvars\n");
  char* out = out_.begin(states_.size());
  for (State& state : states_) {
    state.touched = false;
    out = write_value(out, state);
  }
  out_.end(out);
  touched_.clear();
  out_.raw("$end\n");
}

inline char* VcdFile::write_value(char* out, State& state) {
  state.written = state.value;
  if (state.kind == VcdKind::wire)
    return state.width == 1 ? VcdText::scalar(out, state.value != 0, state.code)
                            : VcdText::vector(out, state.value, state.code);
  if (state.kind == VcdKind::real) return out_.real(out, double_of(state.value), state.code);
  Text& text = texts_[state.text];
  text.written = text.value;
  return out_.string(out, text.value, state.code);
}

void VcdFile::take(const VcdChange* first, const VcdChange* last, std::string_view texts) {
  using Action = VcdChange::Action;
  if (closed_) return;
  for (const VcdChange* c = first; c != last; ++c) {
    const Signal signal(c->signal);
    const Time when = c->delay_fs == VcdChange::kFar ? far_ : now_ + Time::fs(c->delay_fs);
    switch (c->action) {
      case Action::advance:
        move_to(Time::fs(c->value));
        if (closed_) return;
        break;
      case Action::far: far_ = Time::fs(c->value); break;
      case Action::set: set(signal, when, c->value); break;
      case Action::add: add(signal, when, c->value); break;
      case Action::text: set_text(signal, when, text_of(*c, texts)); break;
      case Action::hold:  // a fall after the window: the wire keeps its value to the end of the window
        set_value(signal, when == now_ ? 0 : c->value);
        fall_at(signal, when);
        break;
      case Action::hold_text:
        set_text_value(signal, when == now_ ? std::string_view() : text_of(*c, texts));
        fall_at(signal, when);
        break;
    }
  }
}

void VcdFile::finish(Time end) {
  move_to(end);
  if (!closed_ && (dumped_ || from_ <= end)) complete_instant(Time::max());
  if (const Time stop = sooner(end, last_); dumped_ && stamped_ != stop) out_.stamp(stop);
  closed_ = true;
  out_.close();
}

}  // namespace railyard::probe
