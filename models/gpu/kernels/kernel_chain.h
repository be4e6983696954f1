// Kernels that run one after the other in one stream, with nothing in between. A GPU's SM array runs such a chain as
// one job.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/kernels/kernel_time.h"

namespace railyard::gpu {

class KernelChain {
 public:
  std::vector<KernelTime> kernels;
  std::vector<std::string> names;  ///< of the kernels, for timelines; empty: none
  double seconds = 0;              ///< total time if the chain has the GPU alone

  void add(const KernelTime& kernel, std::string name = {}) {
    kernels.push_back(kernel);
    names.push_back(std::move(name));
    seconds += kernel.seconds;
  }
  /// KernelTime::seconds_on() of one kernel. The GPUs of a group run the same chain with the same shares, so the latest
  /// results of each kernel are kept. @pre at least one SM
  double seconds_on(std::size_t index, const KernelShare& share) const {
    if (latest_.size() <= index) latest_.resize(kernels.size());
    auto& latest = latest_[index];
    for (const Timed& timed : latest)
      if (timed.share == share) return timed.seconds;
    std::rotate(latest.begin(), latest.end() - 1, latest.end());
    latest.front() = {share, kernels[index].seconds_on(share)};
    return latest.front().seconds;
  }

 private:
  struct Timed {
    KernelShare share;  ///< no SMs: no result
    double seconds = 0;
  };
  static constexpr std::size_t kKept = 4;  ///< shares of a kernel alone, beside another, beside a collective, both
  mutable std::vector<std::array<Timed, kKept>> latest_;  ///< by kernel, newest first
};
using SharedChain = std::shared_ptr<const KernelChain>;

inline SharedChain chain_of(const KernelTime& kernel, std::string name = {}) {
  const auto chain = std::make_shared<KernelChain>();
  chain->add(kernel, std::move(name));
  return chain;
}

}  // namespace railyard::gpu
