#include "transport/device/queue_pairs.h"

#include <algorithm>
#include <set>

namespace railyard::transport {

std::uint16_t QueuePairSets::set_of(std::uint8_t traffic_class, std::vector<std::uint64_t> members,
                                    std::uint32_t instance) {
  std::sort(members.begin(), members.end());
  const auto [known, fresh] = known_.try_emplace({traffic_class, instance, members}, 0);
  if (!fresh) return known->second;
  std::map<std::uint32_t, std::uint32_t> common;  // members, by communicator
  std::set<std::uint16_t> taken;
  const auto number = static_cast<std::uint32_t>(sets_.size());
  for (const std::uint64_t member : members) {
    std::vector<std::uint32_t>& joined = joined_by_[{traffic_class, member}];
    for (const std::uint32_t other : joined)
      if (++common[other] == 2) taken.insert(sets_[other]);
    joined.push_back(number);
  }
  std::uint16_t set = 0;
  while (taken.count(set) != 0) ++set;
  sets_.push_back(set < kQueuePairSets ? set : std::uint16_t{0});
  return known->second = sets_.back();
}

}  // namespace railyard::transport
