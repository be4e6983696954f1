#include "sc_main/scenario/events.h"

#include <algorithm>

#include "sc_main/scenario/table/times.h"

namespace railyard::scenario {

namespace {

[[noreturn]] void refuse_event(const Source& source, const std::string& key, const std::string& what) {
  throw InputError(place_of(source.root, key), key + ": " + what);
}

Time time_of(const EventItem& written) {
  constexpr long double kFsPerUs = 1e9L;
  return long_time(written.at_us * kFsPerUs);
}

MachineEvent resolve_event(const EventItem& written, const std::string& key, const Source& source) {
  const auto refuse = [&](const std::string& part, const std::string& what) { refuse_event(source, key + part, what); };
  const bool of_link = !written.link.empty();
  if (of_link == !written.gpu.empty()) refuse("", "needs exactly one of: link, gpu, instance");
  if (written.drain) refuse(".drain", "is accepted only for an instance");
  if (!written.join.empty()) refuse(".join", "is accepted only for an instance");
  if (of_link) {
    if (written.slow_ratio) refuse(".slow_ratio", "is accepted only for a gpu; for a link: rate_ratio, or fail: true");
    if (written.fail == written.rate_ratio.has_value()) refuse("", "needs exactly one of: rate_ratio, fail: true");
  } else {
    if (written.rate_ratio) refuse(".rate_ratio", "is accepted only for a link; for a gpu: slow_ratio");
    if (written.fail) refuse(".fail", "is accepted only for a link; for a gpu: slow_ratio");
    if (written.side) refuse(".direction", "is accepted only for a link");
    if (!written.slow_ratio) refuse("", "needs slow_ratio");
  }
  MachineEvent event;
  event.kind = !of_link       ? MachineEvent::Kind::slow_gpu
               : written.fail ? MachineEvent::Kind::fail
                              : MachineEvent::Kind::derate;
  event.at = time_of(written);
  event.name = of_link ? written.link : written.gpu;
  event.key = key + (of_link ? ".link" : ".gpu");
  event.origin = place_of(source.root, event.key);
  event.side = written.side.value_or(LinkSide::both);
  event.ratio = of_link ? written.rate_ratio.value_or(0) : *written.slow_ratio;
  return event;
}

InstanceEvent resolve_instance_event(const EventItem& written, const std::string& key, const Source& source) {
  const auto refuse = [&](const std::string& part, const std::string& what) { refuse_event(source, key + part, what); };
  if (!written.link.empty() || !written.gpu.empty()) refuse("", "needs exactly one of: link, gpu, instance");
  if (written.slow_ratio) refuse(".slow_ratio", "is accepted only for a gpu; for an instance: drain, fail, join");
  if (written.rate_ratio) refuse(".rate_ratio", "is accepted only for a link; for an instance: drain, fail, join");
  if (written.side) refuse(".direction", "is accepted only for a link");
  const int count = (written.drain ? 1 : 0) + (written.fail ? 1 : 0) + (written.join.empty() ? 0 : 1);
  if (count != 1) refuse("", "needs exactly one of: drain: true, fail: true, join");
  InstanceEvent event;
  event.what = written.drain  ? InstanceEvent::What::drain
               : written.fail ? InstanceEvent::What::fail
                              : InstanceEvent::What::join;
  event.at = time_of(written);
  event.instance = written.instance;
  event.weights_from = written.join;
  event.key = key;
  return event;
}

std::string key_of(std::size_t number) { return "events." + std::to_string(number); }

}  // namespace

std::vector<MachineEvent> resolve_events(const std::vector<EventItem>& written, const Source& source) {
  std::vector<MachineEvent> events;
  for (std::size_t i = 0; i < written.size(); ++i)
    if (written[i].instance.empty()) events.push_back(resolve_event(written[i], key_of(i), source));
  return events;
}

std::vector<InstanceEvent> resolve_instance_events(const std::vector<EventItem>& written, bool has_instances,
                                                   const Source& source) {
  std::vector<InstanceEvent> events;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i].instance.empty()) continue;
    if (!has_instances)
      refuse_event(source, key_of(i) + ".instance",
                   "there are no instances in this workload.kind; accepted with serving");
    events.push_back(resolve_instance_event(written[i], key_of(i), source));
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const InstanceEvent& a, const InstanceEvent& b) { return a.at < b.at; });
  return events;
}

}  // namespace railyard::scenario
