// On which GPUs the instances of a service run, if the scenario does not list them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "platforms/machine_spec.h"

namespace railyard::scenario {

/// Free GPUs side by side, in one server if the instance fits into one: the first ones, or those of the server with most free GPUs.
enum class InstancePlacement : std::uint8_t { pack, spread };

/// The GPUs of a machine that no instance has.
class FreeGpus {
 public:
  explicit FreeGpus(const platforms::MachineSpec& machine);

  /// @return false: an instance has it already
  bool take(std::uint32_t group, std::uint32_t gpu);
  /// Takes `ranks` GPUs of a group. @return the first of them; none if there is no such place
  std::optional<std::uint32_t> place(std::uint32_t group, std::uint32_t ranks, InstancePlacement placement);
  std::uint32_t left(std::uint32_t group) const;

 private:
  bool is_free(std::uint32_t group, std::uint32_t first, std::uint32_t ranks) const;
  std::uint32_t left_in(std::uint32_t group, std::uint32_t server) const;

  std::uint32_t gpus_per_server_;
  std::vector<std::vector<bool>> taken_;  ///< by group and GPU
};

}  // namespace railyard::scenario
