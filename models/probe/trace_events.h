// A gzipped file of Chrome trace events, for ui.perfetto.dev, trace_processor and chrome://tracing. Format: "Trace
// Event Format" (Google, 2016), as Perfetto reads it.
//
// Viewers have a resolution of 1 ns. Both ends of a slice are rounded down, so slices that do not overlap in the model
// do not overlap in the file. Viewers silently drop slices that overlap on one track, unless one contains the other;
// callers must keep them apart. An interrupted file lacks the end of its JSON list; viewers accept that.
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

/// A detail that a viewer shows for a selected slice.
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

  /// @throws std::system_error when the file cannot be created
  explicit TraceEvents(const std::string& path);
  ~TraceEvents();
  TraceEvents(const TraceEvents&) = delete;
  TraceEvents& operator=(const TraceEvents&) = delete;

  /// Adds a process. Viewers sort processes by `order`, or without it by the order of adding.
  std::uint32_t add_process(std::string_view name, std::uint32_t order = 0);
  /// Adds a track to a process; `order` as for processes.
  TraceTrack add_track(std::uint32_t process, std::string_view name, std::uint32_t order = 0);

  // Names, kinds and texts come from the model. They contain letters, digits and brackets, which need no escapes in
  // JSON.
  void slice(TraceTrack track, std::string_view kind, std::string_view name, Time from, Time to,
             const std::vector<TraceArgument>& arguments = {});
  /// Viewers show the counter as "name series": "HBM GB/s".
  void counter(std::uint32_t process, std::string_view name, std::string_view series, Time at, std::uint64_t value);
  void counter(std::uint32_t process, std::string_view name, std::string_view series, Time at, double value);
  /// One end of an arrow. It is attached to the slice of the track that was written last and began at `at`.
  void flow(Flow what, TraceTrack track, Time at, std::uint64_t id);

  /// @throws std::system_error when any part of the file could not be written
  void close();

 private:
  template <class Value>
  void write_counter(std::uint32_t process, std::string_view name, std::string_view series, Time at, Value value);
  void end_event();
  void write();

  const std::string path_;
  gzFile file_ = nullptr;
  int error_ = 0;  ///< the first error of the system; 0: none
  fmt::memory_buffer buffer_;
  std::uint32_t processes_ = 0, tracks_ = 0;
};

}  // namespace railyard::probe
