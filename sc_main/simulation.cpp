#include "sc_main/simulation.h"

#include <fmt/format.h>
#include <algorithm>
#include <stdexcept>

#include "base/input_error.h"
#include "sc_main/fold_shares.h"
#include "sc_main/phase_use.h"
#include "transport/recovery.h"

namespace railyard {

namespace {

transport::VcPlan vc_plan(const FabricSpec& spec) {
  transport::VcPlan plan;
  for (std::size_t c = 0; c < spec.classes.size(); ++c) plan.assign(c, spec.classes[c]);
  return plan;
}

/// Outputs leave out classes that the kind does not list.
void expect_listed_classes(const std::vector<TrafficClass>& listed, const std::string& kind,
                           const transport::MessageLedger& ledger) {
  for (const TrafficClassFacts& c : kTrafficClasses)
    if (ledger.totals(number(c.traffic_class)).messages != 0 &&
        std::find(listed.begin(), listed.end(), c.traffic_class) == listed.end())
      throw std::logic_error(fmt::format("{}: messages of class {}, which the kind does not list", kind, c.name));
}

/// Every NIC needs a port of the single switch. Every leaf needs a port of every spine of its pod, and vice versa; every
/// spine a port of its cores, and every core a port of each pod.
void check_network(const Scenario& scenario) {
  const platforms::MachineSpec& m = scenario.machine;
  const platforms::IbSwitchDatasheet& sw = m.ib_switch;
  const std::uint32_t nics = platforms::nics_of(m);
  const auto refuse = [&](const std::string& why) {
    throw InputError(scenario.network_origin, "machine.network: " + why);
  };
  if (m.network == platforms::NetworkKind::single_switch) {
    if (nics > sw.ports)
      refuse(
          fmt::format("{} NICs need more than the {} ports of one {}; use kind: leaf_spine", nics, sw.ports, sw.name));
    return;
  }
  const std::uint32_t leaves = platforms::leaf_of(m, nics - 1) + 1;
  if (m.tiers == 2 && leaves > sw.ports)
    refuse(
        fmt::format("{} NICs need {} leaf switches of type {}, but a spine has {} ports; two tiers connect at most {} "
                    "NICs; use tiers: 3",
                    nics, leaves, sw.name, sw.ports, sw.ports * platforms::leaf_down_ports(m)));
  if (m.tiers == 3) {
    const std::uint32_t of_pod = platforms::leaves_of_pod(m), cores = platforms::cores_of_spine(m);
    const auto pods = static_cast<std::uint32_t>(ceil_div(leaves, of_pod));
    if (of_pod + cores > sw.ports)
      refuse(
          fmt::format("a spine needs {} ports to the leaves of its pod and {} to cores, but {} has {}; use a smaller "
                      "pod_leaves or cores",
                      of_pod, cores, sw.name, sw.ports));
    if (pods > sw.ports)
      refuse(fmt::format("{} NICs need {} pods of {} leaves, but a core of type {} has {} ports", nics, pods, of_pod,
                         sw.name, sw.ports));
  }
  if (m.spines > platforms::leaf_down_ports(m))
    refuse(fmt::format("{} spines are too many; a leaf of type {} has {} ports to spines", m.spines, sw.name,
                       platforms::leaf_down_ports(m)));
}

}  // namespace

Simulation::Simulation(const Scenario& scenario, execution::JobSink& sink) : scenario_(scenario), jobs_(sink) {
  check_network(scenario_);
  fold_ = fold_copies(scenario_);
  fabric_ = std::make_unique<transport::Assembly>(vc_plan(scenario_.fabric), scenario_.fabric.transaction_bytes);
  machine_ = std::make_unique<platforms::Machine>(scenario_.machine, *fabric_);
  executor_ = std::make_unique<execution::Executor>(*fabric_, jobs_);
  workload_ = make_workload_run(scenario_, *machine_, *executor_);
  if (fold_.copies > 1) {
    const std::vector<transport::Traffic> traffic = workload_->traffic();
    const bool fluid = scenario_.fabric.fidelity == transport::Fidelity::fluid;
    const auto routing = fluid ? infiniband::Routing::deterministic : scenario_.machine.routing;
    judge(fold_, traffic, *machine_, *fabric_, share_trunks(fold_, traffic, *machine_, routing),
          workload_->folded_bound());
  }
  modules_ = std::make_unique<UserModules>(scenario_, *fabric_, *machine_);
  events_ = std::make_unique<MachineEvents>(*this);
  phase_use_ = std::make_unique<PhaseUse>(*fabric_, workload_->phases(), link_table(*this));
  workload_->follow_phases(*phase_use_);
  // After a failure, messages take other ways.
  if (events_->fail_links()) executor_->simulate_every_collective();
  executor_->simulate_collectives_over(events_->changed_links());
  executor_->gpus_change_at(events_->gpu_changes());
  if (!scenario_.fabric.compose) executor_->simulate_every_pass("fabric.compose is off");
  if (!modules_->empty()) {  // which may send at any time
    executor_->simulate_every_collective();
    executor_->simulate_every_pass("modules of the user may send at any time");
    scenario_.fabric.fidelity = transport::Fidelity::train;
  }
  if (fabric_->context().losses != nullptr)
    scenario_.fabric.fidelity = transport::Fidelity::train;  // streams cannot handle failed links
  if (scenario_.fabric.fidelity == transport::Fidelity::fluid) fabric_->model_as_fluid();
}

void Simulation::choose_fidelity() {
  if (scenario_.fabric.fidelity != transport::Fidelity::automatic) return;
  fidelity_choice_ = transport::choose_fidelity(fabric_->routes(), fabric_->devices(), workload_->traffic(),
                                                workload_->affordable_hops());
  for (const transport::LinkEnd& link : fidelity_choice_->fluid) fabric_->model_as_fluid(link);
}

transport::Fidelity Simulation::fidelity() const {
  return fidelity_choice_ ? fidelity_choice_->fidelity() : scenario_.fabric.fidelity;
}

std::vector<TrafficClass> Simulation::classes() const {
  std::vector<TrafficClass> all = workload_->classes();
  if (!modules_->empty()) all.push_back(TrafficClass::other);
  return all;
}

Simulation::~Simulation() = default;

void Simulation::run(std::function<bool(Time)> hook, const std::function<void()>& drive) {
  fabric_->calendar().set_instant_hook([this, hook = std::move(hook), last = Time()](Time now) mutable {
    // After undeliverable bytes, the run has no further results.
    const bool only_modules_left = !modules_->empty() && workload_->done();
    const bool has_ended = !workload_->is_open() && (only_modules_left || events_->only_left(workload_->events_left()));
    if (has_ended || fabric_->recovery().undeliverable()) {
      end_ = last;
      return false;
    }
    last = now;
    return !hook || hook(now);
  });
  // A module may wait for ever between two accesses. Without events, nothing of the workload goes on.
  if (!modules_->empty()) fabric_->calendar().set_idle_hook([this] { return workload_->is_open(); });
  fabric_->calendar().at(Time(), *this, 0, 0);
  drive ? drive() : sc_core::sc_start();
  if (const auto& at = fabric_->calendar().overran())
    throw InputError(scenario_.workload_origin,
                     fmt::format("workload: a job or transfer that begins at {:.9f} s would end "
                                 "after {:g} s, the limit of a run; check for rates that "
                                 "are too low, and sizes and times that are too large",
                                 at->seconds(), kLongestRunSeconds));
  if (workload_->done() && modules_->empty()) fabric_->expect_settled();
  expect_listed_classes(classes(), workload_->kind(), fabric_->ledger());
}

}  // namespace railyard
