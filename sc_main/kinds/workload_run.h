// One kind of workload on an elaborated machine, as the command line and the results see it: what to start, how far it
// is, how its ranks are called, and what it has to tell. Everything that differs between kinds is behind this
// interface; what all kinds share (machine, links, traffic, the simulation's own figures) is not.
//
// A new kind: a spec and what loads it (sc_main/scenario/kinds), a WorkloadRun here, its name in the list of kinds
// (workload_run.cpp).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "execution/executor.h"
#include "platforms/machine.h"
#include "probe/stream_tracer.h"
#include "sc_main/output_directory.h"
#include "sc_main/scenario.h"
#include "transformer/layer_kernels.h"
#include "transport/study/fidelity_choice.h"
#include "workload/phase_listener.h"
#include "workload/request_listener.h"

namespace railyard {

/// A way that bytes of the workload take, for --describe.
struct RouteOfInterest {
  std::string what;
  TrafficClass traffic_class = TrafficClass::tp;
  transport::Window from = 0, to = 0;
};

class WorkloadRun {
 public:
  WorkloadRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
      : scenario_(scenario), machine_(machine), executor_(executor), fabric_(executor.fabric()) {}
  virtual ~WorkloadRun() = default;

  /// The word of workload.kind.
  virtual const char* kind() const = 0;
  /// Schedules what comes first. Called once, before the simulation starts.
  virtual void start() = 0;

  virtual bool done() const = 0;
  /// "3 of 10 requests done"
  virtual std::string progress() const = 0;
  /// Share of the simulation's work that is done, about: 0 to 1.
  virtual double done_ratio() const = 0;
  /// Rows that jobs.csv would have with everything in it, about.
  virtual std::uint64_t expected_jobs() const = 0;
  /// What stands still, a line each, for a run that cannot progress.
  virtual std::vector<std::string> blocked() { return executor_.blocked(); }
  std::uint64_t jobs() const { return executor_.jobs(); }
  execution::Executor& executor() { return executor_; }

  /// Index of the rank on each GPU that has one, in brackets: "[0][3]".
  std::map<GpuId, std::string> rank_names() const;
  virtual std::vector<RouteOfInterest> routes() = 0;
  /// What will cross the fabric, about, for fabric.fidelity: auto; nothing where it is not known, which leaves trains.
  virtual std::vector<transport::Traffic> traffic() { return {}; }
  /// Attaches the ranks' streams.
  void trace(probe::StreamTracer& tracer);

  /// Phases that metrics are about, and who is told of them.
  virtual std::vector<std::string> phases() const { return {}; }
  virtual void follow_phases(workload::PhaseListener&) {}
  /// Tells of requests, where the kind has any.
  virtual void follow_requests(workload::RequestListener&) {}

  /// Derived numbers before running; --explain adds the routes.
  virtual nlohmann::ordered_json explain() = 0;
  virtual std::string explain_text(const nlohmann::ordered_json& numbers) const = 0;

  /// Where kernel times come from, if not from datasheets; null otherwise. For the summary's `compute`.
  virtual nlohmann::ordered_json compute() { return nullptr; }
  /// Into `setup` of the summary: what was asked of the workload.
  virtual void add_setup(nlohmann::ordered_json& setup) const = 0;
  /// Into `metrics` of the summary.
  virtual void add_metrics(nlohmann::ordered_json& metrics) = 0;
  /// The ranks of each group: {group: [{rank, gpu, peak_bytes, capacity_bytes, kernel_bytes, message_bytes, kernel_s, kernel_alone_s,
  /// sm_wait_s}]}.
  virtual nlohmann::ordered_json memory() const;
  /// The part of the table on stdout that is the kind's own.
  virtual std::string table(const nlohmann::ordered_json& summary) const = 0;
  /// The kind's own files, beside those that every kind writes.
  /// Before the run: opens those that grow during it.
  virtual void open_tables(const OutputDirectory&) {}
  /// After the run. @pre open_tables()
  virtual void write_tables(const OutputDirectory& out) = 0;

 protected:
  /// Ranks on these GPUs, numbered from 0 in the groups of the machine, with these streams.
  std::vector<execution::Rank*> add_ranks(const std::vector<GpuId>& gpus, const std::vector<const char*>& streams);

  const Scenario& scenario_;
  platforms::Machine& machine_;
  execution::Executor& executor_;
  transport::Fabric& fabric_;
};

/// @throws InputError for what only arithmetic finds: ranks that do not fit in memory, a data type with no tensor rate
std::unique_ptr<WorkloadRun> make_workload_run(const Scenario& scenario, platforms::Machine& machine,
                                               execution::Executor& executor);

/// "dgx_h100 (8 x H100-SXM5-80GB)", for the heads of tables.
std::string machine_text(const Scenario& scenario);
/// The compute() of timers that may use a profile, and its lines in the table on stdout.
nlohmann::ordered_json profile_use(const std::vector<const transformer::LayerTimer*>& timers);
std::string profile_text(const nlohmann::ordered_json& compute);
inline double done_of(std::uint64_t done, std::uint64_t all) {
  return static_cast<double>(done) / static_cast<double>(all);
}
/// "12.3 ms", as tables show times.
std::string duration_text(double seconds);

}  // namespace railyard
