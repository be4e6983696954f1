#include "collective/running_members.h"

#include <algorithm>
#include <map>

namespace railyard::collective {

void RunningMembers::find(const Group& group, const Program& program) {
  *this = RunningMembers();
  group_ = &group;
  program_ = &program;
  size_ = group.size();
  if (group.folded()) {
    const bool alike = program.is_alike();
    turned_ = !alike && program.turns();
    if (turned_) places_ = group.members_per_server();
    std::vector<std::uint32_t> numbers(group.size());  // of members that run
    for (std::uint32_t m = 0; m < group.size(); ++m) {
      const bool runs = group.exists(m) || (turned_ ? m % places_ == 0 : !alike);
      if (runs) running_.push_back(m);
      numbers[m] = static_cast<std::uint32_t>(running_.size()) - 1;
      if (group.exists(m)) seen_.push_back(numbers[m]);
    }
    size_ = static_cast<std::uint32_t>(running_.size());
    for (const std::uint32_t m : running_) {
      const auto client = std::find(seen_.begin(), seen_.end(), numbers[group.like[m]]);
      client_of_.push_back(static_cast<std::uint32_t>(client - seen_.begin()));
    }
    find_receivers(alike, numbers);
  }
  first_on_.assign(group.servers() + 1, size_);
  for (std::uint32_t m = size_; m-- > 0;) first_on_[server_of(m)] = m;
  for (std::uint32_t s = group.servers(); s-- > 0;) first_on_[s] = std::min(first_on_[s], first_on_[s + 1]);
}

void RunningMembers::find_receivers(bool alike, const std::vector<std::uint32_t>& numbers) {
  if (!alike) {
    number_of_ = numbers;
    first_of_.assign(size_, 0);
    return;
  }
  std::map<std::uint32_t, std::uint32_t> first;  // by copy that exists
  for (const std::uint32_t m : running_) first.try_emplace(group_->copy[m], 0);
  for (auto& [copy, at] : first) {
    at = static_cast<std::uint32_t>(number_of_.size());
    std::vector<std::uint32_t> own;  // by place
    for (const std::uint32_t m : running_)
      if (group_->copy[m] == copy) own.push_back(numbers[m]);
    for (std::uint32_t m = 0; m < group_->size(); ++m) number_of_.push_back(own[group_->place[m]]);
  }
  for (const std::uint32_t m : running_) first_of_.push_back(first[group_->copy[m]]);
  end_together_ = first.size() > 1;
}

}  // namespace railyard::collective
