#include "transport/fluid/shares.h"

#include <algorithm>
#include <numeric>

namespace railyard::transport {

void PortShares::divide(std::vector<Part>& parts, double capacity) {
  if (parts.size() == 1) {
    parts[0].room = capacity;
    return;
  }
  if (parts.size() == 2) {  // as below; most lines are divided between two
    const bool first_asks_less = parts[0].demand * parts[1].weight <= parts[1].demand * parts[0].weight;
    Part& less = parts[first_asks_less ? 0 : 1];
    Part& more = parts[first_asks_less ? 1 : 0];
    const double weights = less.weight + more.weight;
    const auto level_beside = [&](const Part& other) {
      return other.demand * weights >= capacity * other.weight ? capacity / weights
                                                               : (capacity - other.demand) / (weights - other.weight);
    };
    const double common = level_beside(less);
    more.room = common * more.weight;
    less.room = (less.demand >= common * less.weight ? common : level_beside(more)) * less.weight;
    return;
  }
  order_.resize(parts.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    const double x = parts[a].demand * parts[b].weight, y = parts[b].demand * parts[a].weight;
    return x != y ? x < y : a < b;
  });
  double all = 0;
  for (const Part& part : parts) all += part.weight;
  // A part with less demand than the level gets its demand, every other part gets the level. The level for part i is
  // computed from all other demands and an unlimited demand of part i.
  const auto level_without = [&](std::size_t i) {
    double left = capacity, weight = all;
    for (const std::size_t j : order_) {
      if (j == i) continue;
      const Part& part = parts[j];
      if (part.demand * weight >= left * part.weight) break;
      left -= part.demand;
      weight -= part.weight;
    }
    return left / weight;
  };
  // Parts with at least the common level as their demand would not get more with unlimited demand.
  const double common = level_without(order_.back());
  double last_demand = -1, last_weight = -1, last_level = 0;
  for (const std::size_t i : order_) {
    Part& part = parts[i];
    if (part.demand != last_demand || part.weight != last_weight) {
      last_level = part.demand >= common * part.weight ? common : level_without(i);
      last_demand = part.demand;
      last_weight = part.weight;
    }
    part.room = last_level * part.weight;
  }
}

void PortShares::divide_evenly(std::vector<Claim>& claims, const Part& part) {
  streams_.clear();
  for (std::size_t c = part.begin; c < part.end; ++c)
    streams_.push_back({c, c + 1, claims[c].demand, claims[c].weight});
  divide(streams_, part.room);
  for (const Part& stream : streams_) claims[stream.begin].offer = stream.room;
}

void PortShares::divide_by_turns(std::vector<Claim>& claims, const Part& part) {
  double granted = 0;
  for (std::size_t c = part.begin; c < part.end; ++c) granted += std::min(claims[c].granted, claims[c].demand);
  if (granted > part.room) {  // another virtual channel has taken the granted rates
    divide_evenly(claims, part);
    return;
  }
  requesters_.clear();
  for (std::size_t c = part.begin; c < part.end;) {
    Part& requester = requesters_.emplace_back();
    requester.begin = c;
    requester.weight = claims[c].weight;
    for (; c < part.end && claims[c].requester == claims[requester.begin].requester; ++c) {
      requester.demand += claims[c].demand - std::min(claims[c].granted, claims[c].demand);
      requester.weight = std::max(requester.weight, claims[c].weight);
    }
    requester.end = c;
  }
  divide(requesters_, part.room - granted);
  for (const Part& requester : requesters_) {
    streams_.clear();
    for (std::size_t c = requester.begin; c < requester.end; ++c)
      streams_.push_back(
          {c, c + 1, claims[c].demand - std::min(claims[c].granted, claims[c].demand), claims[c].weight});
    divide(streams_, requester.room);
    for (const Part& stream : streams_) {
      Claim& claim = claims[stream.begin];
      claim.offer = std::min(claim.granted, claim.demand) + stream.room;
    }
  }
}

void PortShares::share(std::vector<Claim>& claims, const VcPlan& plan, double line, Rule rule) {
  vcs_.clear();
  for (std::size_t c = 0; c < claims.size();) {
    Part& part = vcs_.emplace_back();
    part.begin = c;
    const std::uint8_t vc = claims[c].vc;
    for (; c < claims.size() && claims[c].vc == vc; ++c) {
      part.demand += claims[c].demand;
      part.window = std::min(part.window, claims[c].window);
    }
    part.end = c;
    part.demand = std::min(part.demand, part.window);
    part.weight = plan.weight[vc];
    part.priority = plan.priority[vc];
  }
  double left = line;
  for (int priority = static_cast<int>(kPriorities) - 1; priority >= 0; --priority) {
    rank_.clear();
    double asked = 0;
    for (const Part& part : vcs_) {
      if (part.priority != priority) continue;
      rank_.push_back(part);
      asked += part.demand;
    }
    if (rank_.empty()) continue;
    divide(rank_, left);
    for (Part& part : rank_) {
      part.room = std::min(part.room, part.window);
      if (rule == Rule::evenly) {
        divide_evenly(claims, part);
      } else {
        divide_by_turns(claims, part);
      }
    }
    left = std::max(0.0, left - asked);
  }
}

}  // namespace railyard::transport
