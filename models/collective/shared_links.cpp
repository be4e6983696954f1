#include "collective/shared_links.h"

#include <algorithm>
#include <cmath>

namespace railyard::collective {

void SharedLinks::clear(std::uint32_t links) {
  for (Flow& flow : flows_)
    if (flow.joined) rates_.leave(flow);
  rates_.solve();
  links_.clear();
  for (std::uint32_t i = 0; i < links; ++i) {
    links_.emplace_back().own_line = 1;
    links_.back().reverse = &opposite_;
  }
  flows_.clear();
  numbers_.clear();
  ends_ = {};
  now_ = Time();
}

void SharedLinks::push(Time now, std::uint32_t sender, const Path& path, const Item& item) {
  const auto [at, is_new] = numbers_.try_emplace({sender, path}, static_cast<std::uint32_t>(flows_.size()));
  if (is_new) {
    Flow& flow = flows_.emplace_back();
    flow.number = at->second;
    flow.crossings = &flow.path;
    for (const Crossing& crossing : path) {
      if (crossing.link == kNone) break;
      transport::FluidCrossing& crossed = flow.path.emplace_back();
      crossed.port = &links_[crossing.link];
      crossed.requester = crossing.input;
    }
  }
  Flow& flow = flows_[at->second];
  flow.items.push_back(item);
  if (flow.items.size() == 1) begin(now, flow);
}

void SharedLinks::begin(Time now, Flow& flow) {
  now_ = now;
  const Item& item = flow.items.front();
  flow.demand = 1;
  for (std::size_t i = 0; i < flow.path.size(); ++i) {
    flow.path[i].wire = flow.path[i].weight = item.weights[i];
    flow.demand = std::min(flow.demand, 1 / flow.path[i].wire);
  }
  flow.left = static_cast<double>(item.takes.fs());
  flow.since = now;
  flow.speed = 0;
  rates_.join(flow, false);
}

std::uint32_t SharedLinks::pop(Time now) {
  Flow& flow = flows_[ends_.top().flow];
  ends_.pop();
  const std::uint32_t item = flow.items.front().number;
  flow.items.pop_front();
  flow.ends = Time::max();
  now_ = now;
  rates_.leave(flow);
  if (!flow.items.empty()) begin(now, flow);
  return item;
}

Time SharedLinks::next() {
  if (!rates_.settled())
    for (transport::FluidFlow* flow : rates_.solve())
      if (flow->joined) take_rate(static_cast<Flow&>(*flow));
  while (!ends_.empty() && flows_[ends_.top().flow].ends != ends_.top().at) ends_.pop();
  return ends_.empty() ? Time::max() : ends_.top().at;
}

void SharedLinks::take_rate(Flow& flow) {
  flow.left = std::max(0.0, flow.left - flow.speed * static_cast<double>((now_ - flow.since).fs()));
  flow.since = now_;
  flow.speed = flow.rate();
  flow.ends = now_ + Time::fs(static_cast<std::uint64_t>(std::llround(flow.left / flow.speed)));
  ends_.push({flow.ends, flow.number});
}

}  // namespace railyard::collective
