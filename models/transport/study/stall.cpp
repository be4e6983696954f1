#include "transport/study/stall.h"

#include <algorithm>

namespace railyard::transport {

namespace {

/// `holder` waits in the far buffer of the virtual channel for which `waiter` has no credit.
bool holds_up(const Stall& holder, const Stall& waiter) {
  const Device::Port& port = waiter.device->port(waiter.port);
  return holder.device == port.peer && holder.transaction->ingress == port.peer_port &&
         holder.transaction->virtual_channel == waiter.transaction->virtual_channel;
}

}  // namespace

std::vector<Stall> stalls(const std::vector<Device*>& devices) {
  std::vector<Stall> found;
  for (Device* device : devices)
    for (std::uint32_t p = 0; p < device->ports(); ++p)
      for (const Transaction* t : device->waiting(PortId(p)))
        found.push_back({device, PortId(p), t, device->port(PortId(p)).egress.outstanding(t->virtual_channel)});
  return found;
}

std::vector<Stall> cycle_of(const std::vector<Stall>& stalls) {
  // Depth first; a transaction that was left leads to no cycle.
  std::vector<std::size_t> chain;
  std::vector<bool> seen(stalls.size(), false);
  std::vector<std::size_t> next(stalls.size(), 0);
  for (std::size_t start = 0; start < stalls.size(); ++start) {
    if (seen[start]) continue;
    seen[start] = true;
    chain = {start};
    while (!chain.empty()) {
      const std::size_t at = chain.back();
      if (next[at] == stalls.size()) {
        chain.pop_back();
        continue;
      }
      const std::size_t holder = next[at]++;
      if (!holds_up(stalls[holder], stalls[at])) continue;
      if (const auto first = std::find(chain.begin(), chain.end(), holder); first != chain.end()) {
        std::vector<Stall> cycle;
        std::transform(first, chain.end(), std::back_inserter(cycle), [&](std::size_t i) { return stalls[i]; });
        return cycle;
      }
      if (seen[holder]) continue;
      seen[holder] = true;
      chain.push_back(holder);
    }
  }
  return {};
}

}  // namespace railyard::transport
