// The requests of a timeline. A request has a lane from its arrival to its end, with a slice for the whole request and
// inner slices for its phases that take time. Counters show the number of requests in each phase and the promised KV
// cache.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "probe/timeline_file.h"
#include "workload/request_listener.h"

namespace railyard::probe {

class TimelineRequests final : public workload::RequestListener {
 public:
  /// `file` outlives it.
  explicit TimelineRequests(TimelineFile& file) : file_(file), process_(file.process("requests")) {}

  void on_phase(std::uint32_t request, workload::RequestPhase phase, Time now) override;
  void on_kv_promised(const std::string& group, std::uint32_t stage, Bytes bytes, Time now) override;
  void finish(Time end);

 private:
  static constexpr std::size_t kPhases = static_cast<std::size_t>(workload::RequestPhase::done);
  struct Request {
    std::size_t lane = 0;
    Time arrived, since;
    std::size_t phase = 0;
  };

  void write_phase(const Request& request, Time until);
  void write_whole(std::uint32_t number, const Request& request, Time until);
  void count(std::size_t phase, std::int64_t more, Time now);

  TimelineFile& file_;
  const std::uint32_t process_;
  std::map<std::uint32_t, Request> requests_;  ///< requests that are not done
  std::vector<TraceTrack> lanes_;
  std::vector<bool> taken_;
  std::array<std::uint64_t, kPhases> in_phase_{};
};

}  // namespace railyard::probe
