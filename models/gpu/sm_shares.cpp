// Shares of SMs and bandwidth among the kernels and claims of a GPU. The rules are in sm_array.h.
#include <algorithm>
#include <utility>

#include "gpu/datasheet.h"
#include "gpu/fair_share.h"
#include "gpu/sm_array.h"

namespace railyard::gpu {

namespace {

constexpr double kLeastRatio = 0.05;  ///< least share of a bandwidth that a kernel has beside others
/// Share of a bandwidth that messages cannot take from kernels: memory serves both in turn. So links that are faster than
/// the other half take bandwidth from kernels for a shorter time, not more of it.
constexpr double kLeastOfKernels = 0.5;

}  // namespace

bool SmArray::may_move(const Kernel& kernel, const Progress& at) {
  return kernel.state == State::waiting || kernel.yields || at.done == 0;
}

std::vector<SmClient*> SmArray::admit_claims(Time now, const std::vector<Progress>& at) {
  std::vector<SmClient*> told;
  while (true) {
    Claim* first = nullptr;
    for (Claim& claim : claims_)
      if (claim.state == State::waiting &&
          (first == nullptr || std::pair(claim.priority, claim.order) < std::pair(first->priority, first->order)))
        first = &claim;
    if (first == nullptr) return told;
    bool is_behind = false;
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      if (kernels_[i].state == State::free || !stands_behind(*first, kernels_[i], at[i].index)) continue;
      kernels_[i].asked_at_end = is_behind = true;
    }
    if (is_behind) return told;
    double free = count() - claimed_sms();
    for (std::size_t i = 0; i < kernels_.size(); ++i)
      if (kernels_[i].state == State::running && !may_move(kernels_[i], at[i]) && !fits_beside(*first, running(i, at)))
        free -= held(kernels_[i], running(i, at));
    if (free < first->sms) {
      for (std::size_t i = 0; i < kernels_.size(); ++i)
        if (kernels_[i].state == State::running && !may_move(kernels_[i], at[i]) &&
            !fits_beside(*first, running(i, at)))
          kernels_[i].asked_sms = std::min(first->sms - free, held(kernels_[i], running(i, at)));
      return told;
    }
    first->state = State::running;
    add_up(&SmTotals::claim_wait_seconds, since(now, first->asked).seconds());
    if (first->client != nullptr) told.push_back(first->client);
  }
}

bool SmArray::keeps_sms(Kernel& kernel, const Progress& at, double sms) const {
  if (may_move(kernel, at)) return false;
  const KernelTime& running = kernel.chain->kernels[at.index];
  const double has = held(kernel, running);
  if (sms < has) kernel.asked_sms = std::max(kernel.asked_sms, has - sms);
  return sms < has || running.persistent;
}

void SmArray::share_sms(const std::vector<Progress>& at) {
  given_.assign(kernels_.size(), KernelShare());
  here_.clear();
  for (std::size_t i = 0; i < kernels_.size(); ++i)
    if (kernels_[i].state != State::free) here_.push_back(i);

  std::vector<double> wants, room;
  std::vector<std::size_t> rivals;  // kernels that cannot share SMs with some other kernel
  double capacity = 0;
  for (const std::size_t i : here_) {
    given_[i].sms = room_for(kernels_[i], at[i].index);
    const bool rival = std::any_of(here_.begin(), here_.end(),
                                   [&](std::size_t j) { return j != i && !beside(running(i, at), running(j, at)); });
    if (!rival) continue;
    rivals.push_back(i);
    wants.push_back(std::min(wanted(running(i, at)), given_[i].sms));
    capacity = std::max(capacity, given_[i].sms);
  }
  const std::vector<double> fair = fair_shares(capacity, wants);
  for (std::size_t r = 0; r < rivals.size(); ++r) given_[rivals[r]].sms = fair[r];

  // A running kernel keeps its SMs until the end of a wave; the other kernels share the rest.
  std::vector<std::size_t> movable;
  std::vector<double> movable_wants;
  for (const std::size_t i : here_) {
    Kernel& kernel = kernels_[i];
    const auto rival = std::find(rivals.begin(), rivals.end(), i);
    if (keeps_sms(kernel, at[i], given_[i].sms)) {
      given_[i].sms = kernel.share.sms;
      capacity -= held(kernel, running(i, at));
    } else if (rival != rivals.end()) {
      movable.push_back(i);
      movable_wants.push_back(wants[static_cast<std::size_t>(rival - rivals.begin())]);
    }
  }
  const std::vector<double> left = fair_shares(std::max(0.0, capacity), movable_wants);
  for (std::size_t m = 0; m < movable.size(); ++m) given_[movable[m]].sms = left[m];
}

KernelShare SmArray::bandwidth_left() const {
  const double hbm = sheet_.hbm.gb_per_s * sheet_.hbm.stream_ratio * 1e9, l2 = sheet_.l2_bytes_per_s();
  const auto left = [this](double rate) { return std::clamp(1 - traffic_shared_ / rate, kLeastOfKernels, 1.0); };
  return {0, left(l2), left(hbm)};
}

void SmArray::share_bandwidth(const std::vector<Progress>& at) {
  const KernelShare left = bandwidth_left();
  if (here_.size() <= 1) {
    for (KernelShare& share : given_) {
      share.hbm_ratio = left.hbm_ratio;
      share.l2_ratio = left.l2_ratio;
    }
    return;
  }
  // The demand of each kernel for a bandwidth, as a share of the rate that a kernel alone reaches.
  std::vector<double> hbm, l2;
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    hbm.push_back(0);
    l2.push_back(0);
    if (kernels_[i].state == State::free || given_[i].sms < 1) continue;
    const KernelTime& time = running(i, at);
    const double body =
        kernels_[i].chain->seconds_on(at[i].index, {given_[i].sms}) - time.fixed_seconds - time.after_seconds;
    if (body <= 0) continue;
    hbm.back() = time.hbm_seconds / body * kernels_[i].speed;
    l2.back() = time.l2_seconds / body * kernels_[i].speed;
  }
  const auto ratios = [](double left, const std::vector<double>& uses) {
    const std::vector<double> fair = fair_shares(left, uses);
    double all = 0;
    for (const double share : fair) all += share;
    std::vector<double> ratio;
    for (std::size_t i = 0; i < uses.size(); ++i)
      ratio.push_back(std::min(1.0, std::max(kLeastRatio, left - (all - fair[i]))));
    return ratio;
  };
  const std::vector<double> hbm_ratio = ratios(left.hbm_ratio, hbm), l2_ratio = ratios(left.l2_ratio, l2);
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    given_[i].hbm_ratio = hbm_ratio[i];
    given_[i].l2_ratio = l2_ratio[i];
  }
}

}  // namespace railyard::gpu
