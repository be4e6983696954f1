#include "sc_main/describe.h"

#include <fmt/format.h>

#include "sc_main/link_table.h"

namespace railyard {

namespace {

using Json = nlohmann::ordered_json;

const char* kind_of(const transport::Device& device) {
  if (dynamic_cast<const gpu::Gpu*>(&device) != nullptr) return "gpu";
  if (dynamic_cast<const infiniband::Nic*>(&device) != nullptr) return "nic";
  if (dynamic_cast<const nvlink::NvSwitch*>(&device) != nullptr) return "nvswitch";
  if (dynamic_cast<const pcie::PlxSwitch*>(&device) != nullptr) return "plx";
  if (dynamic_cast<const pcie::RootComplex*>(&device) != nullptr) return "root_complex";
  return "ib_switch";
}

Json hops_of(const transport::Lane& lane) {
  Json hops = Json::array();
  for (const transport::Hop& hop : lane.hops)
    hops.push_back(fmt::format("{}.{}", hop.device->name(), hop.device->port(hop.port).name));
  return hops;
}

void add_route(Json& routes, Simulation& simulation, const char* what, TrafficClass traffic_class, GpuId from, GpuId to) {
  if (from == to) return;
  const transport::Path path = simulation.fabric().path(from.value(), to.value(), number(traffic_class));
  Json route;
  route["what"] = what;
  route["class"] = kTrafficClassNames[number(traffic_class)];
  route["from"] = simulation.machine().gpu(from).name();
  route["to"] = simulation.machine().gpu(to).name();
  const Bytes size = simulation.fabric().transaction_bytes(path);
  route["transaction_bytes"] = size;
  route["payload_gb_per_s"] = transport::payload_rate(path, size).gb_per_s();
  route["latency_s"] = transport::uncontended_time(path, 1, size).seconds();
  route["lanes"] = Json::array();
  for (const transport::Lane& lane : path.lanes) route["lanes"].push_back(hops_of(lane));
  routes.push_back(route);
}

/// One route per kind of traffic and grid; the pattern repeats over ranks.
void add_grid_routes(Json& routes, Simulation& simulation, const char* name, const workload::prefill::Mapping& mapping,
                     const std::vector<GpuId>& gpus) {
  if (mapping.tp > 1) add_route(routes, simulation, fmt::format("{} all-reduce, t=0 to t=1", name).c_str(), TrafficClass::tp, gpus[0], gpus[1]);
  if (mapping.tp > 2)
    add_route(routes, simulation, fmt::format("{} all-reduce, t={} to t=0", name, mapping.tp - 1).c_str(), TrafficClass::tp, gpus[mapping.tp - 1], gpus[0]);
  if (mapping.pp > 1) add_route(routes, simulation, fmt::format("{} activations, p=0 to p=1", name).c_str(), TrafficClass::pp, gpus[0], gpus[mapping.tp]);
}

}  // namespace

Json describe(Simulation& simulation) {
  const platforms::MachineSpec& spec = simulation.machine().spec();
  Json m;
  m["platform"] = simulation.scenario().platform;
  m["groups"] = Json::array();
  for (const platforms::GroupSpec& g : spec.groups)
    m["groups"].push_back({{"name", g.name}, {"servers", g.servers}, {"gpu", g.gpu.name}, {"calibration", g.gpu.calibration}, {"source", g.gpu.source}});
  m["devices"] = Json::array();
  for (const transport::Device* d : simulation.fabric().devices()) m["devices"].push_back({{"name", d->name()}, {"kind", kind_of(*d)}, {"ports", d->ports()}});
  m["links"] = Json::array();
  for (const LinkRow& row : link_table(simulation)) {
    const transport::Device::Port& port = row.device->port(row.port);
    m["links"].push_back({{"name", row.name}, {"direction", row.direction}, {"from", row.port_name()}, {"to", port.peer->name()},
                          {"gb_per_s", row.link().rate.gb_per_s()}, {"latency_ns", row.link().latency.seconds() * 1e9},
                          {"credit_latency_ns", row.link().credit_latency.seconds() * 1e9}, {"buffer_bytes", row.link().buffer_bytes}});
  }
  m["routes"] = Json::array();
  const workload::prefill::PrefillSpec& w = simulation.scenario().workload;
  add_grid_routes(m["routes"], simulation, "prefill", w.prefill, simulation.prefill_gpus());
  add_grid_routes(m["routes"], simulation, "decode", w.decode, simulation.decode_gpus());
  workload::prefill::HandoffPlan plan(simulation.system().prefill_grid(), simulation.system().decode_grid());
  for (std::uint32_t r = 0; r < w.prefill.ranks(); ++r)
    for (const workload::prefill::HandoffPlan::Share& share : plan.shares(r))
      add_route(m["routes"], simulation, fmt::format("KV handoff, prefill rank {} to decode rank {}", r, share.decode_rank).c_str(), TrafficClass::kv,
                simulation.prefill_gpus()[r], simulation.decode_gpus()[share.decode_rank]);
  return m;
}

std::string describe_text(const Json& m) {
  std::string text = fmt::format("{}\n\n", m["platform"].get<std::string>());
  for (const Json& g : m["groups"])
    text += fmt::format("  group {}: {} server{} of {} ({} constants)\n", g["name"].get<std::string>(), g["servers"].get<int>(),
                        g["servers"] == 1 ? "" : "s", g["gpu"].get<std::string>(), g["calibration"].get<std::string>());
  text += fmt::format("\n  {:<28} {:<14} {:>5}\n", "device", "kind", "ports");
  for (const Json& d : m["devices"])
    text += fmt::format("  {:<28} {:<14} {:>5}\n", d["name"].get<std::string>(), d["kind"].get<std::string>(), d["ports"].get<int>());
  text += fmt::format("\n  {:<26} {:<3} {:<28} {:<24} {:>9} {:>10} {:>12}\n", "link", "", "from", "to", "GB/s", "latency", "buffer");
  for (const Json& l : m["links"])
    text += fmt::format("  {:<26} {:<3} {:<28} {:<24} {:>9.2f} {:>7.1f} ns {:>12}\n", l["name"].get<std::string>(), l["direction"].get<std::string>(),
                        l["from"].get<std::string>(), l["to"].get<std::string>(), l["gb_per_s"].get<double>(), l["latency_ns"].get<double>(),
                        l["buffer_bytes"] == 0 ? "ample" : fmt::format("{} KiB", l["buffer_bytes"].get<std::uint64_t>() / 1024));
  text += "\n  routes\n";
  for (const Json& r : m["routes"]) {
    text += fmt::format("  {} [{}]: {:.2f} GB/s of payload, {:.2f} us for the first byte, transactions of {} bytes\n", r["what"].get<std::string>(),
                        r["class"].get<std::string>(), r["payload_gb_per_s"].get<double>(), r["latency_s"].get<double>() * 1e6,
                        r["transaction_bytes"].get<std::uint64_t>());
    for (const Json& lane : r["lanes"]) {
      std::string hops;
      for (const Json& hop : lane) hops += (hops.empty() ? "" : " > ") + hop.get<std::string>();
      text += "    " + hops + "\n";
    }
  }
  return text;
}

}  // namespace railyard
