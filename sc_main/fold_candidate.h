// What can be folded (fold.h) in each kind of workload: copies that do the same, on servers of their own.
//
//   training    copies are data-parallel replicas; if they share the only server, NVSwitches join them
//   collective  copies are servers, with as many ranks each, at the same places
#pragma once

#include <any>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario.h"
#include "workload/parallel/sizes.h"

namespace railyard {

/// One way to fold: what each copy uses of the machine, by place in the part.
struct Candidate {
  struct Copy {
    std::vector<std::uint32_t> gpus;     ///< in the whole machine
    std::vector<std::uint32_t> numbers;  ///< of its ranks among all ranks
    /// The server that stands for each server of the first copy.
    std::map<std::uint32_t, std::uint32_t> servers;
  };
  std::vector<Copy> copies;
  bool in_one_server = false;  ///< that of all copies, with NVSwitches to which all its GPUs connect alike

  /// The server of the first copy for which one stands in this copy. None: the copy does not use it.
  std::optional<std::uint32_t> first_of(std::uint32_t copy, std::uint32_t server) const {
    for (const auto& [first, own] : copies[copy].servers)
      if (own == server) return first;
    return {};
  }
};

/// The part that runs.
struct FoldedPart {
  workload::Copies copies;                      ///< which copies run, in place of which
  std::vector<const Candidate::Copy*> running;  ///< in the order of their numbers
  std::map<std::uint32_t, std::uint32_t>
      built;  ///< by server of the whole machine: its number among those that are built
};

/// The way to fold with most copies. @param why_not  set if there is none
std::optional<Candidate> find_candidate(const Scenario& scenario, std::string& why_not);
/// The workload of the part.
std::any folded_workload(const Scenario& scenario, const FoldedPart& part);

}  // namespace railyard
