#include "workload/inference/scheduler/blocked.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::inference {

std::string blocked_text(std::size_t waiting, std::uint32_t first, std::uint64_t needed, Scheduler::Memory memory,
                         std::vector<Holder> holders) {
  constexpr std::size_t kMostListed = 8;
  holders.erase(std::remove_if(holders.begin(), holders.end(), [](const Holder& holder) { return holder.blocks == 0; }),
                holders.end());
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return a.blocks != b.blocks ? a.blocks > b.blocks : a.request < b.request;
  });
  std::string text = fmt::format("{} requests wait, request {} first, for {} blocks: {} of {} are free", waiting, first,
                                 needed, memory.free, memory.total);
  for (std::size_t i = 0; i < std::min(holders.size(), kMostListed); ++i)
    text += fmt::format("{}request {}: {} ({})", i > 0 ? ", " : "; held by ", holders[i].request, holders[i].blocks,
                        holders[i].state);
  if (holders.size() > kMostListed) text += fmt::format(", and {} others", holders.size() - kMostListed);
  return text;
}

}  // namespace railyard::workload::inference
