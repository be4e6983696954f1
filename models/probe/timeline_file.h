// Shared by the parts of a timeline: the file, its processes (one per device), and lanes.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "probe/trace_events.h"

namespace railyard::probe {

class TimelineFile {
 public:
  /// @throws std::system_error when the file cannot be created
  explicit TimelineFile(const std::string& path) : events(path) {}

  /// The process of a device, added at the first call. @param label  added to its name at the first call
  std::uint32_t process(const std::string& device, const std::string& label = {}) {
    const auto [found, is_new] = processes_.try_emplace(device, 0);
    if (is_new) found->second = events.add_process(label.empty() ? device : device + " " + label);
    return found->second;
  }

  TraceEvents events;

 private:
  std::unordered_map<std::string, std::uint32_t> processes_;
};

/// Tracks with the same name: as many as needed to keep slices from overlapping. Names are numbered from the second
/// track on.
class Lanes {
 public:
  Lanes() = default;
  /// @param order  position among the tracks of the process; 0: in the order of adding
  Lanes(std::uint32_t process, std::string name, std::uint32_t order = 0)
      : process_(process), name_(std::move(name)), order_(order) {}

  bool made() const { return process_ != 0; }
  const std::string& name() const { return name_; }
  /// The track for a slice. Slices may come in any order.
  TraceTrack place(TraceEvents& events, Time from, Time to) {
    for (Lane& lane : lanes_) {
      if (from < lane.end) continue;
      lane.end = to;
      return lane.track;
    }
    const std::size_t number = lanes_.size() + 1;
    const TraceTrack track =
        events.add_track(process_, number == 1 ? name_ : name_ + " " + std::to_string(number), order_);
    lanes_.push_back({track, to});
    return track;
  }

 private:
  struct Lane {
    TraceTrack track;
    Time end;  ///< end of its last slice
  };
  std::uint32_t process_ = 0;
  std::string name_;
  std::uint32_t order_ = 0;
  std::vector<Lane> lanes_;
};

}  // namespace railyard::probe
