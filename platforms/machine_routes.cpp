// Routes of a machine after link failures.
#include "platforms/machine.h"
#include "transport/assembly.h"
#include "transport/faults.h"

namespace railyard::platforms {

namespace {

bool joins(const transport::Device& from, PortId out, transport::Window destination) {
  return transport::is_open(transport::walk(from, out, transport::window_base(destination), 0));
}

}  // namespace

void Machine::on_links_changed() {
  has_lost_links_ = !fabric_.faults().lost().empty();
  if (!has_lost_links_) return;
  paths_left_.clear();
  route_network();
}

gpu::Egress Machine::path_left(transport::Window source, transport::Window destination,
                               const gpu::Egress& wanted) const {
  const auto [found, fresh] = paths_left_.try_emplace({source, destination, wanted.nic, wanted.remote});
  if (fresh) found->second = find_path(source, destination, wanted);
  return found->second;
}

gpu::Egress Machine::find_path(transport::Window source, transport::Window destination, gpu::Egress wanted) const {
  const gpu::Gpu& gpu = *gpus_[GpuId(source)];
  if (wanted.via == gpu::Egress::Via::nvlink && !gpu.has_nvlink_to(destination)) wanted.via = gpu::Egress::Via::pcie;
  if (wanted.via == gpu::Egress::Via::pcie && !joins(gpu, gpu.pcie(), destination)) wanted.via = gpu::Egress::Via::none;
  if (wanted.via != gpu::Egress::Via::nic) return wanted;
  const std::uint32_t n = nics_per_server_;
  const auto nic_after = [&](transport::Lid first, std::uint32_t i) {
    return nics_[NicId(first / n * n + (first + i) % n)];
  };
  const transport::Lid first = wanted.nic->lid(), first_remote = wanted.remote;
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t j = 0; j < n; ++j) {
      wanted.nic = nic_after(first, i);
      wanted.remote = nic_after(first_remote, j)->lid();
      if (wanted.nic->reaches(source, destination, wanted.remote)) return wanted;
    }
  }
  wanted.via = gpu::Egress::Via::none;
  return wanted;
}

}  // namespace railyard::platforms
