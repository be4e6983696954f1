#include "workload/training/run/pipeline_exchange.h"

#include <fmt/format.h>
#include <set>
#include <utility>

#include "workload/training/schedule/slots.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

Bytes pipeline_bytes(const transformer::ModelShape& model, const TrainingSpec& spec) {
  const Bytes whole = transformer::hidden_bytes(model, spec.rank_tokens());
  const bool sharded = spec.sequence_parallel || spec.software.pp_send == PipelineSend::shard;
  return sharded ? ceil_div(whole, spec.tp()) : whole;
}

PipelineExchange::PipelineExchange(const TrainingSpec& spec, const Schedule& schedule, Bytes sent_bytes,
                                   const Mesh& mesh, const collective::CollectiveRequest& request,
                                   transport::Fabric& fabric, const TrainingJobs& jobs, RankPrograms& programs)
    : spec_(spec),
      schedule_(schedule),
      sent_bytes_(sent_bytes),
      mesh_(mesh),
      jobs_(jobs),
      programs_(programs),
      ranks_at_(spec.pp()),
      ranks_(mesh.size()) {
  for (std::uint32_t r = 0; r < mesh.size(); ++r) ranks_at_[mesh.coordinate(r, Dimension::pp)].push_back(r);
  connect(request, fabric);
  order_arrivals();
}

PipelineExchange::Link PipelineExchange::link(std::uint32_t from_stage, std::uint32_t to_stage) const {
  return {schedule_.rank_of[from_stage], schedule_.rank_of[to_stage], to_stage < from_stage};
}

std::uint32_t PipelineExchange::partner(std::uint32_t rank) const {
  const std::uint32_t half = mesh_.size(Dimension::dp) / 2, place = mesh_.coordinate(rank, Dimension::dp);
  return mesh_.moved(rank, Dimension::dp, (place + half) % (2 * half));
}

void PipelineExchange::connect(const collective::CollectiveRequest& request, transport::Fabric& fabric) {
  std::set<Link> links;
  for (const std::vector<Slot>& slots : schedule_.slots)
    for (const Slot& slot : slots)
      if (const std::uint32_t to = destination_of(slot, schedule_); to != kNoStage) links.insert(link(slot.stage, to));
  const std::vector<std::vector<std::uint32_t>> lines = mesh_.groups({Dimension::pp});
  for (const Link& l : links) {
    Communicators& communicators = pairs_[l];
    const char* const what = l.gradients ? "grad" : "act";
    for (const std::vector<std::uint32_t>& line : lines) {
      const std::uint32_t receiver = l.from == l.to ? partner(line[l.to]) : line[l.to];
      Rank &from = mesh_.rank(line[l.from]), &to = mesh_.rank(receiver);
      const std::vector<std::size_t> streams{from.streams.size(), to.streams.size()};
      from.add_stream(fmt::format("pp_{}_to_{}", what, l.to));
      to.add_stream(fmt::format("pp_{}_from_{}", what, l.from));
      communicators.add(std::make_unique<Communicator>(std::vector<Rank*>{&from, &to}, streams, request, fabric),
                        {line[l.from]});
      by_receiver_[l][receiver] = communicators.all().back().get();
    }
  }
}

void PipelineExchange::order_arrivals() {
  // The slots of a receiver, in the order in which the sender runs the slots before them.
  std::map<std::pair<bool, std::pair<std::uint32_t, std::uint32_t>>, std::uint32_t> slot_of;
  for (const std::vector<Slot>& slots : schedule_.slots)
    for (std::uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i].kind != SlotKind::backward_weights)
        slot_of[{slots[i].kind == SlotKind::forward, {slots[i].stage, slots[i].micro_batch}}] = i;
  place_in_order_.resize(schedule_.ranks());
  for (std::uint32_t p = 0; p < schedule_.ranks(); ++p) place_in_order_[p].resize(schedule_.slots[p].size());
  for (const std::vector<Slot>& slots : schedule_.slots)
    for (const Slot& slot : slots) {
      const std::uint32_t to = destination_of(slot, schedule_);
      if (to == kNoStage) continue;
      const std::uint32_t index = slot_of.at({slot.kind == SlotKind::forward, {to, slot.micro_batch}});
      std::vector<std::uint32_t>& order = arrivals_[link(slot.stage, to)];
      place_in_order_[schedule_.rank_of[to]][index] = static_cast<std::uint32_t>(order.size());
      order.push_back(index);
    }
}

void PipelineExchange::announce() {
  for (const auto& [l, communicators] : pairs_)
    for (const auto& communicator : communicators.all()) programs_.announce(*communicator, true);
}

const Communicator& PipelineExchange::communicator_of(const Job& job) const {
  const TrainingJobs::Fields f = TrainingJobs::fields_of(job);
  const Slot& slot = jobs_.slot_of(f);
  const std::uint32_t rank = job.rank().number;
  if (f.what == TrainingJobs::kSend) return pairs_.at(link(slot.stage, destination_of(slot, schedule_))).of(rank);
  return *by_receiver_.at(link(source_of(slot, schedule_), slot.stage)).at(rank);
}

void PipelineExchange::begin_step() {
  for (RankState& state : ranks_) state.received.clear();
}

bool PipelineExchange::ends_pair(std::uint32_t p, std::uint32_t index) const {
  if (spec_.pp_overlap || spec_.virtual_stages() == 1) return false;
  const std::vector<Slot>& slots = schedule_.slots[p];
  const auto is = [&](std::uint32_t i, SlotKind kind) { return i < slots.size() && slots[i].kind == kind; };
  if (index == 0 || !is(index - 1, SlotKind::forward) || !is(index, SlotKind::backward)) return false;
  return is(index + 1, SlotKind::forward) || (index > 1 && is(index - 2, SlotKind::backward));
}

void PipelineExchange::before_slot(std::uint32_t p, std::uint32_t index) {
  const bool received = ends_pair(p, index);  // with the slot before
  const std::vector<Slot>& slots = schedule_.slots[p];
  for (const std::uint32_t rank : ranks_at_[p]) {
    RankState& state = ranks_[rank];
    std::vector<JobRef>& waits = programs_.waits(rank);
    const std::vector<JobRef> weights = std::exchange(waits, {});  // of an optimizer, for which no host waits
    if (!received) {
      if (!spec_.pp_overlap) waits = state.sends;
      state.sends.clear();
      receive(slots[index], index, rank);
      if (ends_pair(p, index + 1)) receive(slots[index + 1], index + 1, rank);
      state.before = programs_.last(rank);
      state.before_place = programs_.place(rank);
    }
    const JobRef last = programs_.last(rank);
    const bool synchronizes = spec_.software.slots_synchronize && last.job != nullptr;
    if (synchronizes) waits.push_back(last);
    if (synchronizes || (!received && !spec_.pp_overlap && !waits.empty()))
      programs_.wait_on_host(rank, waits, jobs_.label(Jobs::kHostWait, index, 0, rank));
    programs_.wait_for(rank, weights);
    if (slots[index].kind == SlotKind::forward)
      programs_.take_host(rank, Time::seconds(spec_.software.slot_host_us * 1e-6));
  }
}

void PipelineExchange::after_slot(std::uint32_t p, std::uint32_t index) {
  if (ends_pair(p, index + 1)) return;
  const std::vector<Slot>& slots = schedule_.slots[p];
  for (const std::uint32_t rank : ranks_at_[p]) {
    if (ends_pair(p, index)) send(slots[index - 1], index - 1, rank);
    send(slots[index], index, rank);
  }
}

void PipelineExchange::receive(const Slot& slot, std::uint32_t index, std::uint32_t rank) {
  const std::uint32_t from = source_of(slot, schedule_);
  if (from == kNoStage) return;
  const Link& l = link(from, slot.stage);
  RankState& state = ranks_[rank];
  const std::uint32_t p = mesh_.coordinate(rank, Dimension::pp);
  // A stream receives in the order in which the other rank sends, so what comes before this is received now, too.
  const std::vector<std::uint32_t>& order = arrivals_.at(l);
  for (std::uint32_t& received = state.received[l]; received <= place_in_order_[p][index]; ++received) {
    const std::uint32_t earlier = order[received];
    const Slot& other = schedule_.slots[p][earlier];
    const execution::Exchange exchange{0, 1, (std::uint64_t(other.stage) << 32) + other.micro_batch, sent_bytes_};
    state.arrivals[earlier] =
        programs_.receive(*by_receiver_.at(l).at(rank), exchange, jobs_.label(Jobs::kReceive, earlier, 0, rank),
                          {spec_.pp_overlap ? state.before : programs_.last(rank)},
                          spec_.pp_overlap ? state.before_place : programs_.place(rank));
  }
  programs_.wait_for(rank, state.arrivals.at(index));
  state.arrivals.erase(index);
}

void PipelineExchange::send(const Slot& slot, std::uint32_t index, std::uint32_t rank) {
  const std::uint32_t to = destination_of(slot, schedule_);
  if (to == kNoStage) return;
  const execution::Exchange exchange{0, 1, (std::uint64_t(to) << 32) + slot.micro_batch, sent_bytes_};
  ranks_[rank].sends.push_back(programs_.send(pairs_.at(link(slot.stage, to)).of(rank), exchange,
                                              jobs_.label(Jobs::kSend, index, 0, rank), {programs_.last(rank)}));
}

void PipelineExchange::add_traffic(std::vector<transport::Traffic>& all) const {
  for (const auto& [l, communicators] : pairs_)
    for (const auto& c : communicators.all())
      all.push_back({c->rank(0).gpu->window(), c->rank(1).gpu->window(), number(TrafficClass::pp),
                     static_cast<double>(sent_bytes_) * spec_.micro_batches() * spec_.virtual_stages() * spec_.steps});
}

}  // namespace railyard::workload::training
