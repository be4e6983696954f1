// Which kernels and claims fit on one SM, and how far kernels have come with their shares. The rules are in sm_array.h.
#include <algorithm>
#include <cmath>

#include "gpu/datasheet.h"
#include "gpu/sm_array.h"

namespace railyard::gpu {

namespace {

constexpr double kResolution = 1e-15;  ///< seconds: resolution of simulated time

/// Whether the SMs limit the kernel, and not memory or its launch.
bool needs_pipes(const KernelTime& kernel) {
  return kernel.limit == KernelLimit::tensor || kernel.limit == KernelLimit::feed;
}

}  // namespace

// -- Occupancy: which kernels and claims fit on one SM

bool SmArray::fit(const CtaFootprint& a, std::uint32_t of_a, const CtaFootprint& b, std::uint32_t of_b) const {
  return of_a * a.threads + of_b * b.threads <= sheet_.sm.threads &&
         of_a * a.registers_kib + of_b * b.registers_kib <= sheet_.sm.registers_kib &&
         of_a * a.shared_memory_kib + of_b * b.shared_memory_kib <= sheet_.sm.shared_memory_kib;
}

bool SmArray::fits_beside(const Claim& claim, const KernelTime& kernel) const {
  return fit(claim.footprint, 1, kernel.cta, kernel.ctas_per_sm);
}

bool SmArray::beside(const KernelTime& a, const KernelTime& b) const {
  return fit(a.cta, a.ctas_per_sm, b.cta, b.ctas_per_sm) && !(needs_pipes(a) && needs_pipes(b));
}

double SmArray::wanted(const KernelTime& kernel) const {
  const double most = kernel.most_sms > 0 ? kernel.most_sms : count();
  return std::min(most, std::ceil(static_cast<double>(kernel.ctas) / kernel.ctas_per_sm));
}

double SmArray::occupied(const Kernel& kernel, const KernelTime& running) const {
  return std::min({wanted(running), kernel.share.sms, kernel.uncovered_sms});
}

double SmArray::claimed_sms() const {
  double sms = 0;
  for (const Claim& claim : claims_)
    if (claim.state == State::running) sms += claim.sms;
  return sms;
}

double SmArray::room_for(const Kernel& kernel, std::uint32_t index) const {
  double room = count();
  for (const Claim& claim : claims_)
    if (claim.state != State::free && !fits_beside(claim, kernel.chain->kernels[index]) &&
        !stands_behind(claim, kernel, index))
      room -= claim.sms;
  return std::max(0.0, room);
}

bool SmArray::stands_behind(const Claim& claim, const Kernel& kernel, std::uint32_t index) {
  return claim.state == State::waiting && claim.priority == CommPriority::normal && kernel.ahead_index == index &&
         claim.order >= kernel.ahead_of;
}

void SmArray::put_ahead(Kernel& kernel, const Claim& claim) const {
  if (kernel.state == State::free || kernel.ahead_index == kernel.index) return;
  const Time now = calendar_.now();
  if (kernel.state == State::running) {
    const KernelTime& time = kernel.chain->kernels[kernel.index];
    const double slots = std::floor(kernel.share.sms) * time.ctas_per_sm;
    // A kernel for fewer SMs has as many blocks as run at once, whose tiles the model counts as blocks.
    const bool all_run = time.persistent || time.most_sms > 0 || static_cast<double>(time.ctas) <= slots;
    if (all_run || progress(kernel, now).done == 0) return;  // without progress, the kernel begins now
  } else if (kernel.done == 0 && later(kernel.begun, kernel.from) >= now) {
    return;
  }
  kernel.ahead_index = kernel.index;
  kernel.ahead_of = claim.order;
}

// -- Progress of kernels

double SmArray::seconds(const Kernel& kernel, std::uint32_t index) const {
  const KernelTime& time = kernel.chain->kernels[index];
  KernelShare share = kernel.share;
  if (index != kernel.index && !kernel.foreseen) share.sms = room_for(kernel, index);
  if (share.sms >= count() && share.l2_ratio == 1 && share.hbm_ratio == 1) return time.seconds;
  // Without any room, a waiting claim or kernel is served before this kernel begins; one SM avoids a division by zero.
  share.sms = std::max(1.0, share.sms);
  return kernel.chain->seconds_on(index, share);
}

SmArray::Progress SmArray::progress(const Kernel& kernel, Time now) const {
  Progress p{kernel.index, kernel.done};
  if (kernel.state != State::running) return p;
  double left = since(now, kernel.from).seconds() * kernel.speed;
  const auto last = static_cast<std::uint32_t>(kernel.chain->kernels.size() - 1);
  while (true) {
    const KernelTime& time = kernel.chain->kernels[p.index];
    const double all = seconds(kernel, p.index);
    const double rest = (1 - p.done) * all;
    const bool over =
        left > rest - kResolution;  // the next kernel begins at the rounded end of this one, at the latest
    const double used = over ? rest : left;
    p.busy_sm_seconds += used / kernel.speed * occupied(kernel, time);
    const double fraction = all > 0 ? used / all : 1 - p.done;
    p.bytes += fraction * time.bytes;
    p.tensor_j += fraction * time.tensor_j;
    p.done = std::min(1.0, p.done + fraction);
    left = std::max(0.0, left - used);
    if (!over || p.index == last || !kernel.alone) return p;
    ++p.index;
    p.done = 0;
  }
}

void SmArray::settle(Kernel& kernel, const Progress& p, Time now) {
  add_up(&SmTotals::kernel_busy, p.busy_sm_seconds);
  add_up(&SmTotals::kernel_bytes, p.bytes);
  add_up(&SmTotals::tensor_j, p.tensor_j);
  kernel.index = p.index;
  kernel.done = p.done;
  kernel.from = now;
}

void SmArray::settle_claims(Time now) {
  add_up(&SmTotals::claim_busy, claimed_sms() * since(now, claims_since_).seconds());
  claims_since_ = now;
}

void SmArray::catch_up() {
  const Time now = calendar_.now();
  for (Kernel& kernel : kernels_) {
    const Progress p = progress(kernel, now);
    if (p.index == kernel.index) continue;
    const double room = room_for(kernel, p.index);
    settle(kernel, p, now);
    kernel.share.sms = room;
  }
}

double SmArray::busy_sm_seconds(Time now) const {
  double busy = totals_.claim_busy + claimed_sms() * since(now, claims_since_).seconds() + totals_.kernel_busy;
  for (const Kernel& kernel : kernels_) busy += progress(kernel, now).busy_sm_seconds;
  return busy;
}

double SmArray::tensor_j(Time now) const {
  double joules = totals_.tensor_j;
  for (const Kernel& kernel : kernels_) joules += progress(kernel, now).tensor_j;
  return joules;
}

double SmArray::kernel_bytes(Time now) const {
  double bytes = totals_.kernel_bytes;
  for (const Kernel& kernel : kernels_) bytes += progress(kernel, now).bytes;
  return bytes;
}

}  // namespace railyard::gpu
