#include "sc_main/scenario/events.h"

#include "sc_main/scenario/table/times.h"

namespace railyard::scenario {

namespace {

MachineEvent resolve_event(const EventItem& written, const std::string& key, const Source& source) {
  const auto refuse = [&](const std::string& part, const std::string& what) {
    throw InputError(place_of(source.root, key + part), key + part + ": " + what);
  };
  const bool of_link = !written.link.empty();
  if (of_link == !written.gpu.empty()) refuse("", "needs exactly one of: link, gpu");
  if (of_link) {
    if (written.slow_ratio) refuse(".slow_ratio", "is accepted only for a gpu; for a link: rate_ratio, or fail: true");
    if (written.fail == written.rate_ratio.has_value()) refuse("", "needs exactly one of: rate_ratio, fail: true");
  } else {
    if (written.rate_ratio) refuse(".rate_ratio", "is accepted only for a link; for a gpu: slow_ratio");
    if (written.fail) refuse(".fail", "is accepted only for a link; for a gpu: slow_ratio");
    if (written.side) refuse(".direction", "is accepted only for a link");
    if (!written.slow_ratio) refuse("", "needs slow_ratio");
  }
  constexpr long double kFsPerUs = 1e9L;
  MachineEvent event;
  event.kind = !of_link       ? MachineEvent::Kind::slow_gpu
               : written.fail ? MachineEvent::Kind::fail
                              : MachineEvent::Kind::derate;
  event.at = long_time(written.at_us * kFsPerUs);
  event.name = of_link ? written.link : written.gpu;
  event.key = key + (of_link ? ".link" : ".gpu");
  event.origin = place_of(source.root, event.key);
  event.side = written.side.value_or(LinkSide::both);
  event.ratio = of_link ? written.rate_ratio.value_or(0) : *written.slow_ratio;
  return event;
}

}  // namespace

std::vector<MachineEvent> resolve_events(const std::vector<EventItem>& written, const Source& source) {
  std::vector<MachineEvent> events;
  for (const EventItem& item : written)
    events.push_back(resolve_event(item, "events." + std::to_string(events.size()), source));
  return events;
}

}  // namespace railyard::scenario
