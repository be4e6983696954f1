#include "gpu/kernels/kernel_time.h"

#include <algorithm>
#include <cmath>

namespace railyard::gpu {

double KernelTime::cta_seconds_on(double on) const {
  if (most_sms > 0) on = std::min<double>(on, most_sms);
  const double slots = std::max(1.0, std::floor(on)) * ctas_per_sm;
  const auto grid = static_cast<double>(ctas);
  if (sm_seconds == 0) return std::ceil(grid / slots) * longest_cta_seconds;
  constexpr double kFullTail = 0.2;  // CTAs beyond those that run at once, relative to these, for a whole tail
  const double tail = std::clamp((grid / slots - 1) / kFullTail, 0.0, 1.0) * tail_ratio * longest_cta_seconds;
  return std::max(longest_cta_seconds, sm_seconds / on + tail);
}

double KernelTime::starts_seconds_on(double on) const {
  if (most_sms > 0) on = std::min<double>(on, most_sms);
  const double places = std::max(1.0, std::floor(on)) * ctas_per_sm;
  return std::max(1.0, static_cast<double>(ctas) / places) * cta_start_seconds;
}

double KernelTime::seconds_on(const KernelShare& share) const {
  const double parts[] = {cta_seconds_on(share.sms), l2_seconds / share.l2_ratio, hbm_seconds / share.hbm_ratio};
  const double largest = *std::max_element(std::begin(parts), std::end(parts));
  double body = largest;
  if (overlap_exponent > 0 && largest > 0) {
    double sum = 0;
    for (const double part : parts) sum += part == largest ? 1 : std::pow(part / largest, overlap_exponent);
    body *= std::pow(sum, 1 / overlap_exponent);
  }
  return fixed_seconds + body + starts_seconds_on(share.sms) + after_seconds;
}

double KernelTime::seconds_without(KernelLimit resource) const {
  if (const double chosen = chosen_without[static_cast<std::size_t>(resource)]; chosen > 0) return chosen;
  KernelTime without = *this;
  switch (resource) {
    case KernelLimit::tensor:
    case KernelLimit::feed: without.longest_cta_seconds = without.sm_seconds = without.cta_start_seconds = 0; break;
    case KernelLimit::l2: without.l2_seconds = 0; break;
    case KernelLimit::hbm: without.hbm_seconds = 0; break;
    case KernelLimit::launch: without.fixed_seconds = 0; break;
  }
  // Scaled in proportion, because a measured `seconds` differs from the sum of the parts.
  const KernelShare whole{static_cast<double>(sms)};
  const double all = seconds_on(whole);
  return all > 0 ? seconds * without.seconds_on(whole) / all : seconds;
}

KernelTime KernelTime::taking(double time) const {
  KernelTime kernel = *this;
  for (double* part : {&kernel.fixed_seconds, &kernel.after_seconds, &kernel.longest_cta_seconds, &kernel.sm_seconds,
                       &kernel.cta_start_seconds, &kernel.l2_seconds, &kernel.hbm_seconds})
    *part *= time / seconds;
  for (double& chosen : kernel.chosen_without) chosen *= time / seconds;
  kernel.seconds = time;
  return kernel;
}

KernelTime joined(const std::vector<KernelTime>& kernels) {
  if (kernels.size() == 1) return kernels.front();
  double seconds = 0, flops = 0, tensor_j = 0, bytes = 0, l2_bytes = 0;
  for (const KernelTime& kernel : kernels) {
    seconds += kernel.seconds;
    flops += kernel.flops;
    tensor_j += kernel.tensor_j;
    bytes += kernel.bytes;
    l2_bytes += kernel.l2_bytes;
  }
  const auto shorter = [](const KernelTime& a, const KernelTime& b) { return a.seconds < b.seconds; };
  KernelTime all = std::max_element(kernels.begin(), kernels.end(), shorter)->taking(seconds);
  all.flops = flops;
  all.tensor_j = tensor_j;
  all.bytes = bytes;
  all.l2_bytes = l2_bytes;
  for (std::size_t limit = 0; limit < kKernelLimitNames.size(); ++limit) {
    all.chosen_without[limit] = 0;
    for (const KernelTime& kernel : kernels)
      all.chosen_without[limit] += kernel.seconds_without(static_cast<KernelLimit>(limit));
  }
  return all;
}

}  // namespace railyard::gpu
