#include "sc_main/results.h"

#include <fmt/format.h>
#include <algorithm>

#include "sc_main/build_info.h"
#include "sc_main/describe.h"
#include "sc_main/energy.h"
#include "sc_main/output_file.h"
#include "sc_main/phase_use.h"

namespace railyard {

namespace {

constexpr std::size_t kBusiestLinks = 5;

std::string volume(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes * 1e-9);
  if (bytes >= 1e6) return fmt::format("{:.2f} MB", bytes * 1e-6);
  return fmt::format("{:.2f} kB", bytes * 1e-3);
}

Value traffic(Simulation& simulation, const std::vector<LinkRow>& links) {
  Value rows = Value::empty_list();
  for (const TrafficClass c : simulation.classes()) {
    const transport::ClassTotals& totals = simulation.fabric().ledger().totals(number(c));
    Value row;
    row["class"] = name(c);
    row["messages"] = totals.messages;
    row["bytes"] = totals.bytes;
    const double n = std::max<double>(1, static_cast<double>(totals.messages));
    row["mean_actual_s"] = totals.actual.seconds() / n;
    row["mean_uncontended_s"] = totals.uncontended.seconds() / n;
    double waited = 0, most = 0;
    const LinkRow* worst = nullptr;
    for (const LinkRow& link : links) {
      const double here = link.counters().waited[number(c)].seconds();
      waited += here;
      if (here > most) {
        most = here;
        worst = &link;
      }
    }
    row["waited_s"] = waited;
    row["worst_link"] = worst == nullptr ? "" : worst->name;
    row["worst_link_direction"] = worst == nullptr ? "" : worst->direction;
    row["worst_link_waited_s"] = most;
    rows.push_back(row);
  }
  return rows;
}

/// Passes that were composed, and others by reason; nothing if the workload has no passes.
void add_passes(Value& simulator, const execution::Executor& executor) {
  if (executor.composed_passes() == 0 && executor.passes_not_composed().empty()) return;
  Value others = Value::empty_list();
  for (const auto& [reason, passes] : executor.passes_not_composed())
    others.push_back({{"reason", reason}, {"passes", passes}});
  simulator["passes"] = {{"composed", executor.composed_passes()}, {"not_composed", others}};
}

std::string passes_text(const Value& simulator) {
  if (!simulator.contains("passes")) return "";
  const Value& passes = simulator["passes"];
  std::uint64_t all = passes["composed"].integer();
  std::string others;
  for (const Value& other : passes["not_composed"].items()) {
    all += other["passes"].integer();
    others += fmt::format("; {} not: {}", other["passes"].integer(), other["reason"].text());
  }
  return fmt::format("  composed {} of {} passes on a stage{}\n", passes["composed"].integer(), all, others);
}

std::string in_phase(const std::string& phase) { return "utilisation_" + phase; }

void add_links(std::string& text, const Value& all, const std::vector<std::string>& phases) {
  // A phase's bottleneck may be idle for most of the run: the busiest of any phase come first.
  const auto most = [&](const Value& link) {
    double use = link["utilisation"].real();
    for (const std::string& phase : phases) use = std::max(use, link[in_phase(phase)].real());
    return use;
  };
  std::vector<const Value*> links;
  for (const Value& l : all.items()) links.push_back(&l);
  std::stable_sort(links.begin(), links.end(), [&](const Value* a, const Value* b) { return most(*a) > most(*b); });
  text += fmt::format("\n  {:<28}", "busiest links, utilisation");
  for (const std::string& phase : phases) text += fmt::format(" {:>12}", "in " + phase);
  text += fmt::format(" {:>12} {:>12} {:>12}\n", "of the run", "bytes", "peak queue");
  for (std::size_t i = 0; i < std::min(kBusiestLinks, links.size()); ++i) {
    const Value& l = *links[i];
    text += fmt::format("  {:<28}", l["name"].text() + " " + l["direction"].text());
    for (const std::string& phase : phases) text += fmt::format(" {:>10.2f} %", 100 * l[in_phase(phase)].real());
    text += fmt::format(" {:>10.2f} % {:>12} {:>12}\n", 100 * l["utilisation"].real(), volume(l["bytes"].real()),
                        volume(l["peak_queue_bytes"].real()));
  }
}

void add_traffic(std::string& text, const Value& traffic) {
  text += fmt::format("\n  {:<10} {:>10} {:>12} {:>14} {:>14}   {}\n", "messages", "count", "bytes", "mean time",
                      "mean alone", "waited longest for");
  for (const Value& t : traffic.items())
    text += fmt::format("  {:<10} {:>10} {:>12} {:>14} {:>14}   {} {}\n", t["class"].text(), t["messages"].integer(),
                        volume(t["bytes"].real()), duration_text(t["mean_actual_s"].real()),
                        duration_text(t["mean_uncontended_s"].real()), t["worst_link"].text(),
                        t["worst_link_direction"].text());
}

/// What was asked: the groups' GPUs, then what the kind says of its workload.
Value setup(Simulation& simulation) {
  Value asked;
  const platforms::MachineSpec& machine = simulation.scenario().machine;
  for (const platforms::GroupSpec& group : machine.groups)
    asked["groups"][group.name] = {{"gpu", group.gpu.name},
                                   {"servers", servers_of_whole(machine, group)},
                                   {"gpus", servers_of_whole(machine, group) * machine.board.gpus}};
  simulation.workload().add_setup(asked);
  return asked;
}

std::string fold_text(Simulation& simulation) {
  const Fold& fold = simulation.fold();
  if (fold.copies == 1) return fmt::format("  not folded: {}\n", fold.why_not);
  return fmt::format("  folded: {} GPUs run for {}; {}\n", fold.simulated_gpus, fold.represented_gpus,
                     fold.exact ? "results are those of the whole machine" : fold.bound);
}

const char* fidelity_word(transport::Fidelity fidelity) {
  switch (fidelity) {
    case transport::Fidelity::train: return "train";
    case transport::Fidelity::fluid: return "fluid";
    case transport::Fidelity::automatic: break;
  }
  return "mixed";
}

}  // namespace

const Metrics<Simulation>& common_metrics() {
  static const Metrics<Simulation> metrics{
      {"end_s", "s", "when the last job ended; the last credits return a little later",
       [](const Simulation& simulation) -> Value { return simulation.finished().seconds(); }},
  };
  return metrics;
}

Value summary(Simulation& simulation, const SimulatorFigures& figures) {
  const Scenario& scenario = simulation.scenario();
  WorkloadRun& workload = simulation.workload();
  const std::vector<LinkRow> links = link_table(simulation);
  Value s;
  s["schema_version"] = kSummarySchemaVersion;
  s["kind"] = workload.kind();
  s["platform"] = scenario.platform;
  s["scenario"] = scenario.name;
  if (!scenario.model.name.empty()) s["model"] = scenario.model.name;
  s["setup"] = setup(simulation);
  s["seed"] = scenario.seed;
  s["fidelity"] = fidelity_word(simulation.fidelity());
  for (const platforms::GroupSpec& group : scenario.machine.groups)
    s["calibration"][group.gpu.name] = group.gpu.calibration;
  if (const Value compute = workload.compute(); !compute.is_nothing()) s["compute"] = compute;
  if (const Fold& fold = simulation.fold(); fold.asked) {
    s["simulation"]["fold"] = fold.copies > 1;
    s["simulation"]["why_not"] = fold.why_not;
    s["simulation"]["replicas"] = fold.copies;
    s["simulation"]["simulated_gpus"] = fold.copies == 1 ? simulation.machine().gpus() : fold.simulated_gpus;
    s["simulation"]["represented_gpus"] = fold.copies == 1 ? simulation.machine().gpus() : fold.represented_gpus;
    s["simulation"]["exact"] = fold.exact;
    s["simulation"]["bound"] = fold.bound;
  }
  if (!scenario.assumed.empty()) s["assumed"] = assumed(scenario);
  s["complete"] = workload.complete();
  Value& metrics = s["metrics"];
  add_metrics(metrics, common_metrics(), simulation);
  workload.add_metrics(metrics);
  if (const std::optional<RunEnergy> energy = run_energy(simulation))
    add_metrics(metrics, energy_metrics(energy->per), *energy);
  if (const std::string why = why_no_energy(simulation); !why.empty()) s["energy"]["why_not"] = why;
  s["traffic"] = traffic(simulation, links);
  s["memory"] = workload.memory();
  const double end = std::max(1e-15, simulation.finished().seconds());
  s["links"] = Value::empty_list();
  const PhaseUse& use = simulation.phase_use();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const LinkRow& row = links[i];
    const transport::PortCounters& c = row.counters();
    Value link = {{"name", row.name},
                  {"direction", row.direction},
                  {"bytes", c.payload_bytes},
                  {"wire_bytes", c.wire_bytes},
                  {"busy_s", row.busy(simulation.finished()).seconds()},
                  {"utilisation", row.busy(simulation.finished()).seconds() / end},
                  {"peak_queue_bytes", c.peak_queued_bytes}};
    for (std::size_t phase = 0; phase < use.phases().size(); ++phase)
      link[in_phase(use.phases()[phase])] = use.utilisation(phase, i, simulation.finished());
    s["links"].push_back(std::move(link));
  }
  s["simulator"] = {{"version", kVersion},
                    {"commit", kCommit},
                    {"wall_s", figures.wall_s},
                    {"transactions", simulation.fabric().hop_transactions()},
                    {"replayed_transactions", simulation.fabric().replayed_transactions()},
                    {"jobs", workload.jobs()},
                    {"composed_jobs", simulation.workload().executor().composed_jobs()},
                    {"kernel_events", simulation.fabric().calendar().events()},
                    {"peak_rss_bytes", figures.peak_rss_bytes},
                    {"interrupted", figures.interrupted}};
  add_passes(s["simulator"], simulation.workload().executor());
  return s;
}

void write_links_csv(Simulation& simulation, const std::string& path) {
  OutputFile out(path);
  const PhaseUse& use = simulation.phase_use();
  out.print("name,direction,port,bytes,wire_bytes,transactions,busy_s,utilisation,peak_queue_bytes,gb_per_s,latency_s");
  const std::vector<TrafficClass> classes = simulation.classes();
  for (const TrafficClass c : classes) out.print(",waited_{}_s", name(c));
  for (const std::string& phase : use.phases()) out.print(",{}", in_phase(phase));
  out.print("\n");
  const double end = std::max(1e-15, simulation.finished().seconds());
  const std::vector<LinkRow> links = link_table(simulation);
  for (std::size_t i = 0; i < links.size(); ++i) {
    const LinkRow& row = links[i];
    const transport::PortCounters& c = row.counters();
    out.print("{},{},{},{},{},{},{:.15f},{:.9f},{},{},{:.12f}", row.name, row.direction, row.port_name(),
              c.payload_bytes, c.wire_bytes, c.transactions, row.busy(simulation.finished()).seconds(),
              row.busy(simulation.finished()).seconds() / end, c.peak_queued_bytes, row.link().rate.gb_per_s(),
              row.link().latency.seconds());
    for (const TrafficClass of : classes) out.print(",{:.12f}", c.waited[number(of)].seconds());
    for (std::size_t phase = 0; phase < use.phases().size(); ++phase)
      out.print(",{:.9f}", use.utilisation(phase, i, simulation.finished()));
    out.print("\n");
  }
}

std::string table(Simulation& simulation, const Value& s) {
  std::string text = simulation.workload().table();
  if (s.contains("compute")) text += profile_text(s["compute"]);
  text += energy_text(simulation);
  const Value::List& traffic = s["traffic"].items();
  if (std::any_of(traffic.begin(), traffic.end(), [](const Value& t) { return t["messages"].integer() != 0; })) {
    add_links(text, s["links"], simulation.phase_use().phases());
    add_traffic(text, s["traffic"]);
  }
  const Value& sim = s["simulator"];
  const double simulated = sim["transactions"].real() - sim["replayed_transactions"].real();
  text += fmt::format(
      "\n  simulated {} in {:.2f} s: {:.2f} million transactions over links ({:.2f} million replayed), {:.2f} "
      "million/s, {:.0f} MB\n",
      duration_text(simulation.finished().seconds()), sim["wall_s"].real(), sim["transactions"].real() * 1e-6,
      sim["replayed_transactions"].real() * 1e-6, simulated * 1e-6 / std::max(1e-9, sim["wall_s"].real()),
      sim["peak_rss_bytes"].real() * 1e-6);
  text += passes_text(sim);
  if (simulation.fold().asked) text += fold_text(simulation);
  return text + assumed_text(simulation.scenario());
}

}  // namespace railyard
