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

std::size_t RateMemory::BranchHash::operator()(const Branch& branch) const {
  std::uint64_t demand = 0;
  std::memcpy(&demand, &branch.event.demand, sizeof demand);
  std::uint64_t mixed = (std::uint64_t{branch.place} << 32 | branch.event.flow) * 0x9e3779b97f4a7c15ull;
  mixed = (mixed ^ mixed >> 29 ^ demand ^ branch.event.what) * 0xbf58476d1ce4e5b9ull;
  return static_cast<std::size_t>(mixed ^ mixed >> 32);
}

void RateMemory::step(What what, const FluidFlow& flow) {
  if (place_ != kLost) go({what == kLeft ? 0 : flow.demand, flow.number, what});
}

std::uint32_t RateMemory::add_place() {
  places_.emplace_back();
  return static_cast<std::uint32_t>(places_.size() - 1);
}

void RateMemory::go(const Event& event) {
  const std::uint32_t from = place_, next = places_[from].next;
  if (next == 0) {
    place_ = add_place();
    places_[from].first = event;
    places_[from].next = place_;
  } else if (places_[from].first == event) {
    place_ = next;
  } else {
    const auto [branch, is_new] = branches_.try_emplace(Branch{from, event}, 0);
    if (is_new) branch->second = add_place();
    place_ = branch->second;
  }
  if (places_.size() > kMostPlaces) forget();
}

const RateMemory::Solution* RateMemory::solve() {
  if (place_ == kLost) return nullptr;
  go({0, 0, kSolved});
  if (place_ == kLost || places_[place_].solution == kLost) return nullptr;
  ++found_;
  return &solutions_[places_[place_].solution];
}

void RateMemory::keep(Solution solution) {
  if (place_ == kLost) return;
  values_ += solution.values.size();
  places_[place_].solution = static_cast<std::uint32_t>(solutions_.size());
  solutions_.push_back(std::move(solution));
  if (values_ > kMostValues) forget();
}

void RateMemory::forget() {
  places_.assign(1, {});
  branches_.clear();
  solutions_.clear();
  values_ = 0;
  place_ = kLost;
}

}  // namespace railyard::transport
