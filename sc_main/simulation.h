// The room `sc_main` is the executables' main part: command line (Options), one Simulation with machine and workload,
// results. OutputDirectory appears whole or not at all; results.h, link_table.h, JobsCsv, PhaseUse and Metric write its
// files; Why, Tracing and TraceExport attach probes; describe.h, list_parameters.h, explain_each.h and schedule_times.h print
// without a run; Fold chooses which part of a machine is simulated; UserModules makes the modules of shared libraries that a scenario
// names. platform_main.h calls them in order. `scenario` loads, `kinds` has the workloads.
//
// One elaborated scenario: fabric, machine and workload, connected and ready to run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "platforms/machine.h"
#include "sc_main/events.h"
#include "sc_main/fold.h"
#include "sc_main/kinds/workload_run.h"
#include "sc_main/scenario.h"
#include "sc_main/user_modules.h"
#include "transport/assembly.h"
#include "transport/study/fidelity_choice.h"

namespace railyard {

class PhaseUse;

class Simulation : private transport::CalendarClient {
 public:
  /// @throws InputError for a network with too few ports, for a workload that this machine cannot run, for an event
  /// of a link or GPU that does not exist, and for modules as UserModules
  Simulation(const Scenario& scenario, execution::JobSink& sink);
  ~Simulation();

  /// Decides which links are fluid, if the scenario leaves it open. It looks at all paths of the workload, so that whoever
  /// only examines the machine does without. Call before run().
  void choose_fidelity();
  /// Runs to the end, or until `hook` (called at each new instant) returns false. The workload starts as an event of
  /// the calendar at the first instant, so models can send at once. Modules of the user are stopped where it is over.
  /// @param drive  lets SystemC run; nullptr: to the end at once
  void run(std::function<bool(Time)> hook, const std::function<void()>& drive = nullptr);

  /// With the part of the machine that is simulated, if it is folded.
  const Scenario& scenario() const { return scenario_; }
  const Fold& fold() const { return fold_; }
  transport::Assembly& fabric() { return *fabric_; }
  platforms::Machine& machine() { return *machine_; }
  WorkloadRun& workload() { return *workload_; }
  const UserModules& modules() const { return *modules_; }
  /// Classes of traffic in outputs: those of the workload, and those of modules.
  std::vector<TrafficClass> classes() const;
  /// The fidelity of the fabric; automatic: some links as trains, some as fluid.
  transport::Fidelity fidelity() const;
  /// The choice made for fabric.fidelity: auto.
  const std::optional<transport::FidelityChoice>& fidelity_choice() const { return fidelity_choice_; }
  /// Use of links by phase, in the order of link_table().
  const PhaseUse& phase_use() const { return *phase_use_; }
  /// The last event of the run. Later events of the scenario would have no effect and do not count.
  Time end() const { return sooner(end_, fabric_->now()); }
  /// End of the last job; end() if the run is not done. Credits in flight do not count.
  Time finished() const { return workload_->done() && jobs_.latest_end != Time() ? jobs_.latest_end : end(); }

 private:
  /// Passes job records on and keeps the latest end.
  struct JobEnds : execution::JobSink {
    explicit JobEnds(execution::JobSink& to) : next(to) {}
    bool takes(execution::Recorded recorded) const override { return next.takes(recorded); }
    void on_job(const execution::JobRecord& record) override {
      latest_end = later(latest_end, record.end);
      next.on_job(record);
    }
    execution::JobSink& next;
    Time latest_end;
  };

  void on_event(std::uint32_t, std::uint64_t) override { workload_->start(); }

  Scenario scenario_;
  Fold fold_;
  JobEnds jobs_;
  std::unique_ptr<transport::Assembly> fabric_;
  std::unique_ptr<platforms::Machine> machine_;
  std::unique_ptr<execution::Executor> executor_;
  std::unique_ptr<WorkloadRun> workload_;
  std::unique_ptr<UserModules> modules_;
  std::unique_ptr<MachineEvents> events_;
  std::unique_ptr<PhaseUse> phase_use_;
  std::optional<transport::FidelityChoice> fidelity_choice_;
  Time end_ = Time::max();
};

}  // namespace railyard
