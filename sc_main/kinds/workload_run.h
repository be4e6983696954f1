// The room `kinds` has a class for each kind of workload, derived from WorkloadRun: it owns the workload on the
// machine, and writes its tables, metrics and --explain (model_arithmetic.h, kernel_arithmetic.h, training_memory.h).
// RAILYARD_KINDS in the loader names the kinds; Simulation calls NAME_run().
//
// The interface of one kind of workload on an elaborated machine, for the command line and the results: its start, its
// progress, its ranks' names, and its results. Everything that differs between kinds is behind this interface. The rest
// (machine, links, traffic, the simulator's figures) is common to all kinds.
//
// A new kind needs a spec and its loader (sc_main/scenario/kinds), a WorkloadRun and a function NAME_run() here, and its
// name in the list of kinds (sc_main/scenario/kinds/list.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "execution/executor.h"
#include "platforms/machine.h"
#include "probe/stream_tracer.h"
#include "sc_main/fold_bound.h"
#include "sc_main/metric.h"
#include "sc_main/output_directory.h"
#include "sc_main/scenario.h"
#include "transformer/layer_kernels.h"
#include "transport/study/fidelity_choice.h"
#include "workload/engine_listener.h"
#include "workload/phase_listener.h"
#include "workload/request_listener.h"

namespace railyard {

/// A path of the workload's traffic, for --describe.
struct RouteOfInterest {
  std::string what;
  TrafficClass traffic_class = TrafficClass::tp;
  transport::Window from = 0, to = 0;
  transport::Engine engine = transport::Engine::sm;  ///< what moves the bytes
};

/// Sets of ranks that communicate, for --describe.
struct RankSets {
  std::string group;                              ///< "tp"
  std::vector<std::vector<std::uint32_t>> ranks;  ///< of each set, in the order of its members
};

/// For what a kind of workload reports its energy (sc_main/energy.h).
enum class EnergyPer : std::uint8_t { nothing, run, request, step };

/// What a run has done, to divide its energy by; 0: not of this kind, or not known.
struct WorkDone {
  double requests = 0, output_tokens = 0, steps = 0;
  double tokens = 0;  ///< of prompts and outputs; or trained
};

class WorkloadRun {
 public:
  static constexpr EnergyPer kEnergyPer = EnergyPer::nothing;  ///< of a kind that does not declare its own
  WorkloadRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
      : scenario_(scenario), machine_(machine), executor_(executor), fabric_(executor.fabric()) {}
  virtual ~WorkloadRun() = default;

  /// The value of workload.kind.
  const std::string& kind() const { return scenario_.kind; }
  /// Before a run, not before --explain, which shows the arithmetic. @throws InputError: ranks that do not fit in memory
  virtual void check_fits() const {}
  /// Schedules the first events. Called once, before the simulation starts.
  virtual void start() = 0;

  virtual bool done() const = 0;
  /// Whether more of it can come from outside of the run.
  virtual bool is_open() const { return false; }
  /// Events of the scenario on the calendar that belong to the workload, and change nothing any more.
  virtual std::size_t events_left() const { return 0; }
  /// Whether all of the workload was done, and nothing refused.
  virtual bool complete() const { return done(); }
  /// "3 of 10 requests done"
  virtual std::string progress() const = 0;
  /// Estimated share of the simulation's work that is done: 0 to 1.
  virtual double done_ratio() const = 0;
  /// Estimated number of rows in a jobs.csv with all jobs.
  virtual std::uint64_t expected_jobs() const = 0;
  /// Jobs that cannot continue, one line each, for a run that cannot progress.
  virtual std::vector<std::string> blocked() { return executor_.blocked(); }
  std::uint64_t jobs() const { return executor_.jobs(); }
  execution::Executor& executor() { return executor_; }

  /// The traffic classes that messages of this kind may have, in the order of their numbers. Outputs show these classes
  /// only.
  virtual std::vector<TrafficClass> classes() const { return {TrafficClass::tp, TrafficClass::pp, TrafficClass::kv}; }
  /// Index of the rank on each GPU, in brackets: "[0][3]". GPUs without a rank are omitted.
  std::map<GpuId, std::string> rank_names() const;
  virtual std::vector<RouteOfInterest> routes() = 0;
  /// The process groups of a kind that has several.
  virtual std::vector<RankSets> rank_sets() { return {}; }
  /// Estimated traffic on the fabric, for fabric.fidelity: auto. If it is unknown, the list is empty and trains are
  /// used.
  virtual std::vector<transport::Traffic> traffic() { return {}; }
  /// Transactions times links that fabric.fidelity: auto simulates as trains.
  virtual double affordable_hops() const { return transport::kAffordableHops; }
  /// How results of a folded machine (fold.h) differ for other reasons than links.
  virtual FoldBound folded_bound() { return {}; }
  /// The memory of a GPU that ranks may use.
  virtual Bytes usable_bytes(const gpu::Gpu& gpu) const { return gpu.hbm().capacity(); }
  /// Attaches the ranks' streams.
  void trace(probe::StreamTracer& tracer);

  /// Phases with metrics, and the listener of their begin and end.
  virtual std::vector<std::string> phases() const { return {}; }
  virtual void follow_phases(workload::PhaseListener&) {}
  /// Reports requests to the listener, if the kind has requests.
  virtual void follow_requests(workload::RequestListener&) {}

  /// Names of the serving engines, and the listener of their load.
  virtual std::vector<std::string> engines() const { return {}; }
  virtual void follow_engines(workload::EngineListener&) {}
  // The next three only for kinds with engines.
  /// Before the run, after open_tables(): opens iterations.csv, with a row for each batch.
  virtual void open_iterations(const OutputDirectory&) {}
  /// Before the run: log_text() will be called.
  virtual void prepare_log() {}
  /// Lines about each engine at `now`, the present or an instant since which nothing has happened.
  virtual std::string log_text(Time) { return {}; }

  /// Derived numbers before the run; --explain adds the routes.
  virtual Value explain() = 0;
  virtual std::string explain_text(const Value& numbers) const = 0;

  /// The source of kernel times if it is not a datasheet; otherwise null. For `compute` of the summary.
  virtual Value compute() { return {}; }
  /// Adds the inputs of the workload to `setup` of the summary.
  virtual void add_setup(Value& setup) const = 0;
  /// Adds the metrics that the kind declares to `metrics` of the summary.
  virtual void add_metrics(Value& metrics) const = 0;
  /// @pre the kind's kEnergyPer is request or step
  virtual WorkDone work_done() const { return {}; }
  /// The ranks of each group: {group: [{rank, gpu, peak_bytes, capacity_bytes, kernel_bytes, message_bytes, kernel_s,
  /// kernel_alone_s, sm_wait_s}]}.
  virtual Value memory() const;
  /// The kind's own part of the table on stdout.
  virtual std::string table() const = 0;
  /// The kind's own files, in addition to those that every kind writes.
  /// Before the run: opens files that grow during the run.
  virtual void open_tables(const OutputDirectory&) {}
  /// After the run. @pre open_tables()
  virtual void write_tables(const OutputDirectory& out) = 0;

 protected:
  /// Adds ranks on these GPUs, numbered from 0 within the groups of the machine, with these streams.
  /// @param numbers  in names of links and waveforms; empty: as in `gpus`
  std::vector<execution::Rank*> add_ranks(const std::vector<GpuId>& gpus, const std::vector<const char*>& streams,
                                          const std::vector<std::uint32_t>& numbers = {});

  const Scenario& scenario_;
  platforms::Machine& machine_;
  execution::Executor& executor_;
  transport::Fabric& fabric_;
};

/// How the command line runs a kind: NAME_run() returns run_kind<Run>().
struct RunKind {
  const std::type_info* spec;
  std::unique_ptr<WorkloadRun> (*make)(const Scenario&, platforms::Machine&, execution::Executor&);
  std::vector<MetricText> (*metrics)();
  EnergyPer energy_per;
};
template <class Run>
RunKind run_kind() {
  return {&typeid(typename Run::Spec),
          [](const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
              -> std::unique_ptr<WorkloadRun> { return std::make_unique<Run>(scenario, machine, executor); },
          [] { return texts_of(Run::declared_metrics()); }, Run::kEnergyPer};
}

/// @throws InputError for errors found only by arithmetic: ranks that do not fit in memory, a data type with no tensor
/// rate
std::unique_ptr<WorkloadRun> make_workload_run(const Scenario& scenario, platforms::Machine& machine,
                                               execution::Executor& executor);

/// For what the kind of a scenario reports its energy.
EnergyPer energy_per(const Scenario& scenario);

/// The metrics that each kind declares.
struct KindMetrics {
  std::string kind;
  std::vector<MetricText> metrics;
  EnergyPer energy_per;
};
std::vector<KindMetrics> metrics_of_kinds();

/// "dgx_h100 (8 x H100-SXM5-80GB)", for table headings.
std::string machine_text(const Scenario& scenario);
/// "H100-SXM5-80GB has no tensor rate for fp4; set model.dtype to one of fp16, bf16", for an error.
std::string no_tensor_rate_text(const gpu::GpuDatasheet& gpu, DataType type);
/// The value of compute() for timers that can use a profile, and its lines in the table on stdout.
Value profile_use(const std::vector<const transformer::LayerTimer*>& timers);
std::string profile_text(const Value& compute);
inline double done_of(std::uint64_t done, std::uint64_t all) {
  return static_cast<double>(done) / static_cast<double>(all);
}
/// "12.3 ms", the format of times in tables.
std::string duration_text(double seconds);

}  // namespace railyard
