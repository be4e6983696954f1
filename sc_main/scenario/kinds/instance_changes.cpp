#include "sc_main/scenario/kinds/instance_changes.h"

#include <algorithm>

#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using workload::inference::InstanceChange;
using workload::inference::InstanceSpec;

namespace {

using What = InstanceEvent::What;

/// What is there at the instant of an event.
struct Presence {
  bool has_weights = true, is_open = true;
};

std::uint32_t id_of(const std::string& name, const std::string& key, const std::vector<InstanceSpec>& instances,
                    const std::string& also, const Source& source) {
  std::vector<std::string> names;
  for (const InstanceSpec& instance : instances) names.push_back(instance.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::uint32_t>(found - names.begin());
  const std::string near = nearest(name, names);
  throw InputError(place_of(source.root, key), key + ": no instance " + in_quotes(name) + "; accepted: " + also +
                                                   joined(names) +
                                                   (near.empty() ? "" : " (did you mean " + in_quotes(near) + "?)"));
}

std::uint32_t weights_from(const InstanceEvent& event, std::uint32_t to, const std::vector<InstanceSpec>& instances,
                           const std::vector<Presence>& presences, const Source& source) {
  const std::string key = event.key + ".join";
  const std::uint32_t from = id_of(event.weights_from, key, instances, "host, ", source);
  const auto refuse = [&](const std::string& what) {
    throw InputError(place_of(source.root, key), key + ": " + event.weights_from + what);
  };
  const workload::inference::Mapping &a = instances[from].mapping, &b = instances[to].mapping;
  if (from == to) refuse(" is the instance itself; accepted: host, or another instance");
  if (a.tp != b.tp || a.pp != b.pp || a.dp != b.dp || a.experts.ranks != b.experts.ranks ||
      a.stage_layers != b.stage_layers)
    refuse(" has other shares of the weights than " + event.instance +
           "; accepted: host, or an instance with the same tp, pp, dp, ep and stage_layers");
  if (!presences[from].has_weights) refuse(" does not have its weights then; accepted: host, or an instance that does");
  return from;
}

}  // namespace

std::vector<InstanceChange> resolve_instance_changes(const std::vector<InstanceEvent>& events,
                                                     const std::vector<InstanceSpec>& instances, const Source& source) {
  std::vector<InstanceChange> changes;
  std::vector<Presence> presences(instances.size());
  std::vector<bool> is_known(instances.size());
  for (const InstanceEvent& event : events) {
    const std::uint32_t id = id_of(event.instance, event.key + ".instance", instances, "", source);
    if (!is_known[id] && event.what == What::join) presences[id] = {false, false};
    is_known[id] = true;
  }
  for (const InstanceEvent& event : events) {
    const std::uint32_t id = id_of(event.instance, event.key + ".instance", instances, "", source);
    Presence& presence = presences[id];
    const bool can = event.what == What::drain  ? presence.is_open
                     : event.what == What::fail ? presence.has_weights
                                                : !presence.is_open;
    if (!can)
      throw InputError(
          place_of(source.root, event.key),
          event.key + ": instance " + event.instance +
              (event.what == What::join ? " is there at that time; accepted after drain or fail, or as its first event"
                                        : " is not there at that time, or drained already; accepted after join"));
    InstanceChange& change = changes.emplace_back();
    change.at = event.at;
    change.instance = id;
    switch (event.what) {
      case What::drain:
        change.what = InstanceChange::What::drain;
        presence.is_open = false;
        break;
      case What::fail:
        change.what = InstanceChange::What::fail;
        presence = {false, false};
        break;
      case What::join:
        change.what = InstanceChange::What::join;
        if (event.weights_from != "host") change.weights_from = weights_from(event, id, instances, presences, source);
        presence = {true, true};
    }
    const auto takes = [&](std::size_t i) { return presences[i].is_open && takes_prompts(instances[i].role); };
    std::size_t open = 0;
    for (std::size_t i = 0; i < instances.size(); ++i) open += takes(i) ? 1 : 0;
    const bool joins_later = std::any_of(events.begin() + static_cast<std::ptrdiff_t>(changes.size()), events.end(),
                                         [](const InstanceEvent& later) { return later.what == What::join; });
    if (open == 0 && event.at == Time() && !joins_later)
      throw InputError(
          place_of(source.root, event.key),
          event.key +
              ": no instance takes requests from the start, and none joins; accepted: a later event, or a join");
  }
  return changes;
}

}  // namespace railyard::scenario
