// One scenario, elaborated: fabric, machine and workload, wired together and ready to run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "platforms/machine.h"
#include "sc_main/events.h"
#include "sc_main/kinds/workload_run.h"
#include "sc_main/scenario.h"
#include "transport/assembly.h"
#include "transport/study/fidelity_choice.h"

namespace railyard {

class PhaseUse;

class Simulation : private transport::CalendarClient {
 public:
  /// @throws InputError for a network with too few ports, for what the workload cannot do on this machine, and for an event of a
  /// link or GPU that the machine has not
  Simulation(const Scenario& scenario, execution::JobSink& sink);
  ~Simulation();

  /// Runs to the end, or until `hook` (called at each new instant) returns false. The workload starts at the first instant, in
  /// the calendar's own time like everything after it: models may send at once.
  void run(std::function<bool(Time)> hook);

  const Scenario& scenario() const { return scenario_; }
  transport::Assembly& fabric() { return *fabric_; }
  platforms::Machine& machine() { return *machine_; }
  WorkloadRun& workload() { return *workload_; }
  /// How the fabric is modelled; automatic: some of its links as trains, some as fluid.
  transport::Fidelity fidelity() const;
  /// Of fabric.fidelity: auto.
  const std::optional<transport::FidelityChoice>& fidelity_choice() const { return fidelity_choice_; }
  /// Of links, in the order of link_table().
  const PhaseUse& phase_use() const { return *phase_use_; }
  /// When the last thing happened; what the scenario's events would have changed afterwards does not count.
  Time end() const { return sooner(end_, fabric_->now()); }
  /// When the last job ended; of a run that is not done, end(). Credits on their way home do not count.
  Time finished() const { return workload_->done() && jobs_.latest_end != Time() ? jobs_.latest_end : end(); }

 private:
  /// Pipeline jobs on.
  struct JobEnds : execution::JobSink {
    explicit JobEnds(execution::JobSink& to) : next(to) {}
    void on_job(const execution::JobRecord& record) override {
      latest_end = later(latest_end, record.end);
      next.on_job(record);
    }
    execution::JobSink& next;
    Time latest_end;
  };

  void on_event(std::uint32_t, std::uint64_t) override { workload_->start(); }

  Scenario scenario_;
  JobEnds jobs_;
  std::unique_ptr<transport::Assembly> fabric_;
  std::unique_ptr<platforms::Machine> machine_;
  std::unique_ptr<execution::Executor> executor_;
  std::unique_ptr<WorkloadRun> workload_;
  std::unique_ptr<MachineEvents> events_;
  std::unique_ptr<PhaseUse> phase_use_;
  std::optional<transport::FidelityChoice> fidelity_choice_;
  Time end_ = Time::max();
};

}  // namespace railyard
