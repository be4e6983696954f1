#include "sc_main/results.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/os.h>

namespace railyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kBusiestLinks = 5;

std::uint64_t nanoseconds(Time t) { return (t.fs() + 500'000) / 1'000'000; }

std::string duration(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} us", seconds * 1e6);
}

std::string volume(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes * 1e-9);
  if (bytes >= 1e6) return fmt::format("{:.2f} MB", bytes * 1e-6);
  return fmt::format("{:.2f} kB", bytes * 1e-3);
}

std::string peak_memory(const Json& ranks) {
  double most = 0, capacity = 0;
  for (const Json& r : ranks) {
    if (r["peak_bytes"].get<double>() <= most) continue;
    most = r["peak_bytes"].get<double>();
    capacity = r["capacity_bytes"].get<double>();
  }
  return fmt::format("{:.2f} of {:.0f} GB", most * 1e-9, capacity * 1e-9);
}

}  // namespace

void write_links_csv(Simulation& simulation, const std::string& path) {
  auto out = fmt::output_file(path);
  out.print("name,direction,port,bytes,wire_bytes,transactions,busy_s,utilisation,peak_queue_bytes,gb_per_s,latency_s,waited_tp_s,waited_pp_s,waited_kv_s\n");
  const double end = std::max(1e-15, simulation.end().seconds());
  for (const LinkRow& row : link_table(simulation)) {
    const transport::PortCounters& c = row.counters();
    out.print("{},{},{},{},{},{},{:.15f},{:.9f},{},{},{:.12f},{:.12f},{:.12f},{:.12f}\n", row.name, row.direction, row.port_name(),
              c.payload_bytes, c.wire_bytes, c.transactions, row.busy(simulation.end()).seconds(), row.busy(simulation.end()).seconds() / end, c.peak_queued_bytes,
              row.link().rate.gb_per_s(), row.link().latency.seconds(), c.waited[0].seconds(), c.waited[1].seconds(), c.waited[2].seconds());
  }
}

void write_requests_csv(Simulation& simulation, const std::string& path) {
  auto out = fmt::output_file(path);
  // The first twelve as LLMServingSim writes them: nanoseconds, rows in completion order.
  out.print("instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL,"
            "admitted_ns,prefill_begin_ns,first_token_ns,kv_landed_ns,decode_begin_ns\n");
  workload::prefill::System& system = simulation.system();
  for (const std::uint32_t r : system.finished_order()) {
    const workload::prefill::RequestTimes& t = system.requests()[r];
    const workload::prefill::Request& request = system.spec().requests[r];
    const std::uint64_t arrival = nanoseconds(request.arrival), end = nanoseconds(t.tokens.back());
    const std::uint64_t first = nanoseconds(t.first_token);
    std::string gaps;
    for (std::size_t i = 1; i < t.tokens.size(); ++i)
      gaps += fmt::format("{}{}", i > 1 ? ", " : "", nanoseconds(t.tokens[i]) - nanoseconds(t.tokens[i - 1]));
    const std::uint64_t tpot = t.tokens.size() > 1 ? (end - first) / (t.tokens.size() - 1) : 0;
    out.print("0,{},{},{},{},{},{},{},{},{},{},\"[{}]\",{},{},{},{},{}\n", r, simulation.scenario().model.name, request.prompt_tokens,
              request.output_tokens, arrival, end, end - arrival, nanoseconds(t.prefill_begun) - arrival, first - arrival, tpot, gaps,
              nanoseconds(t.admitted), nanoseconds(t.prefill_begun), first, nanoseconds(t.kv_landed), nanoseconds(t.decode_begun));
  }
}

std::string table(const Json& s) {
  const Json& m = s["metrics"];
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) { text += fmt::format("  {:<28} {}\n", name, value); };
  const auto seconds = [&](const Json& j) { return duration(j.get<double>()); };
  text += fmt::format("{} on {}: {} request{}\n\n", s["model"].get<std::string>(), s["platform"].get<std::string>(), m["requests"].get<int>(),
                      m["requests"] == 1 ? "" : "s");
  const bool many = m["requests"].get<int>() > 1;
  const auto spread = [&](const char* name) {
    const std::string n = name;
    return seconds(m[n + "_s"]) + (many ? fmt::format("  (p50 {}, p99 {})", seconds(m[n + "_p50_s"]), seconds(m[n + "_p99_s"])) : "");
  };
  line("TTFT", spread("ttft"));
  line("time to decode start", spread("decode_start"));
  line("TPOT", spread("tpot"));
  line("prefill throughput", fmt::format("{:.1f} tokens/s", m["prefill_tokens_per_s"].get<double>()));
  std::string stages;
  for (const auto& [name, value] : m["stage_utilisation"].items()) stages += fmt::format("{}{} {:.1f} %", stages.empty() ? "" : ", ", name, 100 * value.get<double>());
  line("kernel utilisation", stages);
  line("bubble fraction", fmt::format("{:.1f} %", 100 * m["bubble_fraction"].get<double>()));
  line("exposed TP / gate / PP / KV", fmt::format("{} / {} / {} / {}", seconds(m["exposed_s"]["tp"]), seconds(m["exposed_s"]["tp_sync"]),
                                                   seconds(m["exposed_s"]["pp"]), seconds(m["exposed_s"]["kv"])));
  const Json& d = m["decode"];
  if (d["steps"].get<int>() > 0)
    line("decode step", fmt::format("{}, {} steps, mean batch {:.1f}, exposed TP {}", seconds(d["step_s"]), d["steps"].get<int>(),
                                    d["batch"].get<double>(), seconds(d["exposed_s"]["tp"])));
  line("peak memory per rank", fmt::format("prefill {}, decode {}", peak_memory(s["memory"]["prefill"]), peak_memory(s["memory"]["decode"])));

  std::vector<const Json*> links;
  for (const Json& l : s["links"]) links.push_back(&l);
  std::stable_sort(links.begin(), links.end(), [](const Json* a, const Json* b) { return (*a)["busy_s"].get<double>() > (*b)["busy_s"].get<double>(); });
  text += fmt::format("\n  {:<28} {:>12} {:>12} {:>12}\n", "busiest links", "utilisation", "bytes", "peak queue");
  for (std::size_t i = 0; i < std::min(kBusiestLinks, links.size()); ++i) {
    const Json& l = *links[i];
    text += fmt::format("  {:<28} {:>10.2f} % {:>12} {:>12}\n", l["name"].get<std::string>() + " " + l["direction"].get<std::string>(),
                        100 * l["utilisation"].get<double>(), volume(l["bytes"].get<double>()), volume(l["peak_queue_bytes"].get<double>()));
  }
  text += fmt::format("\n  {:<10} {:>10} {:>12} {:>14} {:>14}   {}\n", "messages", "count", "bytes", "mean time", "alone", "waited longest at");
  for (const Json& t : s["traffic"])
    text += fmt::format("  {:<10} {:>10} {:>12} {:>14} {:>14}   {} {}\n", t["class"].get<std::string>(), t["messages"].get<std::uint64_t>(),
                        volume(t["bytes"].get<double>()), seconds(t["mean_actual_s"]), seconds(t["mean_uncontended_s"]),
                        t["worst_link"].get<std::string>(), t["worst_link_direction"].get<std::string>());
  const Json& sim = s["simulator"];
  const double simulated = sim["transactions"].get<double>() - sim["replayed_transactions"].get<double>();
  text += fmt::format("\n  simulated {} in {:.2f} s: {:.2f} million transactions over links ({:.2f} million replayed), {:.2f} million/s, {:.0f} MB\n",
                      seconds(m["end_s"]), sim["wall_s"].get<double>(), sim["transactions"].get<double>() * 1e-6,
                      sim["replayed_transactions"].get<double>() * 1e-6, simulated * 1e-6 / std::max(1e-9, sim["wall_s"].get<double>()),
                      sim["peak_rss_bytes"].get<double>() * 1e-6);
  return text;
}

}  // namespace railyard
