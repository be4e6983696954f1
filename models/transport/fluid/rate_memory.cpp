#include "transport/fluid/rate_memory.h"

#include <cstring>
#include <utility>

#include "transport/fluid/rates.h"

namespace railyard::transport {

void RateMemory::Solution::add(FluidFlow& flow) {
  flows.push_back(&flow);
  for (const FluidFlow::Share& share : flow.shares) {
    narrowest.push_back(share.narrowest);
    values.insert(values.end(), {share.rate, share.least, share.second});
    values.insert(values.end(), share.offers.begin(), share.offers.end());
  }
}

void RateMemory::Solution::restore() const {
  auto narrow = narrowest.begin();
  auto value = values.begin();
  for (FluidFlow* flow : flows) {
    for (FluidFlow::Share& share : flow->shares) {
      share.narrowest = *narrow++;
      share.rate = *value++;
      share.least = *value++;
      share.second = *value++;
      for (double& offer : share.offers) offer = *value++;
    }
  }
}

std::size_t RateMemory::StepHash::operator()(const Step& step) const {
  std::uint64_t demand = 0;
  std::memcpy(&demand, &step.demand, sizeof demand);
  std::uint64_t mixed = (std::uint64_t{step.place} << 32 | step.flow) * 0x9e3779b97f4a7c15ull;
  mixed = (mixed ^ mixed >> 29 ^ demand ^ step.what) * 0xbf58476d1ce4e5b9ull;
  return static_cast<std::size_t>(mixed ^ mixed >> 32);
}

void RateMemory::step(What what, const FluidFlow& flow) {
  if (place_ != kLost) go({place_, flow.number, what == kLeft ? 0 : flow.demand, what});
}

void RateMemory::go(const Step& step) {
  const auto [next, is_new] = next_.try_emplace(step, places_ + 1);
  if (is_new) ++places_;
  place_ = next->second;
  if (places_ == kMostPlaces) forget();
}

const RateMemory::Solution* RateMemory::solve() {
  if (place_ == kLost) return nullptr;
  go({place_, 0, 0, kSolved});
  const auto known = solutions_.find(place_);
  if (known == solutions_.end()) return nullptr;
  ++found_;
  return &known->second;
}

void RateMemory::keep(Solution solution) {
  if (place_ == kLost) return;
  values_ += solution.values.size();
  solutions_.emplace(place_, std::move(solution));
  if (values_ > kMostValues) forget();
}

void RateMemory::forget() {
  next_.clear();
  solutions_.clear();
  place_ = kLost;
  places_ = kRest;
  values_ = 0;
}

}  // namespace railyard::transport
