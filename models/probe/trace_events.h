// A file of Chrome trace events, gzipped: what ui.perfetto.dev, trace_processor and chrome://tracing open. Format: "Trace Event
// Format" (Google, 2016) and Perfetto's reading of it.
//
// Viewers keep nanoseconds, so both ends of a slice are rounded down to one: slices that do not overlap in the model do not in
// the file. Slices that overlap on one track are dropped by viewers, without a word, unless one is within the other: whoever
// writes keeps them apart. A file that was cut short lacks the end of its JSON list, which viewers do without.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "base/units.h"

namespace railyard::probe {

/// A row of the viewer: a process and one of its threads, as the format calls them.
struct TraceTrack {
  std::uint32_t process = 0;
  std::uint32_t thread = 0;
};

/// What a viewer shows of a slice that is selected.
struct TraceArgument {
  TraceArgument(const char* name, std::string_view words) : key(name), text(words), is_text(true) {}
  TraceArgument(const char* name, std::uint64_t count) : key(name), number(count) {}
  const char* key;
  std::string_view text;
  std::uint64_t number = 0;
  bool is_text = false;
};

class TraceEvents {
 public:
  enum class Flow : char { begin = 's', end = 'f' };

  /// @throws std::runtime_error when the file cannot be created
  explicit TraceEvents(const std::string& path);
  ~TraceEvents();
  TraceEvents(const TraceEvents&) = delete;
  TraceEvents& operator=(const TraceEvents&) = delete;

  /// A process; viewers show them by `order`, where there is none in the order in which they were added.
  std::uint32_t add_process(std::string_view name, std::uint32_t order = 0);
  /// A track of it; the same of order.
  TraceTrack add_track(std::uint32_t process, std::string_view name, std::uint32_t order = 0);

  // Names, kinds and texts are the model's own words: letters, digits, brackets and the like, which JSON does not escape.
  void slice(TraceTrack track, std::string_view kind, std::string_view name, Time from, Time to,
             const std::vector<TraceArgument>& arguments = {});
  /// Viewers show it as "name series": "HBM GB/s".
  void counter(std::uint32_t process, std::string_view name, std::string_view series, Time at, std::uint64_t value);
  void counter(std::uint32_t process, std::string_view name, std::string_view series, Time at, double value);
  /// An end of an arrow, on the slice of that track that was written last and began at `at`.
  void flow(Flow what, TraceTrack track, Time at, std::uint64_t id);

  /// @throws std::runtime_error when any part of the file could not be written
  void close();

 private:
  template <class Value>
  void write_counter(std::uint32_t process, std::string_view name, std::string_view series, Time at, Value value);
  void end_event();
  void write();

  const std::string path_;
  gzFile file_ = nullptr;
  bool failed_ = false;
  fmt::memory_buffer buffer_;
  std::uint32_t processes_ = 0, tracks_ = 0;
};

}  // namespace railyard::probe
