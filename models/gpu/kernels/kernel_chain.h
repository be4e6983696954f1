// Kernels that run one after the other in one stream, with nothing in between. A GPU's SM array runs such a chain as
// one job.
#pragma once

#include <memory>
#include <vector>

#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct KernelChain {
  std::vector<KernelTime> kernels;
  double seconds = 0;  ///< total time if the chain has the GPU alone

  void add(const KernelTime& kernel) {
    kernels.push_back(kernel);
    seconds += kernel.seconds;
  }
};
using SharedChain = std::shared_ptr<const KernelChain>;

inline SharedChain chain_of(const KernelTime& kernel) {
  const auto chain = std::make_shared<KernelChain>();
  chain->add(kernel);
  return chain;
}

}  // namespace railyard::gpu
