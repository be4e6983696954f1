#include "sc_main/fold_candidate.h"

#include <algorithm>
#include <set>

#include "workload/bench/collective_spec.h"
#include "workload/training/plan/training_spec.h"

namespace railyard {

using workload::Dimension;
using workload::collective_bench::CollectiveBenchSpec;
using workload::training::TrainingSpec;

namespace {

/// Finds the servers of each copy. @return whether copies share no server and are placed alike
bool coordinate(Candidate& candidate, std::uint32_t gpus_per_server) {
  std::set<std::uint32_t> taken;
  const Candidate::Copy& first = candidate.copies.front();
  for (Candidate::Copy& copy : candidate.copies) {
    if (copy.gpus.size() != first.gpus.size()) return false;
    std::set<std::uint32_t> own;
    for (std::size_t r = 0; r < copy.gpus.size(); ++r) {
      const std::uint32_t mine = copy.gpus[r], like = first.gpus[r];
      const auto [at, fresh] = copy.servers.try_emplace(like / gpus_per_server, mine / gpus_per_server);
      if (at->second != mine / gpus_per_server || mine % gpus_per_server != like % gpus_per_server) return false;
      own.insert(mine / gpus_per_server);
    }
    if (own.size() != copy.servers.size()) return false;
    for (const std::uint32_t server : own)
      if (!taken.insert(server).second) return false;
  }
  return true;
}

/// Of a rank that runs.
std::uint32_t gpu_of(const FoldedPart& part, std::uint32_t copy, std::uint32_t place, std::uint32_t gpus_per_server) {
  const std::uint32_t gpu = part.running[copy]->gpus[place];
  return part.built.at(gpu / gpus_per_server) * gpus_per_server + gpu % gpus_per_server;
}

// training

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

std::string why_not(const TrainingSpec& spec) {
  if (spec.sizes[static_cast<std::size_t>(Dimension::dp)] == 1) return "there is one replica";
  if (spec.state_shards() < spec.replicas()) return "replicas of hsdp have different neighbours";
  if (spec.halves() > 1) return "the halves of a pipeline of dualpipe are no replicas";
  return "";
}

/// Replicas in groups of equal size.
Candidate divided(const TrainingSpec& spec, std::uint32_t copies) {
  const std::uint32_t ranks = spec.ranks();
  Candidate found;
  found.copies.resize(copies);
  for (Candidate::Copy& copy : found.copies) {
    copy.gpus.resize(ranks / copies);
    copy.numbers.resize(ranks / copies);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::uint32_t copy = 0;
    const std::uint32_t number = number_in(spec, rank, copies, copy);
    found.copies[copy].gpus[number] = spec.placement[rank];
    found.copies[copy].numbers[number] = rank;
  }
  return found;
}

/// Why replicas in the only server cannot be folded; "": they can. NVSwitches join all GPUs alike, so a message to the next
/// replica, which leaves by a GPU's NVLinks and comes back by them, meets what the message of the replica before would meet.
std::string why_not_in_one_server(const TrainingSpec& spec, const platforms::MachineSpec& machine) {
  const platforms::GroupSpec& group = machine.groups.front();
  if (group.nvlink_planes.empty() || group.nvlink_mesh != 0 || !group.gpu.pcie.p2p)
    return "replicas share servers, and no NVSwitches join all their GPUs alike";
  if (spec.offload.has_any()) return "replicas share the memory of CPU sockets (offload)";
  if (spec.software.nvls && machine.nvswitch.reduction_slots > 0)
    return "NVSwitches add over replicas of one server (nvls of the software)";
  return "";
}

std::optional<Candidate> candidate(const TrainingSpec& spec, const platforms::MachineSpec& machine, std::string& why) {
  if (!(why = why_not(spec)).empty()) return {};
  const std::uint32_t dp = spec.sizes[static_cast<std::size_t>(Dimension::dp)];
  for (std::uint32_t copies = dp; copies > 1; --copies) {
    if (dp % copies != 0) continue;
    Candidate found = divided(spec, copies);
    if (coordinate(found, machine.board.gpus)) return found;
  }
  why = "replicas share servers, or are placed differently";
  if (platforms::servers_of(machine) > 1 || !(why = why_not_in_one_server(spec, machine)).empty()) return {};
  Candidate found = divided(spec, dp);
  found.in_one_server = true;
  for (Candidate::Copy& copy : found.copies) copy.servers = {{0, 0}};
  return found;
}

TrainingSpec folded(TrainingSpec spec, const FoldedPart& folded, std::uint32_t gpus_per_server) {
  spec.copies = folded.copies;
  TrainingSpec part = spec;
  part.sizes = spec.running_sizes();
  spec.placement.resize(part.ranks());
  spec.numbers.resize(part.ranks());
  for (std::uint32_t rank = 0; rank < part.ranks(); ++rank) {
    std::uint32_t copy = 0;
    const std::uint32_t number = number_in(part, rank, static_cast<std::uint32_t>(folded.running.size()), copy);
    spec.placement[rank] = gpu_of(folded, copy, number, gpus_per_server);
    spec.numbers[rank] = folded.running[copy]->numbers[number];
  }
  return spec;
}

// collective

std::optional<Candidate> candidate(const CollectiveBenchSpec& spec, std::uint32_t gpus_per_server, std::string& why) {
  Candidate found;
  for (std::uint32_t rank = 0; rank < spec.gpus.size(); ++rank) {
    const std::uint32_t gpu = spec.gpus[rank];
    if (rank == 0 || gpu / gpus_per_server != spec.gpus[rank - 1] / gpus_per_server) found.copies.emplace_back();
    found.copies.back().gpus.push_back(gpu);
    found.copies.back().numbers.push_back(rank);
  }
  if (!spec.skew.empty()) {
    why = "ranks enter at different times (workload.skew_us)";
  } else if (found.copies.size() == 1) {
    why = "all ranks are on one server";
  } else if (!coordinate(found, gpus_per_server)) {
    why = "servers have different ranks, or ranks of a server do not follow each other";
  } else {
    return found;
  }
  return {};
}

CollectiveBenchSpec folded(CollectiveBenchSpec spec, const FoldedPart& part, std::uint32_t gpus_per_server) {
  const auto places = static_cast<std::uint32_t>(part.running.front()->gpus.size());
  spec.gpus.clear();
  for (std::uint32_t copy = 0; copy < part.running.size(); ++copy)
    for (std::uint32_t place = 0; place < places; ++place) {
      spec.gpus.push_back(gpu_of(part, copy, place, gpus_per_server));
      spec.numbers.push_back(part.running[copy]->numbers[place]);
    }
  std::set<std::uint32_t> met;
  for (std::uint32_t copy = 0; copy < part.copies.size(); ++copy) {
    const bool exists = met.insert(part.copies[copy]).second;
    for (std::uint32_t place = 0; place < places; ++place)
      spec.members.push_back({part.copies[copy] * places + place, copy, place, exists});
  }
  return spec;
}

}  // namespace

std::optional<Candidate> find_candidate(const Scenario& scenario, std::string& why_not) {
  const std::uint32_t gpus = scenario.machine.board.gpus;
  if (scenario.machine.sharp) {
    why_not = "switches add over all servers (machine.network.sharp)";
  } else if (const auto* training = scenario.if_spec<TrainingSpec>()) {
    if (training->stage_groups.empty()) return candidate(*training, scenario.machine, why_not);
    why_not = "pipeline ranks have GPUs of several groups";
  } else if (const auto* test = scenario.if_spec<CollectiveBenchSpec>()) {
    if (scenario.machine.groups.size() == 1) return candidate(*test, gpus, why_not);
    why_not = "servers of different groups differ";
  } else {
    why_not = "only workload.kind training and collective have parts that are alike";
  }
  return {};
}

std::any folded_workload(const Scenario& scenario, const FoldedPart& part) {
  const std::uint32_t gpus = scenario.machine.board.gpus;
  if (const auto* training = scenario.if_spec<TrainingSpec>()) return folded(*training, part, gpus);
  return folded(scenario.spec<CollectiveBenchSpec>(), part, gpus);
}

}  // namespace railyard
