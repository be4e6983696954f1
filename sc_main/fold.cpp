#include "sc_main/fold.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/input_error.h"
#include "transport/assembly.h"
#include "workload/training/training_spec.h"

namespace railyard {

using workload::Dimension;
using workload::training::TrainingSpec;

namespace {

/// One way to fold: where the GPUs of the copies are.
struct Candidate {
  std::vector<std::uint32_t> placement;  ///< GPU of each rank of the part, in the whole machine
  std::vector<std::uint32_t> numbers;    ///< of each rank of the part, in the whole mesh
  /// By copy: the server that stands for each server of the part.
  std::vector<std::map<std::uint32_t, std::uint32_t>> servers;
};

/// A rank's number in a mesh with other sizes, at the same places but for dp.
std::uint32_t number_in(const TrainingSpec& spec, std::uint32_t rank, std::uint32_t copies, std::uint32_t& copy) {
  std::uint32_t number = 0, stride = 1;
  for (const Dimension d : spec.order) {
    std::uint32_t size = spec.sizes[static_cast<std::size_t>(d)], place = rank % size;
    rank /= size;
    if (d == Dimension::dp) {
      size /= copies;
      copy = place / size;
      place %= size;
    }
    number += place * stride;
    stride *= size;
  }
  return number;
}

/// None: copies share servers, or are not placed alike.
std::optional<Candidate> candidate(const TrainingSpec& spec, std::uint32_t copies, std::uint32_t gpus_per_server) {
  Candidate found;
  const std::uint32_t ranks = spec.ranks();
  found.numbers.resize(ranks / copies);
  std::vector<std::vector<std::uint32_t>> gpus(copies, std::vector<std::uint32_t>(ranks / copies));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::uint32_t copy = 0;
    const std::uint32_t number = number_in(spec, rank, copies, copy);
    gpus[copy][number] = spec.placement[rank];
    if (copy == 0) found.numbers[number] = rank;
  }
  found.placement = gpus.front();
  found.servers.resize(copies);
  std::set<std::uint32_t> taken;
  for (std::uint32_t copy = 0; copy < copies; ++copy) {
    std::set<std::uint32_t> own;
    for (std::uint32_t r = 0; r < ranks / copies; ++r) {
      const std::uint32_t mine = gpus[copy][r], first = gpus.front()[r];
      const auto [at, fresh] = found.servers[copy].try_emplace(first / gpus_per_server, mine / gpus_per_server);
      if (at->second != mine / gpus_per_server || mine % gpus_per_server != first % gpus_per_server) return {};
      own.insert(mine / gpus_per_server);
    }
    if (own.size() != found.servers[copy].size()) return {};
    for (const std::uint32_t server : own)
      if (!taken.insert(server).second) return {};
  }
  return found;
}

/// The highest tier between like NICs of two copies.
platforms::Tier tier_between(const platforms::MachineSpec& machine, const Candidate& candidate) {
  platforms::Tier tier = platforms::Tier::leaf;
  if (machine.network == platforms::NetworkKind::single_switch) return tier;
  for (const auto& servers : candidate.servers)
    for (const auto& [first, other] : servers)
      for (std::uint32_t n = 0; n < machine.nics_per_server; ++n) {
        const std::uint32_t a = first * machine.nics_per_server + n, b = other * machine.nics_per_server + n;
        if (leaf_of(machine, a) != leaf_of(machine, b)) tier = std::max(tier, platforms::Tier::spine);
        if (pod_of(machine, a) != pod_of(machine, b)) tier = platforms::Tier::core;
      }
  return tier;
}

std::string why_not(const Scenario& scenario) {
  const auto* spec = scenario.if_spec<TrainingSpec>();
  if (spec == nullptr) return "only workload.kind training has replicas";
  if (spec->sizes[static_cast<std::size_t>(Dimension::dp)] == 1) return "there is one replica";
  if (spec->state_shards() < spec->replicas()) return "replicas of hsdp have different neighbours";
  if (spec->halves() > 1) return "the halves of a pipeline of dualpipe are no replicas";
  if (!scenario.events.empty()) return "events make replicas different";
  return "";
}

}  // namespace

Fold fold_copies(Scenario& scenario) {
  Fold fold;
  if (scenario.fold == Folding::off) return fold;
  fold.asked = true;
  fold.why_not = why_not(scenario);
  platforms::MachineSpec& machine = scenario.machine;
  const std::uint32_t gpus = machine.board.gpus;
  std::optional<Candidate> best;
  if (fold.why_not.empty()) {
    const auto& spec = scenario.spec<TrainingSpec>();
    const std::uint32_t dp = spec.sizes[static_cast<std::size_t>(Dimension::dp)];
    for (std::uint32_t copies = dp; copies > 1 && !best; --copies) {
      if (dp % copies != 0) continue;
      best = candidate(spec, copies, gpus);
      fold.copies = best ? copies : 1;
    }
    if (!best) fold.why_not = "replicas share servers, or are placed differently";
  }
  if (!best) {
    if (scenario.fold == Folding::require)
      throw InputError(scenario.fold_origin, "simulation.fold: " + fold.why_not + "; accepted here: off and auto");
    return fold;
  }
  platforms::BuiltPart part;
  part.servers = platforms::servers_of(machine);
  part.turns_at = tier_between(machine, *best);
  std::map<std::uint32_t, std::uint32_t> index;
  for (const auto& [server, same] : best->servers.front()) {
    index[server] = static_cast<std::uint32_t>(part.numbers.size());
    part.numbers.push_back(server);
  }
  TrainingSpec spec = scenario.spec<TrainingSpec>();
  spec.copies = fold.copies;
  spec.numbers = best->numbers;
  spec.placement.clear();
  for (const std::uint32_t gpu : best->placement) spec.placement.push_back(index[gpu / gpus] * gpus + gpu % gpus);
  scenario.workload = std::move(spec);
  machine.groups.front().servers = static_cast<std::uint32_t>(part.numbers.size());
  machine.part = std::move(part);
  return fold;
}

void judge(Fold& fold, const std::vector<transport::Traffic>& traffic, const platforms::Machine& machine,
           const transport::Assembly& fabric) {
  std::set<const transport::Device*> switches;
  for (const auto& device : machine.network()) switches.insert(device.get());
  const auto crosses_spine = [&](const transport::Traffic& t) {
    for (const transport::Lane& lane : fabric.path(t.source, t.destination, t.traffic_class).lanes) {
      const auto is_switch = [&](const transport::Hop& hop) { return switches.count(hop.device) != 0; };
      if (std::count_if(lane.hops.begin(), lane.hops.end(), is_switch) > 1) return true;
    }
    return false;
  };
  fold.exact = std::none_of(traffic.begin(), traffic.end(), crosses_spine);
  if (!fold.exact)
    fold.bound =
        "messages cross spines: the longest way to a neighbour stands for all, and uplinks carry the traffic of this "
        "part only";
}

}  // namespace railyard
