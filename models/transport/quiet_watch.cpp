#include "transport/quiet_watch.h"

#include <utility>

#include "transport/fluid/fluid.h"

namespace railyard::transport {

Time quiet_from(const LinkEnd& link, Time now) {
  Device::Port& port = link.state();
  if (port.fluid != nullptr) return port.fluid->members.empty() ? Time() : Time::max();
  return later(port.egress.quiet_from(now), link.device->forgets_from());
}

void QuietWatch::wait(CalendarClient& client, std::uint32_t tag, std::uint64_t data) {
  waiting_.push_back({&client, tag, data});
  look_at(calendar_.now());
}

void QuietWatch::look_at(Time when) {
  if (looks_) return;
  looks_ = true;
  calendar_.at(when, *this, 0, 0);
}

void QuietWatch::on_pool_empty() { look_at(calendar_.now()); }

void QuietWatch::on_event(std::uint32_t, std::uint64_t) {
  looks_ = false;
  const Time now = calendar_.now();
  pool_.watch(pool_.live() != 0 ? this : nullptr);
  if (pool_.live() != 0) return;
  Time quiet;
  for (Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p) quiet = later(quiet, quiet_from({device, PortId(p)}, now));
  if (quiet == Time::max()) return;  // a credit was lost with its link
  if (quiet > now) {
    look_at(quiet);
    return;
  }
  for (const Waiting& waiting : std::exchange(waiting_, {}))
    calendar_.at(now, *waiting.client, waiting.tag, waiting.data);
}

}  // namespace railyard::transport
