#include "sc_main/describe.h"

#include <fmt/format.h>

#include "sc_main/link_table.h"
#include "transport/edge/generic_payload_adapter.h"

namespace railyard {

namespace {

const char* kind_of(const transport::Device& device) {
  if (dynamic_cast<const gpu::Gpu*>(&device) != nullptr) return "gpu";
  if (dynamic_cast<const infiniband::Nic*>(&device) != nullptr) return "nic";
  if (dynamic_cast<const nvlink::NvSwitch*>(&device) != nullptr) return "nvswitch";
  if (dynamic_cast<const pcie::PlxSwitch*>(&device) != nullptr) return "plx";
  if (dynamic_cast<const pcie::RootComplex*>(&device) != nullptr) return "root_complex";
  if (dynamic_cast<const pcie::HostMemory*>(&device) != nullptr) return "host_memory";
  if (dynamic_cast<const infiniband::AggregationNode*>(&device) != nullptr) return "aggregation_node";
  if (dynamic_cast<const transport::InitiatorAdapter*>(&device) != nullptr) return "initiator";
  if (dynamic_cast<const transport::TargetAdapter*>(&device) != nullptr) return "target";
  return "network_switch";
}

std::string assumed_line(const std::string& key, const std::string& value, const std::string& source) {
  return fmt::format("  assumed {}: {}{}\n", key, value, source.empty() ? "" : fmt::format(" ({})", source));
}

Value hops_of(const transport::Lane& lane) {
  Value hops = Value::empty_list();
  for (const transport::Hop& hop : lane.hops)
    hops.push_back(fmt::format("{}.{}", hop.device->name(), hop.device->port(hop.port).name));
  return hops;
}

/// Dense tensor rates, the HBM rate and the rate of an NVLink, including overrides of the scenario.
Value peaks_of(const gpu::GpuDatasheet& gpu) {
  Value tflops = Value::empty_group();
  for (std::size_t type = 0; type < kDataTypes; ++type)
    if (const double per_clock = gpu.sm.flop_per_clock[type]; per_clock > 0)
      tflops[std::string(kDataTypeNames[type])] = gpu.sm.count * gpu.sm.clock_mhz * per_clock * 1e-6;
  return {{"hbm_gb_per_s", gpu.hbm.gb_per_s}, {"nvlink_gb_per_s", gpu.nvlink.gb_per_s}, {"tflops", tflops}};
}

void add_route(Value& routes, Simulation& simulation, const RouteOfInterest& r) {
  if (r.from == r.to) return;
  const transport::Path path = simulation.fabric().path(r.from, r.to, number(r.traffic_class), r.engine);
  Value route;
  route["what"] = r.what;
  route["class"] = name(r.traffic_class);
  route["from"] = name_of_memory(simulation, r.from);
  route["to"] = name_of_memory(simulation, r.to);
  const Bytes size = simulation.fabric().transaction_bytes(path);
  route["transaction_bytes"] = size;
  route["payload_gb_per_s"] = transport::payload_rate(path, size).gb_per_s();
  route["latency_s"] = transport::uncontended_time(path, 1, size).seconds();
  route["lanes"] = Value::empty_list();
  for (const transport::Lane& lane : path.lanes) route["lanes"].push_back(hops_of(lane));
  routes.push_back(route);
}

/// Ranks with GPUs, and the sets of ranks that communicate, if the workload has several such groups.
void add_ranks(Value& m, Simulation& simulation) {
  const std::vector<RankSets> groups = simulation.workload().rank_sets();
  if (groups.empty()) return;
  m["ranks"] = Value::empty_list();
  for (const execution::Rank& rank : simulation.workload().executor().ranks())
    if (rank.gpu != nullptr) m["ranks"].push_back({{"rank", rank.number}, {"gpu", rank.gpu->name()}});
  m["rank_groups"] = Value::empty_list();
  for (const RankSets& group : groups) {
    Value sets = Value::empty_list();
    for (const std::vector<std::uint32_t>& set : group.ranks) {
      Value ranks = Value::empty_list();
      for (const std::uint32_t rank : set) ranks.push_back(rank);
      sets.push_back(std::move(ranks));
    }
    m["rank_groups"].push_back({{"group", group.group}, {"sets", std::move(sets)}});
  }
}

/// "0 1 2 3", or "0 8 .. 56" for more than eight evenly spaced ranks.
std::string ranks_text(const Value::List& ranks) {
  constexpr std::size_t kMostInFull = 8;
  const bool in_full = ranks.size() <= kMostInFull;
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (in_full || i < 2 || i + 1 == ranks.size())
      text +=
          fmt::format("{}{}{}", i == 0 ? "" : " ", !in_full && i + 1 == ranks.size() ? ".. " : "", ranks[i].integer());
  return text;
}

std::string rank_groups_text(const Value& m) {
  std::string text = "\n  groups of ranks\n";
  for (const Value& group : m["rank_groups"].items()) {
    const Value::List& sets = group["sets"].items();
    const Value::List& first = sets.front().items();
    const auto gpu = [&](const Value& rank) {
      return m["ranks"].items()[static_cast<std::size_t>(rank.integer())]["gpu"].text();
    };
    text += fmt::format("  {:<17} {} of {} ranks, the first: {} ({} to {})\n", group["group"].text(), sets.size(),
                        first.size(), ranks_text(first), gpu(first.front()), gpu(first.back()));
  }
  return text;
}

Value routes_of(Simulation& simulation) {
  Value routes = Value::empty_list();
  for (const RouteOfInterest& route : simulation.workload().routes()) add_route(routes, simulation, route);
  return routes;
}

}  // namespace

const char* name_of_memory(Simulation& simulation, transport::Window memory) {
  for (const transport::Device* device : simulation.fabric().devices()) {
    const auto* endpoint = dynamic_cast<const transport::Endpoint*>(device);
    if (endpoint != nullptr && endpoint->window() == memory) return endpoint->name();
  }
  return "";
}

Value assumed(const Scenario& scenario) {
  Value all = Value::empty_list();
  for (const Assumption& each : scenario.assumed)
    all.push_back({{"key", each.key}, {"value", each.value}, {"source", each.source}});
  return all;
}

std::string assumed_text(const Scenario& scenario) {
  std::string text;
  for (const Assumption& each : scenario.assumed) text += assumed_line(each.key, each.value, each.source);
  return text;
}

Value describe(Simulation& simulation) {
  const platforms::MachineSpec& spec = simulation.machine().spec();
  Value m;
  m["platform"] = simulation.scenario().platform;
  m["groups"] = Value::empty_list();
  for (const platforms::GroupSpec& g : spec.groups)
    m["groups"].push_back({{"name", g.name},
                           {"servers", g.servers},
                           {"gpu", g.gpu.name},
                           {"calibration", g.gpu.calibration},
                           {"source", g.gpu.source},
                           {"peak", peaks_of(g.gpu)}});
  if (spec.part && !spec.part->in_one_server) m["stands_for_servers"] = spec.part->servers;
  if (spec.part && spec.part->in_one_server) m["stands_for_gpus"] = simulation.fold().represented_gpus;
  if (!simulation.scenario().assumed.empty()) m["assumed"] = assumed(simulation.scenario());
  m["devices"] = Value::empty_list();
  for (const transport::Device* d : simulation.fabric().devices())
    m["devices"].push_back({{"name", d->name()}, {"kind", kind_of(*d)}, {"ports", d->ports()}});
  m["links"] = Value::empty_list();
  for (const LinkRow& row : link_table(simulation)) {
    const char* const to = row.meter != nullptr ? "" : row.device->port(row.port).peer->name();
    m["links"].push_back({{"name", row.name},
                          {"direction", row.direction},
                          {"from", row.port_name()},
                          {"to", to},
                          {"gb_per_s", row.link().rate.gb_per_s()},
                          {"latency_ns", row.link().latency.seconds() * 1e9},
                          {"credit_latency_ns", row.link().credit_latency.seconds() * 1e9},
                          {"buffer_bytes", row.link().buffer_bytes}});
  }
  add_ranks(m, simulation);
  m["routes"] = routes_of(simulation);
  return m;
}

std::string describe_text(const Value& m) {
  std::string text = fmt::format("{}\n\n", m["platform"].text());
  for (const Value& g : m["groups"].items())
    text += fmt::format("  group {}: {} server{} of {} ({} constants)\n", g["name"].text(), g["servers"].integer(),
                        g["servers"].integer() == 1 ? "" : "s", g["gpu"].text(), g["calibration"].text());
  if (m.contains("stands_for_servers"))
    text += fmt::format("  folded: these servers run for {}\n", m["stands_for_servers"].integer());
  if (m.contains("stands_for_gpus"))
    text += fmt::format("  folded: GPUs of one replica run for {}\n", m["stands_for_gpus"].integer());
  if (m.contains("assumed"))
    for (const Value& each : m["assumed"].items())
      text += assumed_line(each["key"].text(), each["value"].text(), each["source"].text());
  text += fmt::format("\n  {:<28} {:<14} {:>5}\n", "device", "kind", "ports");
  for (const Value& d : m["devices"].items())
    text += fmt::format("  {:<28} {:<14} {:>5}\n", d["name"].text(), d["kind"].text(), d["ports"].integer());
  text += fmt::format("\n  {:<26} {:<3} {:<28} {:<24} {:>9} {:>10} {:>12}\n", "link", "", "from", "to", "GB/s",
                      "latency", "buffer");
  for (const Value& l : m["links"].items())
    text += fmt::format(
        "  {:<26} {:<3} {:<28} {:<24} {:>9.2f} {:>7.1f} ns {:>12}\n", l["name"].text(), l["direction"].text(),
        l["from"].text(), l["to"].text(), l["gb_per_s"].real(), l["latency_ns"].real(),
        l["buffer_bytes"].integer() == 0 ? "ample" : fmt::format("{} KiB", l["buffer_bytes"].integer() / 1024));
  if (m.contains("rank_groups")) text += rank_groups_text(m);
  text += "\n  routes\n";
  for (const Value& r : m["routes"].items()) {
    text += fmt::format("  {} [{}]: {:.2f} GB/s of payload, {:.2f} us for the first byte, transactions of {} bytes\n",
                        r["what"].text(), r["class"].text(), r["payload_gb_per_s"].real(), r["latency_s"].real() * 1e6,
                        r["transaction_bytes"].integer());
    for (const Value& lane : r["lanes"].items()) {
      std::string hops;
      for (const Value& hop : lane.items()) hops += (hops.empty() ? "" : " > ") + hop.text();
      text += "    " + hops + "\n";
    }
  }
  return text;
}

Value explain(Simulation& simulation) {
  Value e = simulation.workload().explain();
  e["routes"] = routes_of(simulation);
  return e;
}

std::string explain_text(Simulation& simulation, const Value& e) {
  std::string text = simulation.workload().explain_text(e);
  if (!e["routes"].items().empty()) text += "\npaths\n";
  for (const Value& r : e["routes"].items())
    text += fmt::format("  {}: {:.2f} GB/s, first byte {}, {} lane{} of {} hops\n", r["what"].text(),
                        r["payload_gb_per_s"].real(), duration_text(r["latency_s"].real()), r["lanes"].items().size(),
                        r["lanes"].items().size() == 1 ? "" : "s", r["lanes"].items().front().items().size());
  return text;
}

}  // namespace railyard
