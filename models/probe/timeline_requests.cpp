#include "probe/timeline_requests.h"

#include <algorithm>

namespace railyard::probe {

namespace {

constexpr std::array<const char*, 6> kNames{"host", "queued", "prefill", "handoff", "decode queued", "decode"};

}  // namespace

void TimelineRequests::on_phase(std::uint32_t number, workload::RequestPhase phase, Time now) {
  static_assert(kNames.size() == kPhases);
  const auto [found, arrives] = requests_.try_emplace(number);
  Request& request = found->second;
  if (arrives) {
    request.lane = static_cast<std::size_t>(std::find(taken_.begin(), taken_.end(), false) - taken_.begin());
    if (request.lane == lanes_.size()) {
      lanes_.push_back(file_.events.add_track(process_, "lane " + std::to_string(lanes_.size() + 1)));
      taken_.push_back(true);
    }
    taken_[request.lane] = true;
    request.arrived = now;
  } else {
    write_phase(request, now);
    count(request.phase, -1, now);
  }
  request.phase = static_cast<std::size_t>(phase);
  request.since = now;
  if (phase != workload::RequestPhase::done) {
    count(request.phase, 1, now);
    return;
  }
  write_whole(number, request, now);
  taken_[request.lane] = false;
  requests_.erase(found);
}

void TimelineRequests::on_kv_promised(const std::string& group, std::uint32_t stage, Bytes bytes, Time now) {
  file_.events.counter(process_, "KV promised " + group, "stage " + std::to_string(stage) + " bytes", now, bytes);
}

void TimelineRequests::write_phase(const Request& request, Time until) {
  if (request.since == until) return;
  file_.events.slice(lanes_[request.lane], "phase", kNames[request.phase], request.since, until);
}

void TimelineRequests::write_whole(std::uint32_t number, const Request& request, Time until) {
  file_.events.slice(lanes_[request.lane], "request", "Req[" + std::to_string(number) + "]", request.arrived, until);
}

void TimelineRequests::count(std::size_t phase, std::int64_t more, Time now) {
  in_phase_[phase] += static_cast<std::uint64_t>(more);
  file_.events.counter(process_, "requests", kNames[phase], now, in_phase_[phase]);
}

void TimelineRequests::finish(Time end) {
  for (const auto& [number, request] : requests_) {
    write_phase(request, end);
    write_whole(number, request, end);
  }
}

}  // namespace railyard::probe
