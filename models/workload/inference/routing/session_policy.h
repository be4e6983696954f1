// Requests of one session go to one instance: a ring of hashes (vllm-project/production-stack, routing_logic.py, SessionRouter).
// When an instance cannot take a request, only its sessions move. A request without a session goes to the instance that was sent the
// fewest requests in the last minute.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "workload/inference/routing/least.h"

namespace railyard::workload::inference {

class SessionPolicy : public RoutingPolicy {
 public:
  /// @param names  of all instances, by id
  explicit SessionPolicy(const std::vector<std::string>& names) {
    // uhashring's points of a node with weight 1 in its ketama mode.
    constexpr std::uint32_t kPoints = 160;
    for (std::uint32_t id = 0; id < names.size(); ++id)
      for (std::uint32_t point = 0; point < kPoints; ++point) ring_.push_back({hashed(names[id], point), id});
    std::sort(ring_.begin(), ring_.end());
  }

  std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                       std::vector<double>& scores) override {
    if (asked.request.session == 0) {
      for (const std::uint32_t id : candidates) scores.push_back(view.recent(id));
      return least(candidates, scores);
    }
    const auto after = std::lower_bound(ring_.begin(), ring_.end(), std::pair(spread(asked.request.session), 0u));
    for (std::size_t i = 0, at = static_cast<std::size_t>(after - ring_.begin());; ++i) {
      const std::uint32_t id = ring_[(at + i) % ring_.size()].second;
      if (std::binary_search(candidates.begin(), candidates.end(), id)) return id;
    }
  }

 private:
  static std::uint64_t spread(std::uint64_t value) { return own_content(value, 0); }
  static std::uint64_t hashed(const std::string& name, std::uint32_t point) {
    std::uint64_t hash = point;
    for (const char letter : name) hash = own_content(hash, static_cast<unsigned char>(letter));
    return hash;
  }

  std::vector<std::pair<std::uint64_t, std::uint32_t>> ring_;  ///< hashes and instances
};

}  // namespace railyard::workload::inference
