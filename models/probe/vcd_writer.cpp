#include "probe/vcd_writer.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>

#include "base/input_error.h"

namespace railyard::probe {
namespace {

constexpr char kTopScope[] = "railyard";
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

std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Scopes are written in the order in which the model first used them.
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
    : window_(std::move(window)), last_(sooner(window_.to, kViewerLimit)), file_(path, window_.from, last_) {}

VcdWriter::~VcdWriter() {
  if (!thread_.joinable()) return;
  say_now();
  stop();
}

Signal VcdWriter::add_wire(std::string_view name, unsigned width_bits) {
  if (width_bits < 1 || width_bits > kMaxWidthBits)
    throw std::logic_error("waveform signal '" + std::string(name) + "': a wire has 1 to 64 bits");
  return add_signal(name, VcdKind::wire, width_bits);
}
Signal VcdWriter::add_real(std::string_view name) { return add_signal(name, VcdKind::real, kMaxWidthBits); }
Signal VcdWriter::add_string(std::string_view name) { return add_signal(name, VcdKind::string, 1); }

Signal VcdWriter::add_signal(std::string_view name, VcdKind kind, unsigned width_bits) {
  if (started_) throw std::logic_error("waveform signal '" + std::string(name) + "' added after start()");
  std::string written = written_name(name);
  if (!taken_.insert(written).second) throw std::logic_error("waveform signal '" + written + "' added twice");
  if (!selected(written)) return Signal();
  if (shapes_.size() == VcdChange::kMostSignals) throw std::logic_error("waveform of too many signals");
  file_.add_signal(written, kind, width_bits);
  names_.push_back(std::move(written));
  return shapes_.push_back({kind, static_cast<std::uint8_t>(width_bits)});
}

bool VcdWriter::selected(const std::string& name) const {
  if (window_.filters.empty()) return true;
  return std::any_of(window_.filters.begin(), window_.filters.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), name.c_str(), 0) == 0 || fnmatch((glob + ".*").c_str(), name.c_str(), 0) == 0;
  });
}

std::string VcdWriter::full_name(Signal signal) const {
  if (!signal.valid()) return {};
  const Shape& shape = shapes_[signal];
  return std::string(kTopScope) + "." + names_[signal] + (shape.kind == VcdKind::wire ? range(shape.width) : "");
}

void VcdWriter::start() {
  if (started_) throw std::logic_error("waveform started twice");
  started_ = true;
  if (shapes_.size() == 0 && !window_.filters.empty())
    throw InputError(Origin{"--vcd-filter", 0, 0},
                     "'" + printable(window_.filters.back()) +
                         "' matches no signal; accepted: names of trace.gtkw without the outer scope, or globs, such "
                         "as '*gpu0*'");
  file_.start(header());
  thread_ = std::thread([this] { work(); });
}

std::string VcdWriter::header() const {
  Scope top;
  for (std::uint32_t i = 0; i < shapes_.size(); ++i) {
    const std::string& name = names_[Signal(i)];
    Scope* scope = &top;
    std::size_t begin = 0;
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
      scope = &scope->at(name.substr(begin, dot - begin));
      begin = dot + 1;
    }
    scope->signals.push_back(Signal(i));
  }
  std::string text = "$version Railyard $end\n$timescale 1 fs $end\n";
  const auto write = [&](const auto& self, const std::string& name, const Scope& scope) -> void {
    text += "$scope module " + name + " $end\n";
    for (const Signal signal : scope.signals) {
      const Shape& shape = shapes_[signal];
      const char* type = shape.kind == VcdKind::wire ? "wire " : shape.kind == VcdKind::real ? "real " : "string ";
      text += std::string("$var ") + type + std::to_string(shape.width) + " ";
      text += file_.code(signal) + " " + leaf(names_[signal]);
      if (shape.kind == VcdKind::wire && shape.width > 1) text += " " + range(shape.width);
      text += " $end\n";
    }
    for (const std::string& inner : scope.order) self(self, inner, *scope.inner.at(inner));
    text += "$upscope $end\n";
  };
  write(write, kTopScope, top);
  text += "$enddefinitions $end\n";
  return text;
}

void VcdWriter::refuse(Signal signal, const std::string& why) const {
  throw std::logic_error("waveform signal '" + names_[signal] + "' " + why);
}

void VcdWriter::refuse_kind(Signal signal) const { refuse(signal, "given a value of another kind"); }

void VcdWriter::refuse_value(Signal wire, std::uint64_t value) const {
  refuse(wire,
         "given " + std::to_string(value) + ", which does not fit in " + std::to_string(shapes_[wire].width) + " bits");
}

void VcdWriter::refuse_time(Signal signal, Time when) const {
  refuse(signal,
         "changed at " + std::to_string(when.fs()) + " fs, before the present " + std::to_string(now_.fs()) + " fs");
}

void VcdWriter::change_real(Signal real, Time when, double value) {
  if (!heeds(real, VcdKind::real)) return;
  if (!std::isfinite(value)) refuse(real, "is not finite");
  say(real, when, Action::set, bits_of(value));
}

void VcdWriter::change_string(Signal string, Time when, std::string_view text) {
  if (heeds(string, VcdKind::string)) say(string, when, Action::text, keep(text));
}

void VcdWriter::add(Signal wire, Time when, std::int64_t difference) {
  if (heeds(wire, VcdKind::wire)) say(wire, when, Action::add, static_cast<std::uint64_t>(difference));
}

void VcdWriter::text_until(Signal string, Time when, std::string_view text) {
  if (heeds(string, VcdKind::string)) say(string, when, Action::hold_text, keep(text));
}

std::uint64_t VcdWriter::keep(std::string_view text) {
  const std::uint64_t where = static_cast<std::uint64_t>(batch_.texts.size()) << 32 | text.size();
  batch_.texts += text;
  return where;
}

void VcdWriter::hand_over() {
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [this] { return !started_ || waiting_.size() < kMostBatches; });
  waiting_.push_back(std::move(batch_));
  if (used_.empty()) {
    batch_ = Batch();
  } else {
    batch_ = std::move(used_.back());
    used_.pop_back();
  }
  has_work_.notify_one();
  if (error_) std::rethrow_exception(error_);
}

// After an error, all further changes are dropped; the file stays valid up to the error.
void VcdWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    has_work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Batch batch = std::move(waiting_.front());
    waiting_.pop_front();
    has_room_.notify_one();
    const bool failed = error_ != nullptr;
    lock.unlock();
    std::exception_ptr error;
    try {
      if (!failed) file_.take(batch.changes.data(), batch.changes.data() + batch.size, batch.texts);
    } catch (...) {
      error = std::current_exception();
    }
    batch.size = 0;
    batch.texts.clear();
    lock.lock();
    if (error) error_ = error;
    used_.push_back(std::move(batch));
  }
}

void VcdWriter::stop() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(batch_));  // may exceed kMostBatches, since this is the last batch
    stopping_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void VcdWriter::finish(Time end) {
  if (!thread_.joinable()) throw std::logic_error("waveform finished before start() or twice");
  if (end < now_) throw std::logic_error("waveform finished before its present");
  advance(end);
  say_now();
  closed_ = true;
  stop();
  if (error_) std::rethrow_exception(error_);
  file_.finish(end);
}

}  // namespace railyard::probe
