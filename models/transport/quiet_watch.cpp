#include "transport/quiet_watch.h"

#include <utility>

#include "transport/fabric.h"

namespace railyard::transport {

void QuietWatch::wait(CalendarClient& client, std::uint32_t tag, std::uint64_t data) {
  waiting_.push_back({&client, tag, data});
  look_at(fabric_.now());
}

void QuietWatch::look_at(Time when) {
  if (looks_) return;
  looks_ = true;
  fabric_.calendar().at(when, *this, 0, 0);
}

void QuietWatch::on_pool_empty() { look_at(fabric_.now()); }

void QuietWatch::on_event(std::uint32_t, std::uint64_t) {
  looks_ = false;
  const Time now = fabric_.now();
  pool_.watch(pool_.live() != 0 ? this : nullptr);
  if (pool_.live() != 0) return;
  Time quiet;
  for (Device* device : fabric_.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p) quiet = later(quiet, fabric_.quiet_from({device, PortId(p)}));
  if (quiet == Time::max()) return;  // a credit is lost with its link
  if (quiet > now) {
    look_at(quiet);
    return;
  }
  for (const Waiting& waiting : std::exchange(waiting_, {}))
    fabric_.calendar().at(now, *waiting.client, waiting.tag, waiting.data);
}

}  // namespace railyard::transport
