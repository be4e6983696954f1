#include "collective/custom_all_reduce.h"

#include <algorithm>

#include "gpu/datasheet.h"

namespace railyard::collective {

namespace {

bool fits(const AllReduceKernel& kernel, const Site& site) {
  const std::vector<gpu::Architecture>& accepted = kernel.architectures;
  return kernel.interconnect == (site.nvlink ? Interconnect::nvlink : Interconnect::pcie) &&
         (accepted.empty() || std::find(accepted.begin(), accepted.end(), site.gpu->architecture) != accepted.end());
}

}  // namespace

CustomKernel custom_kernel(const Engine& engine, const Site& site) {
  if (site.servers > 1) return {};
  const auto kernel = std::find_if(engine.all_reduce.begin(), engine.all_reduce.end(),
                                   [&](const AllReduceKernel& k) { return fits(k, site); });
  if (kernel == engine.all_reduce.end()) return {};
  for (const RankLimits& limits : kernel->limits)
    if (std::find(limits.ranks.begin(), limits.ranks.end(), site.ranks) != limits.ranks.end())
      return {limits.one_shot.most(), limits.two_shot.most(), kernel->pull};
  return {};
}

}  // namespace railyard::collective
