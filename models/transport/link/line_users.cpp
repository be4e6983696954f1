#include "transport/link/line_users.h"

namespace railyard::transport {

void LineUsers::add(const void* message, std::uint8_t traffic_class, Time until, Time time) {
  if (uses_.empty()) uses_.resize(kKept);
  const Time from = until - time;
  Use& latest = uses_[latest_];
  if (latest.message == message && latest.traffic_class == traffic_class && latest.until == from) {
    latest.until = until;
    return;
  }
  latest_ = (latest_ + 1) % kKept;
  uses_[latest_] = {message, from, until, traffic_class};
}

LineUsers::Times LineUsers::between(Time from, Time until, const void* except) const {
  Times times{};
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const Use& use = uses_[(latest_ + kKept - i) % kKept];
    if (use.until <= from) break;
    if (use.message != except) times[use.traffic_class] += since(sooner(use.until, until), later(use.from, from));
  }
  return times;
}

}  // namespace railyard::transport
