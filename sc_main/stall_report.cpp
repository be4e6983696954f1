#include "sc_main/stall_report.h"

#include <fmt/format.h>

#include "transport/study/stall.h"

namespace railyard {

namespace {

using transport::Stall;

std::string place(const Stall& stall) {
  return fmt::format("{}.{}", stall.device->name(), stall.device->port(stall.port).name);
}

std::string who(Simulation& simulation, const Stall& stall) {
  const transport::Message& m = *stall.transaction->message;
  const auto gpu = [&](transport::Window window) { return simulation.machine().gpu(GpuId(window)).name(); };
  const std::string name = m.client->name_of(m);
  return name.empty() ? fmt::format("a message from {} to {}", gpu(m.source), gpu(m.destination)) : name;
}

}  // namespace

std::vector<std::string> stall_report(Simulation& simulation) {
  const std::vector<Stall> stalls = transport::stalls(simulation.fabric().devices());
  std::vector<std::string> lines;
  for (const Stall& stall : stalls)
    lines.push_back(
        fmt::format("{} waits at {} for credit of virtual channel {}: {} bytes are outstanding, the buffer holds {}",
                    who(simulation, stall), place(stall), stall.transaction->virtual_channel, stall.outstanding,
                    stall.device->port(stall.port).egress.link().buffer_bytes));
  std::string cycle;
  for (const Stall& stall : transport::cycle_of(stalls))
    cycle += fmt::format("{}{} at {}", cycle.empty() ? "cycle in which each message waits for the next: " : " > ",
                         who(simulation, stall), place(stall));
  if (!cycle.empty()) lines.push_back(cycle);
  return lines;
}

}  // namespace railyard
