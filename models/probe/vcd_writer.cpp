#include "probe/vcd_writer.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>

namespace railyard::probe {
namespace {

constexpr char kTopScope[] = "railyard";
constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr unsigned kMaxWidthBits = 64;
// VCD identifier codes are written in the printable characters from '!' to '~'.
constexpr char kFirstCodeCharacter = '!';
constexpr unsigned kCodeCharacters = 94;
constexpr Time kViewerLimit = Time::fs(static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));

std::string written_name(std::string_view name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == ']') {
      if (i + 1 < name.size() && name[i + 1] == '[') result += '_';
    } else if (c != '[') {
      const bool kept = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '$' || c == '.';
      result += kept ? c : '_';
    }
  }
  if (result.empty() || result.front() == '.' || result.back() == '.' || result.find("..") != std::string::npos)
    throw std::logic_error("waveform signal '" + std::string(name) + "' has an empty part in its name");
  return result;
}

// White space and what a terminal would not print would end a VCD token; GTKWave reads C escapes.
void append_escaped(std::string& out, const std::string& text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7f && c != '\\') {
      out += c;
    } else {
      const char escape[] = {'\\', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + ((byte >> 3) & 7)),
                             static_cast<char>('0' + (byte & 7))};
      out.append(escape, sizeof escape);
    }
  }
}

std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

double double_of(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Scopes keep the order in which the model named them first.
struct Scope {
  std::vector<Signal> signals;
  std::vector<std::string> order;
  std::map<std::string, std::unique_ptr<Scope>> inner;

  Scope& at(const std::string& name) {
    auto& scope = inner[name];
    if (!scope) {
      scope = std::make_unique<Scope>();
      order.push_back(name);
    }
    return *scope;
  }
};

std::string leaf(const std::string& name) { return name.substr(name.rfind('.') + 1); }
std::string range(unsigned width_bits) { return width_bits == 1 ? "" : "[" + std::to_string(width_bits - 1) + ":0]"; }

}  // namespace

VcdWriter::VcdWriter(const std::string& path, VcdWindow window)
    : path_(path), window_(std::move(window)), last_(sooner(window_.to, kViewerLimit)) {
  file_ = std::fopen(path.c_str(), "wb");
  if (!file_) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  std::setvbuf(file_, nullptr, _IONBF, 0);  // whole instants are handed over, from buffer_
  buffer_.reserve(2 * kBufferBytes);
}

VcdWriter::~VcdWriter() {
  flush();
  if (file_) std::fclose(file_);
}

Signal VcdWriter::add_wire(std::string_view name, unsigned width_bits) {
  if (width_bits < 1 || width_bits > kMaxWidthBits)
    throw std::logic_error("waveform signal '" + std::string(name) + "': a wire has 1 to 64 bits");
  return add_signal(name, Kind::wire, width_bits);
}
Signal VcdWriter::add_real(std::string_view name) { return add_signal(name, Kind::real, kMaxWidthBits); }
Signal VcdWriter::add_string(std::string_view name) { return add_signal(name, Kind::string, 1); }

Signal VcdWriter::add_signal(std::string_view name, Kind kind, unsigned width_bits) {
  if (started_) throw std::logic_error("waveform signal '" + std::string(name) + "' added after start()");
  std::string written = written_name(name);
  if (!taken_.insert(written).second) throw std::logic_error("waveform signal '" + written + "' added twice");
  if (!selected(written)) return Signal();
  State state;
  state.kind = kind;
  state.width = static_cast<std::uint8_t>(width_bits);
  std::size_t number = states_.size();
  do {
    state.code[state.code_size++] = static_cast<char>(kFirstCodeCharacter + number % kCodeCharacters);
    number /= kCodeCharacters;
  } while (number > 0);
  if (kind == Kind::string) {
    state.text = static_cast<std::uint32_t>(texts_.size());
    texts_.emplace_back();
  }
  names_.push_back(std::move(written));
  return states_.push_back(state);
}

bool VcdWriter::selected(const std::string& name) const {
  if (window_.filters.empty()) return true;
  return std::any_of(window_.filters.begin(), window_.filters.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), name.c_str(), 0) == 0 || fnmatch((glob + ".*").c_str(), name.c_str(), 0) == 0;
  });
}

std::string VcdWriter::full_name(Signal signal) const {
  if (!signal.valid()) return {};
  const State& state = states_[signal];
  return std::string(kTopScope) + "." + names_[signal] + (state.kind == Kind::wire ? range(state.width) : "");
}

void VcdWriter::start() {
  if (started_) throw std::logic_error("waveform started twice");
  started_ = true;
  write_header();
  flush();
}

void VcdWriter::write_header() {
  Scope top;
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    const std::string& name = names_[Signal(i)];
    Scope* scope = &top;
    std::size_t begin = 0;
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
      scope = &scope->at(name.substr(begin, dot - begin));
      begin = dot + 1;
    }
    scope->signals.push_back(Signal(i));
  }
  buffer_ += "$version Railyard $end\n$timescale 1 fs $end\n";
  const auto write = [&](const auto& self, const std::string& name, const Scope& scope) -> void {
    buffer_ += "$scope module " + name + " $end\n";
    for (const Signal signal : scope.signals) {
      const State& state = states_[signal];
      const char* type = state.kind == Kind::wire ? "wire " : state.kind == Kind::real ? "real " : "string ";
      buffer_ += std::string("$var ") + type + std::to_string(state.width) + " ";
      buffer_.append(state.code, state.code_size);
      buffer_ += " " + leaf(names_[signal]);
      if (state.kind == Kind::wire && state.width > 1) buffer_ += " " + range(state.width);
      buffer_ += " $end\n";
    }
    for (const std::string& inner : scope.order) self(self, inner, *scope.inner.at(inner));
    buffer_ += "$upscope $end\n";
  };
  write(write, kTopScope, top);
  buffer_ += "$enddefinitions $end\n";
}

// True when there is nothing to do: filtered out, or outside the window for good.
bool VcdWriter::ignores(Signal signal, Time when, Kind kind) {
  if (!signal.valid() || closed_) return true;
  if (when < now_)
    throw std::logic_error("waveform signal '" + names_[signal] + "' changed at " + std::to_string(when.fs()) +
                           " fs, before the present " + std::to_string(now_.fs()) + " fs");
  if (states_[signal].kind != kind)
    throw std::logic_error("waveform signal '" + names_[signal] + "' given a value of another kind");
  return last_ < when;
}

void VcdWriter::change(Signal wire, Time when, std::uint64_t value) {
  if (ignores(wire, when, Kind::wire)) return;
  check_fits(wire, states_[wire], value);
  if (when == now_)
    set_value(wire, value);
  else
    post(wire, when, Action::set, value);
}

void VcdWriter::change_real(Signal real, Time when, double value) {
  if (ignores(real, when, Kind::real)) return;
  if (!std::isfinite(value)) throw std::logic_error("waveform signal '" + names_[real] + "' is not finite");
  if (when == now_)
    set_value(real, bits_of(value));
  else
    post(real, when, Action::set, bits_of(value));
}

void VcdWriter::change_string(Signal string, Time when, std::string_view text) {
  if (ignores(string, when, Kind::string)) return;
  if (when == now_) {
    State& state = states_[string];
    texts_[state.text].value = text;
    touch(string, state);
    return;
  }
  if (free_texts_.empty()) {
    free_texts_.push_back(static_cast<std::uint32_t>(waiting_texts_.size()));
    waiting_texts_.emplace_back();
  }
  const std::uint32_t slot = free_texts_.back();
  free_texts_.pop_back();
  waiting_texts_[slot] = text;
  post(string, when, Action::text, slot);
}

void VcdWriter::add(Signal wire, Time when, std::int64_t difference) {
  if (ignores(wire, when, Kind::wire)) return;
  if (when == now_)
    add_value(wire, static_cast<std::uint64_t>(difference));
  else
    post(wire, when, Action::add, static_cast<std::uint64_t>(difference));
}

void VcdWriter::busy_until(Signal wire, Time when) {
  // A fall beyond the window still means that the wire is high within it.
  if (ignores(wire, now_, Kind::wire)) return;
  if (when < now_) throw std::logic_error("waveform signal '" + names_[wire] + "' was to fall in the past");
  set_value(wire, when == now_ ? 0 : 1);
  fall_at(wire, states_[wire], when);
}

void VcdWriter::text_until(Signal string, Time when, std::string_view text) {
  if (ignores(string, now_, Kind::string)) return;
  if (when < now_) throw std::logic_error("waveform signal '" + names_[string] + "' was to fall in the past");
  State& state = states_[string];
  texts_[state.text].value = when == now_ ? std::string_view() : text;
  touch(string, state);
  fall_at(string, state, when);
}

// A later fall is found when the waiting one comes up; only an earlier one needs an entry of its own.
void VcdWriter::fall_at(Signal signal, State& state, Time when) {
  state.falls_at = when;
  if (now_ < when && when < state.armed_at) {
    state.armed_at = when;
    post(signal, when, Action::fall, 0);
  }
}

void VcdWriter::fall(Signal signal, State& state) {
  if (state.kind != Kind::string) {
    set_value(signal, 0);
    return;
  }
  texts_[state.text].value.clear();
  touch(signal, state);
}

void VcdWriter::post(Signal signal, Time when, Action action, std::uint64_t value) {
  pending_.push_back({when, order_++, value, signal, action});
  std::push_heap(pending_.begin(), pending_.end(), std::greater<>());
}

void VcdWriter::apply(const Pending& pending) {
  State& state = states_[pending.signal];
  switch (pending.action) {
    case Action::set: set_value(pending.signal, pending.value); break;
    case Action::add: add_value(pending.signal, pending.value); break;
    case Action::text:
      texts_[state.text].value.swap(waiting_texts_[pending.value]);
      free_texts_.push_back(static_cast<std::uint32_t>(pending.value));
      touch(pending.signal, state);
      break;
    case Action::fall:
      if (state.armed_at != pending.when) break;  // replaced by an earlier fall
      state.armed_at = Time::max();
      if (pending.when < state.falls_at) {
        state.armed_at = state.falls_at;
        post(pending.signal, state.falls_at, Action::fall, 0);
      } else if (state.falls_at == pending.when) {
        fall(pending.signal, state);
      }
      break;
  }
}

void VcdWriter::set_value(Signal signal, std::uint64_t value) {
  State& state = states_[signal];
  if (state.value == value) return;
  state.value = value;
  touch(signal, state);
}

void VcdWriter::add_value(Signal signal, std::uint64_t difference) {
  const State& state = states_[signal];
  const std::uint64_t value = state.value + difference;
  const bool falls = static_cast<std::int64_t>(difference) < 0;
  if (falls ? state.value < value : value < state.value)
    throw std::logic_error("waveform signal '" + names_[signal] + "' would leave its range by an addition of " +
                           std::to_string(static_cast<std::int64_t>(difference)));
  check_fits(signal, state, value);
  set_value(signal, value);
}

void VcdWriter::check_fits(Signal signal, const State& state, std::uint64_t value) const {
  if (state.width < kMaxWidthBits && value >> state.width != 0)
    throw std::logic_error("waveform signal '" + names_[signal] + "': " + std::to_string(value) + " does not fit in " +
                           std::to_string(state.width) + " bits");
}

void VcdWriter::touch(Signal signal, State& state) {
  if (state.touched) return;
  state.touched = true;
  touched_.push_back(signal);
}

void VcdWriter::move_to(Time now) {
  const auto step = [this](Time when) {
    if (when == now_) return;
    complete_instant(when);
    now_ = when;
  };
  while (!closed_ && !pending_.empty() && pending_.front().when <= now) {
    step(pending_.front().when);
    std::pop_heap(pending_.begin(), pending_.end(), std::greater<>());
    const Pending soonest = pending_.back();
    pending_.pop_back();
    apply(soonest);
  }
  step(now);
}

// The present instant is over; the next one anything can happen in is `next`.
void VcdWriter::complete_instant(Time next) {
  if (closed_ || !started_) return;
  if (!dumped_) {
    if (window_.from < next) dump_initial_values();
  } else {
    for (const Signal signal : touched_) {
      State& state = states_[signal];
      state.touched = false;
      const bool same = state.kind == Kind::string ? texts_[state.text].value == texts_[state.text].written
                                                   : state.value == state.written;
      if (same) continue;
      stamp(now_);
      write_value(state);
    }
    touched_.clear();
  }
  if (last_ < next) closed_ = true;
  if (buffer_.size() >= kBufferBytes) flush();
}

void VcdWriter::dump_initial_values() {
  dumped_ = true;
  buffer_ += "#" + std::to_string(window_.from.fs()) + "\n$dumpvars\n";
  stamped_ = window_.from;
  for (State& state : states_) {
    state.touched = false;
    write_value(state);
  }
  touched_.clear();
  buffer_ += "$end\n";
}

void VcdWriter::stamp(Time when) {
  if (stamped_ == when) return;
  stamped_ = when;
  char line[24];
  line[0] = '#';
  char* end = std::to_chars(line + 1, line + sizeof line - 1, when.fs()).ptr;
  *end++ = '\n';
  buffer_.append(line, static_cast<std::size_t>(end - line));
}

void VcdWriter::write_value(State& state) {
  if (state.kind == Kind::string) {
    Text& text = texts_[state.text];
    buffer_ += 's';
    append_escaped(buffer_, text.value);
    buffer_ += ' ';
    buffer_.append(state.code, state.code_size);
    buffer_ += '\n';
    text.written = text.value;
    return;
  }
  char line[kMaxWidthBits + 16];
  char* end = line;
  if (state.kind == Kind::real) {
    *end++ = 'r';
    end = std::to_chars(end, line + kMaxWidthBits, double_of(state.value)).ptr;  // the shortest that reads back exactly
    *end++ = ' ';
  } else if (state.width == 1) {
    *end++ = static_cast<char>('0' + state.value);
  } else {
    *end++ = 'b';
    end = std::to_chars(end, line + kMaxWidthBits + 1, state.value, 2).ptr;
    *end++ = ' ';
  }
  std::memcpy(end, state.code, state.code_size);
  end += state.code_size;
  *end++ = '\n';
  buffer_.append(line, static_cast<std::size_t>(end - line));
  state.written = state.value;
}

void VcdWriter::flush() {
  if (file_ && write_error_ == 0 && !buffer_.empty() &&
      std::fwrite(buffer_.data(), 1, buffer_.size(), file_) != buffer_.size())
    write_error_ = errno;
  buffer_.clear();
}

void VcdWriter::finish(Time end) {
  if (!started_ || !file_) throw std::logic_error("waveform finished before start() or twice");
  if (end < now_) throw std::logic_error("waveform finished before its present");
  advance(end);
  if (dumped_ || window_.from <= end) complete_instant(Time::max());
  if (dumped_) stamp(sooner(end, last_));
  closed_ = true;
  flush();
  if (std::fclose(file_) != 0 && write_error_ == 0) write_error_ = errno;
  file_ = nullptr;
  if (write_error_ != 0) throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(write_error_));
}

}  // namespace railyard::probe
