#include "transport/fluid/shares.h"

#include <algorithm>
#include <numeric>

namespace railyard::transport {

void PortShares::divide(std::vector<Part>& parts, double capacity) {
  if (parts.size() == 1) {
    parts[0].room = capacity;
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

void PortShares::divide_evenly(std::vector<Claim>& claims, const Part& channel) {
  streams_.clear();
  for (std::size_t c = channel.begin; c < channel.end; ++c) streams_.push_back({c, c + 1, claims[c].demand});
  divide(streams_, channel.room);
  for (const Part& stream : streams_) claims[stream.begin].offer = stream.room;
}

void PortShares::divide_by_turns(std::vector<Claim>& claims, const Part& channel) {
  double granted = 0;
  for (std::size_t c = channel.begin; c < channel.end; ++c) granted += std::min(claims[c].granted, claims[c].demand);
  if (granted > channel.room) {  // another channel has taken the granted rates
    divide_evenly(claims, channel);
    return;
  }
  requesters_.clear();
  for (std::size_t c = channel.begin; c < channel.end;) {
    Part& requester = requesters_.emplace_back();
    requester.begin = c;
    for (; c < channel.end && claims[c].requester == claims[requester.begin].requester; ++c)
      requester.demand += claims[c].demand - std::min(claims[c].granted, claims[c].demand);
    requester.end = c;
  }
  divide(requesters_, channel.room - granted);
  for (const Part& requester : requesters_) {
    streams_.clear();
    for (std::size_t c = requester.begin; c < requester.end; ++c)
      streams_.push_back({c, c + 1, claims[c].demand - std::min(claims[c].granted, claims[c].demand)});
    divide(streams_, requester.room);
    for (const Part& stream : streams_) {
      Claim& claim = claims[stream.begin];
      claim.offer = std::min(claim.granted, claim.demand) + stream.room;
    }
  }
}

void PortShares::share(std::vector<Claim>& claims, const ChannelPlan& plan, double line, Rule rule) {
  channels_.clear();
  for (std::size_t c = 0; c < claims.size();) {
    Part& channel = channels_.emplace_back();
    channel.begin = c;
    const std::uint8_t vc = claims[c].channel;
    for (; c < claims.size() && claims[c].channel == vc; ++c) {
      channel.demand += claims[c].demand;
      channel.window = std::min(channel.window, claims[c].window);
    }
    channel.end = c;
    channel.demand = std::min(channel.demand, channel.window);
    channel.weight = plan.weight[vc];
    channel.priority = plan.priority[vc];
  }
  double left = line;
  for (int priority = static_cast<int>(kPriorities) - 1; priority >= 0; --priority) {
    rank_.clear();
    double asked = 0;
    for (const Part& channel : channels_) {
      if (channel.priority != priority) continue;
      rank_.push_back(channel);
      asked += channel.demand;
    }
    if (rank_.empty()) continue;
    divide(rank_, left);
    for (Part& channel : rank_) {
      channel.room = std::min(channel.room, channel.window);
      if (rule == Rule::evenly) {
        divide_evenly(claims, channel);
      } else {
        divide_by_turns(claims, channel);
      }
    }
    left = std::max(0.0, left - asked);
  }
}

}  // namespace railyard::transport
