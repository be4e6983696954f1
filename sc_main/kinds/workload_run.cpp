#include "sc_main/kinds/workload_run.h"

#include <algorithm>

#include <fmt/format.h>

#include "sc_main/scenario/kinds/list.h"
#include "sc_main/scenario/load.h"

namespace railyard {

#define RAILYARD_LINE(name) RunKind name##_run();
#define RAILYARD_PRESET(name)
RAILYARD_KINDS(RAILYARD_LINE, RAILYARD_PRESET)
#undef RAILYARD_LINE

namespace {

#define RAILYARD_LINE(name) name##_run(),
const std::vector<RunKind>& run_kinds() {
  static const std::vector<RunKind> kinds{RAILYARD_KINDS(RAILYARD_LINE, RAILYARD_PRESET)};
  return kinds;
}
#undef RAILYARD_LINE
#undef RAILYARD_PRESET

}  // namespace

std::unique_ptr<WorkloadRun> make_workload_run(const Scenario& scenario, platforms::Machine& machine,
                                               execution::Executor& executor) {
  for (const RunKind& kind : run_kinds())
    if (*kind.spec == scenario.workload.type()) return kind.make(scenario, machine, executor);
  return nullptr;
}

EnergyPer energy_per(const Scenario& scenario) {
  for (const RunKind& kind : run_kinds())
    if (*kind.spec == scenario.workload.type()) return kind.energy_per;
  return EnergyPer::nothing;
}

std::vector<KindMetrics> metrics_of_kinds() {
  std::vector<KindMetrics> kinds;
  for (const RunKind& kind : run_kinds()) kinds.push_back({workload_kind(*kind.spec), kind.metrics(), kind.energy_per});
  return kinds;
}

std::string machine_text(const Scenario& scenario) {
  const auto& groups = scenario.machine.groups;
  std::string text;
  for (const platforms::GroupSpec& group : groups)
    text += fmt::format("{}{}{} x {}", text.empty() ? "" : ", ", groups.size() > 1 ? group.name + " " : "",
                        servers_of_whole(scenario.machine, group) * scenario.machine.board.gpus, group.gpu.name);
  return fmt::format("{} ({})", scenario.platform, text);
}

std::string no_tensor_rate_text(const gpu::GpuDatasheet& gpu, DataType type) {
  std::vector<std::string_view> accepted;
  for (std::size_t t = 0; t < kDataTypes; ++t)
    if (gpu.sm.flop_per_clock[t] > 0) accepted.push_back(kDataTypeNames[t]);
  return fmt::format("{} has no tensor rate for {}; set model.dtype to one of {}", gpu.name, name_of(type),
                     fmt::join(accepted, ", "));
}

std::map<GpuId, std::string> WorkloadRun::rank_names() const {
  std::map<GpuId, std::string> names;
  for (const execution::Rank& rank : executor_.ranks())
    if (rank.gpu != nullptr) names[GpuId(rank.gpu->window())] = rank.index;
  return names;
}

void WorkloadRun::trace(probe::StreamTracer& tracer) {
  const auto label = [](const gpu::Task& task) -> const execution::JobLabel& {
    return static_cast<const execution::Job&>(task).label();
  };
  const auto job = [label](const gpu::Task& task) { return label(task).task(); };
  const auto work = [label](const gpu::Task& task) { return label(task).work(); };
  for (execution::Rank& rank : executor_.ranks())
    for (execution::Rank::NamedStream& named : rank.streams)
      if (rank.gpu != nullptr && !named.name.empty())
        tracer.attach(named.stream, std::string(rank.gpu->name()) + ".stream." + named.name, job, work);
}

Value WorkloadRun::memory() const {
  Value groups = Value::empty_group();
  for (const execution::Rank& rank : executor_.ranks()) {
    if (rank.gpu == nullptr) continue;
    const gpu::Gpu& gpu = *rank.gpu;
    const gpu::SmArray& sms = gpu.sms();
    groups[rank.group].push_back({{"rank", rank.number},
                                  {"gpu", gpu.name()},
                                  {"peak_bytes", gpu.hbm().peak()},
                                  {"capacity_bytes", usable_bytes(gpu)},
                                  {"kernel_bytes", sms.kernel_bytes(fabric_.now())},
                                  {"message_bytes", machine_.memory_traffic().bytes(gpu)},
                                  {"kernel_s", sms.kernel_seconds()},
                                  {"kernel_alone_s", sms.kernel_seconds_alone()},
                                  {"sm_wait_s", sms.claim_wait_seconds()}});
  }
  return groups;
}

std::vector<execution::Rank*> WorkloadRun::add_ranks(const std::vector<GpuId>& gpus,
                                                     const std::vector<const char*>& streams,
                                                     const std::vector<std::uint32_t>& numbers) {
  std::vector<execution::Rank*> ranks;
  for (std::uint32_t r = 0; r < gpus.size(); ++r) {
    ranks.push_back(&executor_.add_rank(machine_.spec().groups[machine_.place(gpus[r]).group].name, r,
                                        fmt::format("[{}]", numbers.empty() ? r : numbers[r]), machine_.gpu(gpus[r])));
    for (const char* stream : streams) ranks.back()->add_stream(stream);
  }
  return ranks;
}

Value profile_use(const std::vector<const transformer::LayerTimer*>& timers) {
  if (timers.front()->profile() == nullptr) return {};
  Value compute;
  compute["profile"] = timers.front()->profile()->path;
  compute["hardware"] = timers.front()->profile()->hardware;
  transformer::ProfileUse all;
  for (const transformer::LayerTimer* timer : timers) {
    for (const auto& [what, outside] : timer->profile_use().outside) {
      transformer::ProfileUse::Outside& sum = all.outside[what];
      sum.least = sum.times == 0 ? outside.least : std::min(sum.least, outside.least);
      sum.most = std::max(sum.most, outside.most);
      sum.first = outside.first;
      sum.last = outside.last;
      sum.times += outside.times;
    }
  }
  compute["extrapolated"] = Value::empty_group();
  for (const auto& [what, o] : all.outside)
    compute["extrapolated"][what] = {
        {"times", o.times}, {"least", o.least}, {"most", o.most}, {"measured_from", o.first}, {"measured_to", o.last}};
  return compute;
}

std::string profile_text(const Value& compute) {
  std::string text = fmt::format("\n  kernel times of profile {}\n", compute["profile"].text());
  for (const auto& [what, o] : compute["extrapolated"].members())
    text += fmt::format("    extrapolated: {} from {:g} to {:g}, measured from {:g} to {:g}\n", what, o["least"].real(),
                        o["most"].real(), o["measured_from"].real(), o["measured_to"].real());
  return text;
}

std::string duration_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} us", seconds * 1e6);
}

}  // namespace railyard
