#include "probe/vcd_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <stdexcept>

namespace railyard::probe {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;
// VCD identifier codes are written in the printable characters from '!' to '~'.
constexpr char kFirstCodeCharacter = '!';
constexpr unsigned kCodeCharacters = 94;

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

double double_of(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::string_view text_of(const VcdChange& change, std::string_view texts) {
  return texts.substr(change.value >> 32, change.value & 0xffffffff);
}

}  // namespace

VcdFile::VcdFile(const std::string& path, Time from, Time last) : path_(path), from_(from), last_(last) {
  file_ = std::fopen(path.c_str(), "wb");
  if (!file_) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  std::setvbuf(file_, nullptr, _IONBF, 0);  // whole instants are handed over, from buffer_
  buffer_.reserve(2 * kBufferBytes);
}

VcdFile::~VcdFile() {
  flush();
  if (file_) std::fclose(file_);
}

Signal VcdFile::add_signal(const std::string& name, VcdKind kind, unsigned width_bits) {
  State state;
  names_.push_back(name);
  state.kind = kind;
  state.width = static_cast<std::uint8_t>(width_bits);
  std::size_t number = states_.size();
  do {
    state.code[state.code_size++] = static_cast<char>(kFirstCodeCharacter + number % kCodeCharacters);
    number /= kCodeCharacters;
  } while (number > 0);
  if (kind == VcdKind::string) {
    state.text = static_cast<std::uint32_t>(texts_.size());
    texts_.emplace_back();
  }
  return states_.push_back(state);
}

void VcdFile::start(const std::string& header) {
  started_ = true;
  buffer_ += header;
  flush();
}

void VcdFile::take(const VcdChange& c, std::string_view texts) {
  if (c.action == Action::advance) return move_to(c.when);
  const bool is_hold = c.action == Action::hold || c.action == Action::hold_text;
  if (closed_ || (!is_hold && last_ < c.when)) return;
  switch (c.action) {
    case Action::set:
      if (c.when == now_) return set_value(c.signal, c.value);
      return post(c.signal, c.when, Action::set, c.value);
    case Action::add:
      if (c.when == now_) return add_value(c.signal, c.value);
      return post(c.signal, c.when, Action::add, c.value);
    case Action::text:
      if (c.when == now_) return set_text(c.signal, text_of(c, texts));
      return post_text(c.signal, c.when, text_of(c, texts));
    case Action::hold:  // a fall beyond the window still means that the wire is high within it
      set_value(c.signal, c.when == now_ ? 0 : 1);
      return fall_at(c.signal, states_[c.signal], c.when);
    case Action::hold_text:
      set_text(c.signal, c.when == now_ ? std::string_view() : text_of(c, texts));
      return fall_at(c.signal, states_[c.signal], c.when);
    case Action::advance:
    case Action::fall: break;
  }
}

void VcdFile::set_text(Signal signal, std::string_view text) {
  State& state = states_[signal];
  texts_[state.text].value = text;
  touch(signal, state);
}

void VcdFile::post_text(Signal signal, Time when, std::string_view text) {
  if (free_texts_.empty()) {
    free_texts_.push_back(static_cast<std::uint32_t>(waiting_texts_.size()));
    waiting_texts_.emplace_back();
  }
  const std::uint32_t slot = free_texts_.back();
  free_texts_.pop_back();
  waiting_texts_[slot] = text;
  post(signal, when, Action::text, slot);
}

// A later fall is found when the waiting one comes up; only an earlier one needs an entry of its own.
void VcdFile::fall_at(Signal signal, State& state, Time when) {
  state.falls_at = when;
  if (now_ < when && when < state.armed_at) {
    state.armed_at = when;
    post(signal, when, Action::fall, 0);
  }
}

void VcdFile::fall(Signal signal, State& state) {
  if (state.kind != VcdKind::string) {
    set_value(signal, 0);
    return;
  }
  texts_[state.text].value.clear();
  touch(signal, state);
}

void VcdFile::post(Signal signal, Time when, Action action, std::uint64_t value) {
  pending_.push_back({when, order_++, value, signal, action});
  std::push_heap(pending_.begin(), pending_.end(), std::greater<>());
}

void VcdFile::apply(const Pending& pending) {
  State& state = states_[pending.signal];
  if (pending.action == Action::set) {
    set_value(pending.signal, pending.value);
  } else if (pending.action == Action::add) {
    add_value(pending.signal, pending.value);
  } else if (pending.action == Action::text) {
    texts_[state.text].value.swap(waiting_texts_[pending.value]);
    free_texts_.push_back(static_cast<std::uint32_t>(pending.value));
    touch(pending.signal, state);
  } else if (state.armed_at == pending.when) {  // a fall that no earlier one has replaced
    state.armed_at = Time::max();
    if (pending.when < state.falls_at) {
      state.armed_at = state.falls_at;
      post(pending.signal, state.falls_at, Action::fall, 0);
    } else if (state.falls_at == pending.when) {
      fall(pending.signal, state);
    }
  }
}

void VcdFile::set_value(Signal signal, std::uint64_t value) {
  State& state = states_[signal];
  if (state.value == value) return;
  state.value = value;
  touch(signal, state);
}

void VcdFile::add_value(Signal signal, std::uint64_t difference) {
  const State& state = states_[signal];
  const std::uint64_t value = state.value + difference;
  const bool falls = static_cast<std::int64_t>(difference) < 0;
  if ((falls ? state.value < value : value < state.value) || !fits(value, state.width))
    throw std::logic_error("waveform signal '" + names_[signal] + "' would leave its range by an addition of " +
                           std::to_string(static_cast<std::int64_t>(difference)));
  set_value(signal, value);
}

void VcdFile::touch(Signal signal, State& state) {
  if (state.touched) return;
  state.touched = true;
  touched_.push_back(signal);
}

void VcdFile::move_to(Time now) {
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
void VcdFile::complete_instant(Time next) {
  if (closed_ || !started_) return;
  if (!dumped_) {
    if (from_ < next) dump_initial_values();
  } else {
    for (const Signal signal : touched_) {
      State& state = states_[signal];
      state.touched = false;
      const bool same = state.kind == VcdKind::string ? texts_[state.text].value == texts_[state.text].written
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

void VcdFile::dump_initial_values() {
  dumped_ = true;
  buffer_ += "#" + std::to_string(from_.fs()) + "\n$dumpvars\n";
  stamped_ = from_;
  for (State& state : states_) {
    state.touched = false;
    write_value(state);
  }
  touched_.clear();
  buffer_ += "$end\n";
}

void VcdFile::stamp(Time when) {
  if (stamped_ == when) return;
  stamped_ = when;
  char line[24];
  line[0] = '#';
  char* end = std::to_chars(line + 1, line + sizeof line - 1, when.fs()).ptr;
  *end++ = '\n';
  buffer_.append(line, static_cast<std::size_t>(end - line));
}

void VcdFile::write_value(State& state) {
  if (state.kind == VcdKind::string) {
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
  if (state.kind == VcdKind::real) {
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

void VcdFile::flush() {
  if (file_ && write_error_ == 0 && !buffer_.empty() &&
      std::fwrite(buffer_.data(), 1, buffer_.size(), file_) != buffer_.size())
    write_error_ = errno;
  buffer_.clear();
}

void VcdFile::finish(Time end) {
  move_to(end);
  if (dumped_ || from_ <= end) complete_instant(Time::max());
  if (dumped_) stamp(sooner(end, last_));
  closed_ = true;
  flush();
  if (std::fclose(file_) != 0 && write_error_ == 0) write_error_ = errno;
  file_ = nullptr;
  if (write_error_ != 0) throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(write_error_));
}

}  // namespace railyard::probe
