#include "collective/running_members.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace railyard::collective {

void RunningMembers::find(const Group& group, const Program& program) {
  *this = RunningMembers();
  group_ = &group;
  program_ = &program;
  size_ = group.size();
  if (group.folded()) {
    alike_ = program.is_alike();
    turned_ = !alike_ && program.turns() && group.servers() > 1;
    if (turned_) places_ = group.members_per_server();
    std::vector<std::uint32_t> numbers(group.size());  // of members that run
    for (std::uint32_t m = 0; m < group.size(); ++m) {
      const bool runs = group.exists(m) || (turned_ ? m % places_ == 0 : !alike_);
      if (runs) running_.push_back(m);
      numbers[m] = static_cast<std::uint32_t>(running_.size()) - 1;
      if (group.exists(m)) seen_.push_back(numbers[m]);
    }
    size_ = static_cast<std::uint32_t>(running_.size());
    for (const std::uint32_t m : running_) {
      const auto client = std::find(seen_.begin(), seen_.end(), numbers[group.like[m]]);
      client_of_.push_back(static_cast<std::uint32_t>(client - seen_.begin()));
    }
    find_receivers(numbers);
  }
  first_on_.assign(group.servers() + 1, size_);
  for (std::uint32_t m = size_; m-- > 0;) first_on_[server_of(m)] = m;
  for (std::uint32_t s = group.servers(); s-- > 0;) first_on_[s] = std::min(first_on_[s], first_on_[s + 1]);
}

void RunningMembers::find_receivers(const std::vector<std::uint32_t>& numbers) {
  if (!alike_) {
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

std::uint32_t RunningMembers::copies_apart(std::uint32_t from, const Transfer& t) const {
  if (!alike_) return 0;
  const std::uint32_t copies = group_->copy.back() + 1;
  return (group_->copy[t.to] + copies - group_->copy[member_of(from)]) % copies;
}

transport::Window RunningMembers::destination(std::uint32_t from, const Transfer& t) const {
  if (!exists(from)) {
    const bool leaves =
        group_->server_of(t.to) != server_of(from) || group_->copy[t.to] != group_->copy[member_of(from)];
    return leaves ? group_->beyond[t.to] : group_->members[group_->like[t.to]];
  }
  if (copies_apart(from, t) == 0) return group_->members[t.to];
  return group_->beyond[member_of(number_of_[first_of_[from] + t.to])];
}

NetworkTraffic network_traffic(const CollectiveSpec& spec, const Group& group) {
  const std::unique_ptr<Program> program = make_program(spec, group);
  RunningMembers running;
  running.find(group, *program);
  NetworkTraffic all;
  std::map<std::pair<transport::Window, transport::Window>, double> bytes;
  Action action;
  for (std::uint32_t number = 0; number < running.size(); ++number) {
    if (!running.exists(number)) continue;
    const std::uint32_t m = running.member_of(number);
    for (std::uint32_t thread = 0; thread < program->threads(); ++thread) {
      std::optional<std::uint32_t> first;
      for (std::uint32_t index = 0; index < program->actions(m, thread); ++index) {
        action.clear();
        program->describe(m, thread, index, action);
        for (const Transfer& t : action.transfers)
          if (t.kind <= Transfer::Kind::flag && group.server_of(t.to) != group.server_of(m)) {
            bytes[{group.members[m], running.destination(number, t)}] += static_cast<double>(t.range.bytes);
            all.beyond_next_copy |= running.copies_apart(number, t) > 1;
            if (!first) first = t.to;
            all.fans_out |= *first != t.to;
          }
      }
    }
  }
  for (const auto& [pair, sum] : bytes) all.pairs.push_back({pair.first, pair.second, spec.traffic_class, sum});
  return all;
}

}  // namespace railyard::collective
