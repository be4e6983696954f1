// The links of a timeline. Each direction of a link has a track of bursts and two counters.
//
// A burst is a slice for consecutive trains of one class with gaps of at most kGap, and the bytes they carried. The
// counters are the share of time in which the line was charged, and the peak of queued bytes (window_counter.h). A
// direction without trains has no rows; so fluid links have none. In a large run, gaps within a burst are as long as the
// counters' windows.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "probe/timeline_file.h"
#include "probe/window_counter.h"
#include "transport/device/device.h"

namespace railyard::probe {

class TimelineLinks {
 public:
  static constexpr Time kGap = Time::us(2);

  /// `file` outlives it.
  TimelineLinks(TimelineFile& file, const std::vector<std::string>& class_names, bool large)
      : file_(file), class_names_(class_names), large_(large) {}

  /// A direction of a link, given by its sending port. @param home  the device in whose process it is shown
  void attach(const transport::Device& sender, PortId port, const std::string& name, const transport::Device& home);
  void on_start(const transport::Device& device, PortId port, const transport::Transaction& transaction, Time now,
                const transport::Crossing& crossing);
  void on_queue(const transport::Device& device, PortId port, Bytes queued, Time now);
  /// The trains of a replayed collective: one burst as long as the collective, with its mean use and its longest queue.
  void on_replay(const transport::Device& device, PortId port, std::uint8_t traffic_class,
                 const transport::PortCounters& added, Time from, Time until);
  void finish(Time end);

 private:
  struct Burst {
    Time from, until;
    Bytes bytes = 0, wire_bytes = 0;
    std::uint64_t trains = 0;
  };
  struct Direction {
    const transport::Device::Port* port = nullptr;
    std::string name;
    std::uint32_t process = 0, order = 0;
    Lanes lanes;
    std::vector<Burst> bursts;           ///< by class; zero trains: no open burst
    std::deque<WindowCounter> counters;  ///< use, queue; empty before the first train
    Time charged_from, charged_until;    ///< charge that is not yet in the counter
    Time queued_since;
    Bytes queued = 0;
  };

  /// A burst continues after a short gap, or a new one begins.
  Burst& burst(Direction& direction, std::uint8_t traffic_class, Time from);
  Direction* direction(const transport::Device& device, PortId port);
  void appear(Direction& direction);
  void count_use(Direction& direction, Time now);
  void count_queue(Direction& direction, Time now);
  void write(Direction& direction, std::size_t traffic_class);

  TimelineFile& file_;
  const std::vector<std::string> class_names_;
  const bool large_;
  std::deque<Direction> directions_;
  std::unordered_map<const transport::Device*, std::vector<Direction*>> by_port_;
  const transport::Device* latest_device_ = nullptr;  ///< device of the latest lookup
  std::vector<Direction*>* latest_ports_ = nullptr;
};

}  // namespace railyard::probe
