// Kernels that run one after the other in one stream, with nothing between them: what a GPU's SM array takes as one job.
#pragma once

#include <memory>
#include <vector>

#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

struct KernelChain {
  std::vector<KernelTime> kernels;
  double seconds = 0;  ///< alone on its GPU

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
