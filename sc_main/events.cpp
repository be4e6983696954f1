#include "sc_main/events.h"

#include <fmt/format.h>

#include "sc_main/describe.h"
#include "sc_main/link_table.h"
#include "sc_main/scenario/table/words.h"
#include "transport/assembly.h"
#include "transport/faults.h"
#include "transport/recovery.h"

namespace railyard {

namespace {

[[noreturn]] void refuse(const MachineEvent& event, const char* what, const char* example,
                         const std::vector<std::string>& names) {
  const std::string near = scenario::nearest(event.name, names);
  throw InputError(event.origin, fmt::format("{}: no {} {}; accepted: a name from --describe, for example {}{}",
                                             event.key, what, scenario::in_quotes(event.name), example,
                                             near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

transport::LinkEnd end_of(const LinkRow& row) { return {const_cast<transport::Device*>(row.device), row.port}; }

transport::LinkEnd other_end(const transport::LinkEnd& end) { return {end.state().peer, end.state().peer_port}; }

/// The direction in which the named device sends.
transport::LinkEnd link_named(Simulation& simulation, const MachineEvent& event) {
  const std::vector<LinkRow> rows = link_table(simulation);
  std::vector<std::string> names;
  for (const LinkRow& row : rows) {
    if (row.meter != nullptr) continue;  // a meter, not a link
    if (row.port_name() == event.name || (row.name == event.name && row.direction == "tx")) return end_of(row);
    if (row.direction == "tx") names.push_back(row.name);
    names.push_back(row.port_name());
  }
  refuse(event, "link", "IB_NIC_P[0]_PCI or prefill0.nic0.pcie", names);
}

}  // namespace

MachineEvents::MachineEvents(Simulation& simulation) : fabric_(simulation.fabric()) {
  for (const MachineEvent& event : simulation.scenario().events) {
    if (event.kind == MachineEvent::Kind::slow_gpu) {
      add_gpu_event(simulation, event);
    } else {
      add_link_event(simulation, event);
    }
  }
}

void MachineEvents::add_link_event(Simulation& simulation, const MachineEvent& event) {
  const transport::LinkEnd link = link_named(simulation, event);
  std::vector<transport::LinkEnd> ends;
  if (event.side != LinkSide::rx) ends.push_back(link);
  if (event.side != LinkSide::tx) ends.push_back(other_end(link));
  if (event.kind == MachineEvent::Kind::fail) {
    fail_links_ = true;
    simulation.fabric().faults().fail(event.at, ends);
    return;
  }
  changed_links_.insert(changed_links_.end(), ends.begin(), ends.end());
  for (const transport::LinkEnd& end : ends) simulation.fabric().faults().derate(event.at, end, event.ratio);
}

void MachineEvents::add_gpu_event(Simulation& simulation, const MachineEvent& event) {
  std::vector<std::string> names;
  for (std::uint32_t g = 0; g < simulation.machine().gpus(); ++g) {
    gpu::Gpu& gpu = simulation.machine().gpu(GpuId(g));
    names.emplace_back(gpu.name());
    if (event.name != names.back()) continue;
    simulation.fabric().calendar().at(event.at, *this, 0, slowings_.size());
    slowings_.push_back({&gpu, event.ratio, event.at});
    ++slowings_left_;
    return;
  }
  refuse(event, "GPU", "prefill0.gpu0", names);
}

std::vector<Time> MachineEvents::gpu_changes() const {
  std::vector<Time> instants;
  for (const Slowing& slowing : slowings_) instants.push_back(slowing.at);
  return instants;
}

bool MachineEvents::only_left(std::size_t of_workload) const {
  const std::size_t left = slowings_left_ + fabric_.faults().pending() + of_workload;
  return left != 0 && left == fabric_.calendar().pending();
}

std::string describe(const transport::Undeliverable& what, Simulation& simulation) {
  std::vector<std::string> links;
  for (const transport::Faults::Lost& lost : simulation.fabric().faults().lost())
    for (const LinkRow& row : link_table(simulation))
      if (row.device == lost.link.device && row.port == lost.link.port)
        links.push_back(fmt::format("{} {} at {:.9f} s", row.name, row.direction, lost.at.seconds()));
  std::string from = name_of_memory(simulation, what.source), to;
  if (transport::of_group(what.kind)) {
    const std::vector<transport::Window>& members = simulation.fabric().group(what.group);
    to = fmt::format("the {} GPUs from {} to {}", members.size(), name_of_memory(simulation, members.front()),
                     name_of_memory(simulation, members.back()));
    if (what.kind == transport::MessageKind::reduce) std::swap(from, to);
  } else {
    to = name_of_memory(simulation, what.destination);
  }
  return fmt::format("{}, {} bytes of {} from {} to {}, cannot be delivered: no working path is left; failed: {}",
                     what.part_of, what.bytes, kTrafficClasses[what.traffic_class].name, from, to,
                     scenario::joined(links));
}

void MachineEvents::on_event(std::uint32_t, std::uint64_t number) {
  --slowings_left_;
  slowings_[number].gpu->sms().set_speed(slowings_[number].ratio);
}

}  // namespace railyard
