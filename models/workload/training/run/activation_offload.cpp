#include "workload/training/run/activation_offload.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

ActivationOffload::ActivationOffload(const TrainingSpec& spec, const Schedule& schedule, const MemoryPlan& plan,
                                     const Mesh& mesh, HostRanks& hosts, const TrainingJobs& jobs,
                                     RankPrograms& programs, MemoryLedger& memory)
    : spec_(spec),
      schedule_(schedule),
      plan_(plan),
      mesh_(mesh),
      hosts_(hosts),
      jobs_(jobs),
      programs_(programs),
      memory_(memory),
      stages_(transformer::stages_of(spec.stage_layers)),
      ranks_at_(spec.pp()),
      states_(mesh.size()),
      load_(hosts.add_streams("load", false)) {
  for (std::uint32_t r = 0; r < mesh.size(); ++r) {
    store_.push_back(mesh.rank(r).streams.size());
    mesh.rank(r).add_stream("store");
    ranks_at_[mesh.coordinate(r, Dimension::pp)].push_back(r);
  }
}

Bytes ActivationOffload::bytes_of(std::uint32_t stage, std::uint32_t layer) const {
  if (layer == SlotStep::kEnds) return 0;
  return plan_.stage(stage).offloaded[layer - stages_[stage].first_layer];
}

std::uint32_t ActivationOffload::place_of(std::uint32_t stage, std::uint32_t layer, bool first) const {
  const transformer::Stage& s = stages_[stage];
  if (layer == SlotStep::kEnds) return first ? 0 : (s.last ? 1 : 0) + s.layers;
  return (s.last ? 1 : 0) + s.first_layer + s.layers - 1 - layer;
}

void ActivationOffload::load(std::uint32_t rank, std::uint32_t slot, std::uint32_t place,
                             const std::vector<JobRef>& after) {
  const std::uint32_t stage = slot_of(mesh_.coordinate(rank, Dimension::pp), slot).stage;
  const transformer::Stage& s = stages_[stage];
  const std::uint32_t ends = s.last ? 1 : 0;
  if (place < ends || place >= ends + s.layers) return;
  const std::uint32_t layer = s.first_layer + s.layers - 1 - (place - ends);
  State& state = states_[rank];
  const Bytes bytes = bytes_of(stage, layer);
  if (bytes == 0 || state.loads.count(layer) > 0) return;
  state.loads[layer] =
      hosts_.load(rank, load_[rank], bytes, jobs_.label(Jobs::kActivations, slot, layer, rank, true), after);
}

void ActivationOffload::before_layer(std::uint32_t p, std::uint32_t index, std::uint32_t layer, bool first) {
  const Slot& slot = slot_of(p, index);
  for (const std::uint32_t rank : ranks_at_[p]) {
    State& state = states_[rank];
    if (first) {
      programs_.wait_for(rank, state.stores);
      state.loads.clear();
    }
    if (slot.kind == SlotKind::forward) {
      if (first) state.stores.clear();
      if (state.stores.size() > 1) programs_.wait_for(rank, state.stores[state.stores.size() - 2]);
      continue;
    }
    std::vector<JobRef> after{programs_.last(rank)};
    if (first) after.insert(after.end(), state.stores.begin(), state.stores.end());
    const std::uint32_t place = place_of(slot.stage, layer, first);
    for (std::uint32_t next = first ? 0 : place; next <= place + spec_.offload.prefetch_layers; ++next)
      load(rank, index, next, after);
    if (const auto own = state.loads.find(layer); own != state.loads.end()) programs_.wait_for(rank, own->second);
    if (first) state.stores.clear();
  }
}

void ActivationOffload::after_layer(std::uint32_t p, std::uint32_t index, std::uint32_t layer) {
  const Slot& slot = slot_of(p, index);
  const Bytes bytes = bytes_of(slot.stage, layer);
  if (bytes == 0) return;
  for (const std::uint32_t rank : ranks_at_[p]) {
    State& state = states_[rank];
    if (slot.kind == SlotKind::forward)
      state.stores.push_back(hosts_.store(rank, store_[rank], bytes,
                                          jobs_.label(Jobs::kActivations, index, layer, rank), {programs_.last(rank)}));
    else
      state.endings.push_back({programs_.last(rank), bytes});
  }
}

void ActivationOffload::on_step_begun(std::uint32_t rank, const Jobs::Fields& f, Time now) {
  State& state = states_[rank];
  const std::uint32_t layer = jobs_.step_of(f).layer;
  if (state.step == f.step && state.slot == f.slot && state.layer == layer) return;
  state.step = f.step;
  state.slot = f.slot;
  state.layer = layer;
  const Slot& slot = jobs_.slot_of(f);
  if (slot.kind == SlotKind::forward)
    memory_.take_staged(rank, bytes_of(slot.stage, layer), jobs_.slot_row(f, rank), now);
}

void ActivationOffload::on_step_done(std::uint32_t rank, const Job& job, Time now) {
  std::deque<Ending>& endings = states_[rank].endings;
  if (endings.empty() || endings.front().last.job != &job) return;
  memory_.free_staged(rank, endings.front().bytes, jobs_.slot_row(Jobs::fields_of(job), rank), now);
  endings.pop_front();
}

void ActivationOffload::on_copy_begun(const Job& job, Time now) {
  const Jobs::Fields f = Jobs::fields_of(job);
  if (f.first) memory_.take_staged(f.rank, job.bytes(), jobs_.slot_row(f, f.rank), now);
}

void ActivationOffload::on_copy_done(const Job& job, Time now) {
  const Jobs::Fields f = Jobs::fields_of(job);
  (f.first ? loaded_ : stored_) += job.bytes();
  if (!f.first) memory_.free_staged(f.rank, job.bytes(), jobs_.slot_row(f, f.rank), now);
}

std::uint64_t ActivationOffload::copies() const {
  std::uint64_t copies = 0;
  for (std::uint32_t p = 0; p < spec_.pp(); ++p)
    for (const Slot& slot : schedule_.slots[p])
      for (const Bytes bytes : plan_.stage(slot.stage).offloaded) copies += bytes > 0 ? ranks_at_[p].size() : 0;
  return copies * spec_.steps;
}

void ActivationOffload::add_traffic(std::vector<transport::Traffic>& all) const {
  for (std::uint32_t p = 0; p < spec_.pp(); ++p) {
    double bytes = 0;
    for (const Slot& slot : schedule_.slots[p])
      if (slot.kind == SlotKind::forward) bytes += static_cast<double>(plan_.stage(slot.stage).on_host());
    for (const std::uint32_t rank : ranks_at_[p])
      hosts_.add_traffic(all, rank, bytes * spec_.steps, bytes * spec_.steps);
  }
}

}  // namespace railyard::workload::training
