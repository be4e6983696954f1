#include "sc_main/energy.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "platforms/fat_tree.h"

namespace railyard {

namespace {

/// "1.23 kJ"
std::string joules_text(double joules) {
  if (joules >= 1e6) return fmt::format("{:.3g} MJ", joules * 1e-6);
  if (joules >= 1e3) return fmt::format("{:.3g} kJ", joules * 1e-3);
  if (joules >= 1) return fmt::format("{:.3g} J", joules);
  return fmt::format("{:.3g} mJ", joules * 1e3);
}

/// How many GPUs of the whole machine do what this one does.
double stands_for(const Fold& fold, std::uint32_t server) {
  if (fold.copies == 1) return 1;
  return static_cast<double>(std::count(fold.runs_for.begin(), fold.runs_for.end(), fold.copy_of_server[server]));
}

/// Of all GPUs with a rank.
std::vector<const gpu::Gpu*> gpus_of(Simulation& simulation) {
  std::vector<const gpu::Gpu*> gpus;
  std::set<transport::Window> seen;
  for (const execution::Rank& rank : simulation.workload().executor().ranks())
    if (rank.gpu != nullptr && seen.insert(rank.gpu->window()).second) gpus.push_back(rank.gpu);
  return gpus;
}

/// The name of a GPU without constants; "": there is none.
std::string unknown_gpu(Simulation& simulation) {
  for (const gpu::Gpu* gpu : gpus_of(simulation))
    if (!gpu->datasheet().energy.is_known()) return gpu->datasheet().name;
  return {};
}

Value per(double joules, double work) { return work > 0 ? Value(joules / work) : Value(); }
Value per(std::optional<double> joules, double work) { return joules ? per(*joules, work) : Value(); }
Value known(std::optional<double> joules) { return joules ? Value(*joules) : Value(); }

/// Adds what the shares of the GPUs in their servers and in the network draw.
void add_surroundings(RunEnergy& run, const platforms::MachineSpec& spec) {
  const double gpu_seconds = run.gpus * run.seconds;
  if (spec.server_power.base_w > 0)
    run.servers_j =
        spec.server_power.base_w / spec.board.gpus * gpu_seconds + spec.server_power.gpus_ratio * run.joules.total_j();
  if (spec.ib_switch.power_w > 0) {
    const double machine_w = spec.ib_switch.power_w / spec.ib_switch.ports * static_cast<double>(switch_ports(spec));
    run.network_j = machine_w / (whole_servers_of(spec) * spec.board.gpus) * gpu_seconds;
  }
}

Metrics<RunEnergy> metrics_of_all() {
  using Run = RunEnergy;
  return {
      {"energy.total_j", "J",
       "estimated [energy](energy.md) of the boards of all GPUs with a rank, until `end_s`. None of `energy` if the "
       "datasheet of one of them has no constants",
       [](const Run& run) -> Value { return run.joules.total_j(); }},
      {"energy.gpus", "", "these GPUs", [](const Run& run) -> Value { return run.gpus; }},
      {"energy.mean_w", "W", "mean power of a GPU", [](const Run& run) -> Value { return run.mean_w(); }},
      {"energy.idle_j", "J", "part of it that the boards draw without work",
       [](const Run& run) -> Value { return run.joules.idle_j; }},
      {"energy.sms_j", "J", "part of SMs with a thread block",
       [](const Run& run) -> Value { return run.joules.sms_j; }},
      {"energy.tensor_j", "J", "part of tensor FLOPs", [](const Run& run) -> Value { return run.joules.tensor_j; }},
      {"energy.hbm_j", "J", "part of bytes at device memory", [](const Run& run) -> Value { return run.joules.hbm_j; }},
      {"energy.servers_j", "J",
       "not in the total: their share of what servers draw without GPUs; only of boards with `server_power`",
       [](const Run& run) { return known(run.servers_j); }},
      {"energy.network_j", "J",
       "not in the total: their share of the network's switches; only of switches with `power_w`",
       [](const Run& run) { return known(run.network_j); }},
      {"energy.all_j", "J", "GPUs, servers and network; only if all are known",
       [](const Run& run) { return known(run.all_j()); }},
      {"energy.all_mean_w", "W", "the mean power of this, for a GPU",
       [](const Run& run) { return per(run.all_j(), run.seconds * run.gpus); }},
  };
}

Metrics<RunEnergy> with(Metrics<RunEnergy> more) {
  Metrics<RunEnergy> all = metrics_of_all();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

std::optional<RunEnergy> run_energy(Simulation& simulation) {
  RunEnergy run;
  run.per = energy_per(simulation.scenario());
  const std::vector<const gpu::Gpu*> gpus = gpus_of(simulation);
  if (run.per == EnergyPer::nothing || gpus.empty() || !unknown_gpu(simulation).empty()) return std::nullopt;
  const platforms::Machine& machine = simulation.machine();
  const Time now = simulation.fabric().now();
  run.seconds = simulation.finished().seconds();
  for (const gpu::Gpu* gpu : gpus) {
    const gpu::SmArray& sms = gpu->sms();
    const double bytes = sms.kernel_bytes(now) + static_cast<double>(machine.memory_traffic().bytes(*gpu));
    const gpu::Energy own = gpu::energy_of(gpu->datasheet(), sms.energy_clock(),
                                           {run.seconds, sms.busy_sm_seconds(now), sms.tensor_j(now), bytes});
    const double alike = stands_for(simulation.fold(), machine.place(GpuId(gpu->window())).server);
    run.gpus += alike;
    run.joules.idle_j += alike * own.idle_j;
    run.joules.sms_j += alike * own.sms_j;
    run.joules.tensor_j += alike * own.tensor_j;
    run.joules.hbm_j += alike * own.hbm_j;
  }
  run.work = simulation.workload().work_done();
  add_surroundings(run, machine.spec());
  return run;
}

std::string why_no_energy(Simulation& simulation) {
  const std::string gpu = unknown_gpu(simulation);
  if (energy_per(simulation.scenario()) == EnergyPer::nothing || gpu.empty()) return {};
  return fmt::format("the datasheet of {} has no constants of energy", gpu);
}

const Metrics<RunEnergy>& energy_metrics(EnergyPer per_what) {
  using Run = RunEnergy;
  static const Metrics<Run> of_nothing, of_runs = metrics_of_all();
  static const Metrics<Run> of_requests = with({
      {"energy.per_request_j", "J", "total / requests served",
       [](const Run& run) { return per(run.joules.total_j(), run.work.requests); }},
      {"energy.per_output_token_j", "J", "total / output tokens of these",
       [](const Run& run) { return per(run.joules.total_j(), run.work.output_tokens); }},
      {"energy.per_token_j", "J", "total / their tokens, of prompts and outputs",
       [](const Run& run) { return per(run.joules.total_j(), run.work.tokens); }},
      {"energy.all_per_output_token_j", "J", "`all_j` / output tokens",
       [](const Run& run) { return per(run.all_j(), run.work.output_tokens); }},
  });
  static const Metrics<Run> of_steps = with({
      {"energy.per_step_j", "J", "total / steps",
       [](const Run& run) { return per(run.joules.total_j(), run.work.steps); }},
      {"energy.per_token_j", "J", "total / tokens of all sequences and steps",
       [](const Run& run) { return per(run.joules.total_j(), run.work.tokens); }},
      {"energy.all_per_step_j", "J", "`all_j` / steps",
       [](const Run& run) { return per(run.all_j(), run.work.steps); }},
  });
  switch (per_what) {
    case EnergyPer::nothing: return of_nothing;
    case EnergyPer::run: return of_runs;
    case EnergyPer::request: return of_requests;
    case EnergyPer::step: return of_steps;
  }
  return of_nothing;
}

std::string energy_text(Simulation& simulation) {
  const std::optional<RunEnergy> run = run_energy(simulation);
  if (!run) return {};
  const gpu::Energy& part = run->joules;
  const double all = part.total_j();
  std::string text = fmt::format("\n  energy (estimate): {}, {:.0f} W for each of {:.0f} GPU{}", joules_text(all),
                                 run->mean_w(), run->gpus, run->gpus == 1 ? "" : "s");
  const WorkDone& work = run->work;
  if (work.output_tokens > 0) text += fmt::format("; {} per output token", joules_text(all / work.output_tokens));
  if (work.steps > 0) text += fmt::format("; {} per step", joules_text(all / work.steps));
  const auto share = [all](double joules) { return all > 0 ? 100 * joules / all : 0; };
  text += fmt::format("\n    idle {:.0f} %, SMs {:.0f} %, tensor FLOPs {:.0f} %, memory {:.0f} %\n", share(part.idle_j),
                      share(part.sms_j), share(part.tensor_j), share(part.hbm_j));
  const std::optional<double> surrounded = run->all_j();
  if (!surrounded) return text;
  text += fmt::format("    with servers (+{:.0f} %) and network (+{:.0f} %): {}", share(*run->servers_j),
                      share(*run->network_j), joules_text(*surrounded));
  if (work.output_tokens > 0)
    text += fmt::format("; {} per output token", joules_text(*surrounded / work.output_tokens));
  if (work.steps > 0) text += fmt::format("; {} per step", joules_text(*surrounded / work.steps));
  return text + "\n";
}

}  // namespace railyard
