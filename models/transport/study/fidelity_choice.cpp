#include "transport/study/fidelity_choice.h"

#include <algorithm>
#include <map>
#include <set>

#include "transport/device/routes.h"

namespace railyard::transport {

namespace {

/// Both directions of a link, identified by one fixed end.
using Link = std::pair<const Device*, std::uint32_t>;

/// Disjoint sets that can be joined.
class Unions {
 public:
  std::size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  std::size_t find(std::size_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }
  /// Joins both sets under the lower number.
  void join(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parents_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parents_;
};

/// Of traffic that takes this path, over each of the lane's links.
double transactions(const Routes& routes, const Path& path, const Lane& lane, double bytes) {
  double lanes = 0;
  for (const Lane& each : path.lanes) lanes += each.weight;
  return bytes * lane.weight / lanes / static_cast<double>(routes.transaction_bytes(path));
}

struct SetCost {
  double hops = 0, announced_hops = 0;
  bool has_others = false;  ///< traffic that is of no group and not announced, or links that two groups share

  /// Cost as trains. Collectives of groups are computed only once, but for those beside what others announce.
  double trains() const {
    constexpr double kBeside =
        4;  // the all-reduces of a layer on both sides of a hop between stages, as sent in a ring
    return has_others ? hops : announced_hops * (1 + kBeside);
  }
};

}  // namespace

Fidelity FidelityChoice::fidelity() const {
  if (fluid_sets == 0) return Fidelity::train;
  return fluid_sets == sets ? Fidelity::fluid : Fidelity::automatic;
}

double hops(const Routes& routes, const std::vector<Traffic>& traffic) {
  double sum = 0;
  for (const Traffic& t : traffic) {
    const Path path = routes.path(t.source, t.destination, t.traffic_class);
    for (const Lane& lane : path.lanes)
      sum += transactions(routes, path, lane, t.bytes) * static_cast<double>(lane.hops.size());
  }
  return sum;
}

FidelityChoice choose_fidelity(const Routes& routes, const std::vector<Device*>& devices,
                               const std::vector<Traffic>& traffic, double affordable_hops) {
  // Number links in the order of the traffic that uses them.
  std::map<Link, std::size_t> numbers;
  std::vector<Link> links;
  std::vector<std::set<std::int64_t>> users;  // groups of collectives, by link
  Unions unions;
  const auto number = [&](const Hop& hop) {
    const Device::Port& port = hop.device->port(hop.port);
    const Link link = std::min(Link(hop.device, hop.port.value()), Link(port.peer, port.peer_port.value()));
    const auto [found, fresh] = numbers.try_emplace(link, links.size());
    if (fresh) {
      links.push_back(link);
      users.emplace_back();
      unions.add();
    }
    return found->second;
  };
  constexpr std::size_t kNoLink = ~std::size_t(0);
  std::size_t several = kNoLink;  // the first link with a choice of paths
  std::vector<std::size_t> first(traffic.size(), kNoLink);
  std::vector<double> hops(traffic.size(), 0);
  for (std::size_t t = 0; t < traffic.size(); ++t) {
    const Path path = routes.path(traffic[t].source, traffic[t].destination, traffic[t].traffic_class);
    for (const Lane& lane : path.lanes) {
      const double of_lane = transactions(routes, path, lane, traffic[t].bytes);
      for (const Hop& hop : lane.hops) {
        const std::size_t link = number(hop);
        if (first[t] == kNoLink) first[t] = link;
        unions.join(first[t], link);
        if (hop.one_of_several) {
          if (several == kNoLink) several = link;
          unions.join(several, link);
        }
        if (traffic[t].reused_by != Traffic::kNobody) users[link].insert(traffic[t].reused_by);
        hops[t] += of_lane;
      }
    }
  }

  std::map<std::size_t, SetCost> costs;  // by set
  for (std::size_t t = 0; t < traffic.size(); ++t) {
    if (first[t] == kNoLink) continue;
    SetCost& cost = costs[unions.find(first[t])];
    cost.hops += hops[t];
    if (traffic[t].is_announced)
      cost.announced_hops += hops[t];
    else
      cost.has_others |= traffic[t].reused_by == Traffic::kNobody;
  }
  if (several != kNoLink) costs[unions.find(several)].has_others = true;
  for (std::size_t link = 0; link < links.size(); ++link)
    if (users[link].size() > 1) costs[unions.find(link)].has_others = true;
  std::vector<std::pair<double, std::size_t>> by_cost;
  for (const auto& [set, cost] : costs) by_cost.emplace_back(cost.trains(), set);
  std::sort(by_cost.begin(), by_cost.end());

  FidelityChoice choice;
  choice.sets = costs.size();
  std::set<std::size_t> fluid;
  for (const auto& [cost, set] : by_cost) {
    choice.hops += cost;
    if (choice.train_hops + cost <= affordable_hops) {
      choice.train_hops += cost;
    } else {
      fluid.insert(set);
    }
  }
  choice.fluid_sets = fluid.size();
  for (Device* device : devices)
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const auto found = numbers.find(Link(device, p));
      if (found != numbers.end() && fluid.count(unions.find(found->second)) != 0)
        choice.fluid.push_back({device, PortId(p)});
    }
  return choice;
}

}  // namespace railyard::transport
