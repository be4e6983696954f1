#include "sc_main/scenario/kinds/instance_placement.h"

#include <algorithm>

namespace railyard::scenario {

FreeGpus::FreeGpus(const platforms::MachineSpec& machine) : gpus_per_server_(machine.board.gpus) {
  for (const platforms::GroupSpec& group : machine.groups) taken_.emplace_back(group.servers * gpus_per_server_);
}

bool FreeGpus::take(std::uint32_t group, std::uint32_t gpu) {
  if (taken_[group][gpu]) return false;
  taken_[group][gpu] = true;
  return true;
}

bool FreeGpus::is_free(std::uint32_t group, std::uint32_t first, std::uint32_t ranks) const {
  const std::vector<bool>& taken = taken_[group];
  if (first + ranks > taken.size()) return false;
  const std::uint32_t place = first % gpus_per_server_;
  if (ranks <= gpus_per_server_ ? place + ranks > gpus_per_server_ : place != 0) return false;
  return std::none_of(taken.begin() + first, taken.begin() + first + ranks, [](bool is_taken) { return is_taken; });
}

std::uint32_t FreeGpus::left_in(std::uint32_t group, std::uint32_t server) const {
  const auto begin = taken_[group].begin() + server * gpus_per_server_;
  return static_cast<std::uint32_t>(std::count(begin, begin + gpus_per_server_, false));
}

std::uint32_t FreeGpus::left(std::uint32_t group) const {
  return static_cast<std::uint32_t>(std::count(taken_[group].begin(), taken_[group].end(), false));
}

std::optional<std::uint32_t> FreeGpus::place(std::uint32_t group, std::uint32_t ranks, InstancePlacement placement) {
  std::optional<std::uint32_t> found;
  std::uint32_t most_left = 0;
  for (std::uint32_t first = 0; first + ranks <= taken_[group].size(); ++first) {
    if (!is_free(group, first, ranks)) continue;
    const std::uint32_t left = left_in(group, first / gpus_per_server_);
    if (found && left <= most_left) continue;
    found = first;
    most_left = left;
    if (placement == InstancePlacement::pack) break;
  }
  if (found)
    for (std::uint32_t gpu = *found; gpu < *found + ranks; ++gpu) take(group, gpu);
  return found;
}

}  // namespace railyard::scenario
