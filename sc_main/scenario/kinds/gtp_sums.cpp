#include "sc_main/scenario/kinds/gtp_sums.h"

namespace railyard::scenario {

namespace {
/// NCCL lets NVSwitches add for more than two ranks of a server only (collective/nccl_plan.cpp).
constexpr std::uint32_t kLeastRanks = 3;
}  // namespace

void check_gtp_sums(const workload::training::TrainingSpec& spec, const platforms::MachineSpec& machine,
                    const Source& source) {
  if (spec.gtp() == 1 || spec.gtp_shards.reduce != workload::training::ShardReduce::nvls) return;
  const auto refuse = [&](const std::string& text) {
    refuse_workload(source, "gtp.reduce", "nvls " + text + "; accepted: ring, all_to_all_fp32");
  };
  const platforms::GroupSpec& group = machine.groups.front();
  if (machine.nvswitch.reduction_slots == 0 || group.gpu.collective.nvls_channels == 0)
    refuse("needs NVSwitches and GPUs with in-switch sums");
  if (!spec.software.nvls) refuse("needs workload.nvls: true");
  if (spec.gtp() < kLeastRanks) refuse("needs gtp.size of " + std::to_string(kLeastRanks) + " or more");
  const std::uint32_t experts_size = spec.gtp_shards.experts_size;
  if (experts_size > 1 && experts_size < kLeastRanks)
    refuse("needs gtp.experts_size of 1, or of " + std::to_string(kLeastRanks) + " or more");
  // Ranks of a group are tp apart.
  for (std::uint32_t r = 0; r < spec.ranks(); ++r) {
    const std::uint32_t first = r - r / spec.tp() % spec.gtp() * spec.tp();
    const std::uint32_t server = spec.placement[first] / machine.board.gpus;
    if (spec.placement[r] / machine.board.gpus != server)
      refuse("needs the ranks of a group in one server, but ranks " + std::to_string(first) + " and " +
             std::to_string(r) + " are in servers " + std::to_string(server) + " and " +
             std::to_string(spec.placement[r] / machine.board.gpus));
  }
}

}  // namespace railyard::scenario
