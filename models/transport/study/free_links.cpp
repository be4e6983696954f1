#include "transport/study/free_links.h"

namespace railyard::transport {

std::vector<Time> FreeLinks::carry(const Carried& message, const std::vector<Time>& sent) {
  const MessageCosts::PathCosts& costs = *message.costs;
  std::vector<Time> arrived(worlds_.count);
  const std::size_t its_class = worlds_.classes + message.traffic_class;
  /// @param free  worlds in which it takes no time
  const auto pass = [&](std::vector<Busy>& busy, double bytes_per_second, std::size_t free, bool is_slowest) {
    const Time time = Time::seconds(static_cast<double>(message.bytes) / bytes_per_second);
    busy.resize(worlds_.count);
    for (std::size_t world = 0; world < worlds_.count; ++world) {
      if (world == free || world == its_class || world == worlds_.queue) continue;
      if (world == worlds_.wire && is_slowest) continue;
      const Time since = sent[world];
      Time until = since + time;
      if (Busy& latest = busy[world]; since >= latest.since) {
        if (since > latest.until) latest = {since, since};
        until = latest.until += time;
      }
      const Time last = until + (world == worlds_.latency ? Time() : costs.latency);
      arrived[world] = later(arrived[world], sooner(last, until - time + message.uncontended));
    }
  };
  for (const MessageCosts::Link& link : costs.links) {
    if (links_.size() <= link.number) links_.resize(link.number + 1);
    const bool is_slowest =
        costs.slowest != nullptr && (link.port == costs.slowest->port ||
                                     (link.group != MessageCosts::kNoGroup && link.group == costs.slowest->group));
    pass(links_[link.number], link.bytes_per_second,
         link.group == MessageCosts::kNoGroup ? worlds_.count : worlds_.groups + link.group, is_slowest);
  }
  if (costs.engine_bytes_per_second != MessageCosts::kUnlimited)
    pass(engines_[costs.engine], costs.engine_bytes_per_second, worlds_.engine, false);
  return arrived;
}

}  // namespace railyard::transport
