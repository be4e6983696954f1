#include "sc_main/fold.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/input_error.h"
#include "sc_main/fold_candidate.h"
#include "transport/assembly.h"
#include "workload/bench/collective_spec.h"

namespace railyard {

namespace {

constexpr double kOverSpines = 0.1;  // of FoldBound

/// The highest tier between like NICs of two copies.
platforms::Tier tier_between(const platforms::MachineSpec& machine, const Candidate& candidate) {
  platforms::Tier tier = platforms::Tier::leaf;
  if (machine.network == platforms::NetworkKind::single_switch) return tier;
  for (const Candidate::Copy& copy : candidate.copies)
    for (const auto& [first, other] : copy.servers)
      for (std::uint32_t n = 0; n < machine.nics_per_server; ++n) {
        const std::uint32_t a = first * machine.nics_per_server + n, b = other * machine.nics_per_server + n;
        if (leaf_of(machine, a) != leaf_of(machine, b)) tier = std::max(tier, platforms::Tier::spine);
        if (pod_of(machine, a) != pod_of(machine, b)) tier = platforms::Tier::core;
      }
  return tier;
}

/// Of the link that an event names.
std::string port_of(const MachineEvent& event) { return event.name.substr(event.name.rfind('.') + 1); }

/// The server of a GPU or link that an event names by module, as in node3.nic0.network. None: it is of no server.
std::optional<std::uint32_t> server_of(const MachineEvent& event, const platforms::MachineSpec& machine) {
  const std::string& group = machine.groups.front().name;
  const std::size_t end = event.name.find('.');
  if (event.name.rfind(group, 0) != 0 || end == std::string::npos || end == group.size()) return {};
  std::uint32_t server = 0;
  const char* const last = event.name.data() + end;
  const auto [rest, error] = std::from_chars(event.name.data() + group.size(), last, server);
  if (error != std::errc() || rest != last || server >= servers_of(machine)) return {};
  return server;
}

/// The copies that events touch. @param why_not  set if the events do not allow to fold
std::set<std::uint32_t> touched_copies(const Scenario& scenario, const Candidate& candidate, std::string& why_not) {
  // What servers that are not built send in a tree does not wait for the NIC of one that is.
  const bool nics_may_differ = scenario.if_spec<workload::collective_bench::CollectiveBenchSpec>() == nullptr;
  std::set<std::uint32_t> touched;
  for (const MachineEvent& event : scenario.events) {
    const std::optional<std::uint32_t> server = server_of(event, scenario.machine);
    std::uint32_t copy = 0;
    while (server && copy < candidate.copies.size() && !candidate.first_of(copy, *server)) ++copy;
    if (event.kind == MachineEvent::Kind::fail)
      why_not = fmt::format("{} fails: messages then take other ways", event.key);
    else if (!server || copy == candidate.copies.size())
      why_not =
          fmt::format("{} '{}' is not of one replica's server; a name like {}0.nic0.network or {}0.gpu0 is", event.key,
                      event.name, scenario.machine.groups.front().name, scenario.machine.groups.front().name);
    else if (event.kind == MachineEvent::Kind::derate && port_of(event).rfind("nvlink", 0) != 0 &&
             (port_of(event) != "network" || !nics_may_differ))
      why_not = fmt::format("{} '{}' is slow; of a replica's links, only NVLink{} may be", event.key, event.name,
                            nics_may_differ ? " and the network port of a NIC" : "");
    touched.insert(copy);
  }
  if (why_not.empty() && touched.size() + 1 >= candidate.copies.size())
    why_not = "events touch all replicas but one, or all";
  return touched;
}

/// GPUs of all copies become slow at the same times and by the same ratios; nothing else happens.
bool all_slow_alike(const Scenario& scenario, const Candidate& candidate) {
  using Slow = std::tuple<std::uint32_t, std::string, Time, double>;  // server of the first copy, place in the server
  std::vector<std::multiset<Slow>> of_copy(candidate.copies.size());
  for (const MachineEvent& event : scenario.events) {
    const std::optional<std::uint32_t> server = server_of(event, scenario.machine);
    if (event.kind != MachineEvent::Kind::slow_gpu || !server) return false;
    for (std::uint32_t copy = 0; copy < of_copy.size(); ++copy)
      if (const auto first = candidate.first_of(copy, *server))
        of_copy[copy].insert({*first, port_of(event), event.at, event.ratio});
  }
  return std::all_of(of_copy.begin(), of_copy.end(), [&](const auto& slow) { return slow == of_copy.front(); });
}

/// Which copies run, in place of which.
workload::Copies copies_of(const Candidate& candidate, const std::set<std::uint32_t>& touched) {
  const auto all = static_cast<std::uint32_t>(candidate.copies.size());
  std::uint32_t standing = 0;
  while (touched.count(standing) != 0) ++standing;
  workload::Copies copies(all);
  std::uint32_t running = 0;
  for (std::uint32_t copy = 0; copy < all; ++copy)
    if (copy == standing || touched.count(copy) != 0) copies[copy] = running++;
  for (std::uint32_t copy = 0; copy < all; ++copy)
    if (touched.count(copy) == 0) copies[copy] = copies[standing];
  return copies;
}

/// The copies that run.
std::vector<const Candidate::Copy*> running(const Candidate& candidate, const workload::Copies& copies) {
  std::vector<const Candidate::Copy*> all(workload::running(copies));
  for (std::size_t copy = copies.size(); copy-- > 0;) all[copies[copy]] = &candidate.copies[copy];
  return all;
}

/// What each copy's servers do.
void tell_servers(Fold& fold, const Candidate& candidate, const FoldedPart& part) {
  fold.runs_for = part.copies;
  fold.copy_of_server.resize(part.built.size());
  fold.servers.assign(part.copies.size(), std::vector<std::uint32_t>(part.built.size()));
  for (std::uint32_t r = 0; r < part.running.size(); ++r)
    for (const auto& [first, server] : part.running[r]->servers) {
      fold.copy_of_server[part.built.at(server)] = r;
      for (std::size_t copy = 0; copy < part.copies.size(); ++copy)
        fold.servers[copy][part.built.at(server)] = candidate.copies[copy].servers.at(first);
    }
}

}  // namespace

Fold fold_copies(Scenario& scenario) {
  Fold fold;
  if (scenario.fold == Folding::off) return fold;
  fold.asked = true;
  platforms::MachineSpec& machine = scenario.machine;
  const std::uint32_t gpus = machine.board.gpus;
  if (!scenario.modules.empty()) fold.why_not = "machine.modules: a module is at one server";
  const std::optional<Candidate> found = fold.why_not.empty() ? find_candidate(scenario, fold.why_not) : std::nullopt;
  std::set<std::uint32_t> touched;
  if (found && found->in_one_server) {
    if (!scenario.events.empty()) fold.why_not = "events change a server that all replicas share";
  } else if (found && all_slow_alike(scenario, *found)) {
    const auto of_others = [&](const MachineEvent& e) { return !found->first_of(0, *server_of(e, machine)); };
    auto& events = scenario.events;
    events.erase(std::remove_if(events.begin(), events.end(), of_others), events.end());
  } else if (found) {
    touched = touched_copies(scenario, *found, fold.why_not);
  }
  if (!fold.why_not.empty()) {
    if (scenario.fold == Folding::require)
      throw InputError(scenario.fold_origin, "simulation.fold: " + fold.why_not + "; accepted here: off and auto");
    return fold;
  }
  FoldedPart folded;
  folded.copies = copies_of(*found, touched);
  folded.running = running(*found, folded.copies);
  platforms::BuiltPart part;
  part.servers = platforms::servers_of(machine);
  part.turns_at = tier_between(machine, *found);
  part.in_one_server = found->in_one_server;
  std::set<std::uint32_t> servers;
  for (const Candidate::Copy* copy : folded.running)
    for (const auto& [first, server] : copy->servers) servers.insert(server);
  for (const std::uint32_t server : servers) {
    folded.built[server] = static_cast<std::uint32_t>(part.numbers.size());
    part.numbers.push_back(server);
  }
  scenario.workload = folded_workload(scenario, folded);
  machine.groups.front().servers = static_cast<std::uint32_t>(part.numbers.size());
  machine.part = std::move(part);
  fold.copies = static_cast<std::uint32_t>(folded.copies.size());
  tell_servers(fold, *found, folded);
  const auto of_servers = [&](std::size_t servers) { return static_cast<std::uint32_t>(servers) * gpus; };
  const auto of_part = static_cast<std::uint32_t>(found->copies.front().gpus.size());
  fold.simulated_gpus = found->in_one_server ? of_part : of_servers(machine.part->numbers.size());
  fold.represented_gpus =
      fold.copies * (found->in_one_server ? of_part : of_servers(found->copies.front().servers.size()));
  for (const MachineEvent& event : scenario.events)
    if (port_of(event) == "network") fold.slowest_nic_ratio = std::min(fold.slowest_nic_ratio, event.ratio);
  return fold;
}

void judge(Fold& fold, const std::vector<transport::Traffic>& traffic, const platforms::Machine& machine,
           const transport::Assembly& fabric, double share, const FoldBound& bound) {
  std::set<const transport::Device*> switches;
  for (const auto& device : machine.network()) switches.insert(device.get());
  const auto crosses_spine = [&](const transport::Traffic& t) {
    for (const transport::Lane& lane : fabric.path(t.source, t.destination, t.traffic_class).lanes) {
      const auto is_switch = [&](const transport::Hop& hop) { return switches.count(hop.device) != 0; };
      if (std::count_if(lane.hops.begin(), lane.hops.end(), is_switch) > 1) return true;
    }
    return false;
  };
  const bool over_spines = std::any_of(traffic.begin(), traffic.end(), crosses_spine);
  std::vector<FoldBound> bounds;
  if (over_spines)
    bounds.push_back({"messages cross spines: the longest way to a neighbour stands for all", 0, kOverSpines});
  if (over_spines && share < 1) {
    bounds.back().reason += fmt::format(
        ", and the replica with the least share of links between switches, down to {:.3g} of their rate", share);
    bounds.back().longer_ratio += 1 / share - 1;
  }
  if (fold.slowest_nic_ratio < 1)
    bounds.push_back({"rings over replicas take as long as if all NICs were as slow as the slowest", 0,
                      1 / fold.slowest_nic_ratio - 1});
  if (!bound.reason.empty()) bounds.push_back(bound);
  fold.exact = bounds.empty();
  if (fold.exact) return;
  std::vector<std::string> reasons;
  double shorter = 0, longer = 0;
  for (const FoldBound& each : bounds) {
    reasons.push_back(each.reason);
    shorter += each.shorter_ratio;
    longer += each.longer_ratio;
  }
  const auto part = [](double ratio, const char* way) {
    return ratio > 0 ? fmt::format("at most {:.3g} % {}", 100 * ratio, way) : fmt::format("not {}", way);
  };
  fold.bound = fmt::format("{}; times are {}, and {}", fmt::join(reasons, "; "), part(shorter, "shorter"),
                           part(longer, "longer"));
}

}  // namespace railyard
