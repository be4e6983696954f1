#include "workload/training/run/divided_weights.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "workload/training/plan/nccl_request.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;
using transformer::Linear;
using transformer::Product;

DividedWeights::DividedWeights(const TrainingSpec& spec, const transformer::ModelShape& model,
                               const gpu::KernelTimer& kernels, const Mesh& mesh, const Streams& streams,
                               const std::optional<Streams>& experts, transport::Fabric& fabric,
                               const TrainingJobs& jobs, RankPrograms& programs, MemoryLedger& memory)
    : spec_(spec),
      model_(model),
      division_(spec.division()),
      kernels_(kernels),
      jobs_(jobs),
      programs_(programs),
      memory_(memory),
      places_(spec.pp()),
      order_(mesh.size()),
      caches_(mesh.size()),
      gradients_(mesh.size()),
      parts_ended_(mesh.size()) {
  for (std::size_t c = 0; c < kGatherChains; ++c)
    chains_.emplace_back(gathered_ahead(static_cast<GatherChain>(c), spec.gtp_shards.prefetch_depth), mesh.size(),
                         programs);
  const auto ranks = mesh.groups({Dimension::gtp});
  connect(kAllOthers, ranks, streams, mesh, fabric);
  if (experts) connect(kExperts, adjacent(ranks, spec.gtp_shards.experts_size), *experts, mesh, fabric);
  if (spec.gtp_shards.activations == KeptInputs::sharded) {
    const collective::CollectiveRequest request = nccl_request(spec.software, TrafficClass::weights);
    inputs_ = mesh.connect({Dimension::tp}, streams.gathers, request, fabric);
    for (const auto& communicator : inputs_.all())
      places_[mesh.coordinate(communicator->rank(0).number, Dimension::pp)].inputs.push_back(communicator.get());
  }
  for (const auto& communicator : groups_[kAllOthers].gathers.all()) {
    Place& place = places_[mesh.coordinate(communicator->rank(0).number, Dimension::pp)];
    for (const Rank* rank : communicator->ranks()) place.ranks.push_back(rank->number);
  }
}

void DividedWeights::connect(GroupOf number, const std::vector<std::vector<std::uint32_t>>& sets,
                             const Streams& streams, const Mesh& mesh, transport::Fabric& fabric) {
  Group& group = groups_[number];
  group.streams = streams;
  const collective::CollectiveRequest request = nccl_request(spec_.software, TrafficClass::weights);
  group.gathers = mesh.connect_sets(sets, streams.gathers, request, fabric);
  group.gathers_again = mesh.connect_sets(sets, streams.gathers_again, request, fabric);
  collective::CollectiveRequest reduction = request;
  if (spec_.gtp_shards.reduce == ShardReduce::nvls) reduction.algorithm = collective::Algorithm::nvls;
  group.scatters = mesh.connect_sets(sets, streams.scatters, reduction, fabric);
  for (std::size_t g = 0; g < group.gathers.all().size(); ++g) {
    GroupPlace& place = places_[mesh.coordinate(group.gathers.all()[g]->rank(0).number, Dimension::pp)].groups[number];
    place.gathers.push_back(group.gathers.all()[g].get());
    place.gathers_again.push_back(group.gathers_again.all()[g].get());
    place.scatters.push_back(group.scatters.all()[g].get());
  }
}

std::vector<std::size_t> DividedWeights::streams() const {
  std::vector<std::size_t> all;
  for (const Group& group : groups_)
    if (!group.gathers.all().empty())
      all.insert(all.end(), {group.streams.gathers, group.streams.gathers_again, group.streams.scatters});
  return all;
}

std::vector<const Communicators*> DividedWeights::communicators() const {
  std::vector<const Communicators*> all;
  for (const Group& group : groups_) {
    if (group.gathers.all().empty()) continue;
    all.push_back(&group.gathers);
    all.push_back(&group.scatters);
  }
  return all;
}

transformer::Matrix DividedWeights::matrix_of(const SlotStep& step) const {
  const std::uint32_t kind = step.layer == SlotStep::kEnds ? 0 : model_.kind(step.layer);
  return transformer::matrix_of(model_, step.use->linear, spec_.tp(), kind, spec_.ep());
}

WeightCache::Kind DividedWeights::buffer_of(const SlotStep& step, SlotKind kind) const {
  return {division_.gathered(matrix_of(step), step.use->linear), type_of(*step.use), along_columns(step),
          chain_of(step, kind)};
}

void DividedWeights::begin_step() {
  for (Place& place : places_) place.kept.clear();
}

bool DividedWeights::is_kept(std::set<Gathered>& kept, const SlotStep& step) const {
  if (spec_.gtp_shards.keep_gathered == GatheredFor::micro_batch || step.use->product == Product::wgrad) return false;
  return !kept.insert({step.layer, step.use->linear, along_columns(step)}).second;
}

bool DividedWeights::along_columns(const SlotStep& step) const {
  return step.use->product == Product::dgrad && type_of(*step.use) != model_.dtype && spec_.form.narrow->copies() > 1;
}

WeightOrder::Copy DividedWeights::copy_of(const SlotStep& step, SlotKind kind) const {
  const bool kept = spec_.gtp_shards.keep_gathered == GatheredFor::step;
  return {step.layer, step.use->linear, kept ? std::uint32_t(along_columns(step)) : use_of(step, kind)};
}

bool DividedWeights::gathers_input(const SlotStep& step) const {
  return spec_.gtp_shards.activations == KeptInputs::sharded && step.use && step.use->product == Product::wgrad &&
         is_column_parallel(step.use->linear);
}

WeightCache::Kind DividedWeights::input_buffer_of(const SlotStep& step) const {
  return input_buffer(spec_, model_, step.use->linear);
}

void DividedWeights::gather_input(Place& place, std::uint32_t slot, std::uint32_t detail, const SlotStep& step) {
  WeightChain& chain = chains_[static_cast<std::size_t>(GatherChain::pass)];
  chain.next_unit(place.ranks);
  for (Communicator* communicator : place.inputs)
    chain.gather(*communicator, input_buffer_of(step).bytes(),
                 jobs_.label(Jobs::kInputGather, slot, detail, communicator->rank(0).number));
}

void DividedWeights::input_gather_begins(std::uint32_t rank, const SlotStep& step, Time now) {
  if (caches_[rank].take(input_buffer_of(step))) memory_.hold_gathered(rank, caches_[rank].bytes(), false, now);
}

void DividedWeights::kernels_begin(std::uint32_t rank, const SlotStep& step, SlotKind kind, Time now) {
  if (gathers_input(step)) order_.use(rank, input_of(step));
  if (!divides(step)) return;
  if (step.use->product != Product::wgrad) {
    order_.use(rank, copy_of(step, kind));
    return;
  }
  constexpr std::uint32_t kBuffers = 2;  // PeakMemory::whole_gradients
  if (++gradients_[rank] > kBuffers)
    throw std::logic_error(fmt::format("rank {}: a gradient is computed while {} others are in use", rank, kBuffers));
  memory_.hold_gathered(rank, caches_[rank].bytes(), true, now);
}

void DividedWeights::kernels_end(std::uint32_t rank, const SlotStep& step, SlotKind kind) {
  if (gathers_input(step)) caches_[rank].give_back(input_buffer_of(step));
  if (!divides(step) || step.use->product == Product::wgrad) return;
  if (step.coupled != nullptr && ++parts_ended_[rank] < step.coupled->kernel_jobs()) return;
  parts_ended_[rank] = 0;
  if (spec_.gtp_shards.keep_gathered == GatheredFor::micro_batch) caches_[rank].give_back(buffer_of(step, kind));
}

void DividedWeights::gather_begins(std::uint32_t rank, const SlotStep& step, SlotKind kind, Time now) {
  if (caches_[rank].take(buffer_of(step, kind))) memory_.hold_gathered(rank, caches_[rank].bytes(), false, now);
}

void DividedWeights::reduction_begins(std::uint32_t rank, const GradientBucket& bucket) {
  if (bucket.whole) return;
  const std::uint64_t micro_batches = spec_.zero_stage >= 2 ? 1 : spec_.micro_batches();  // of a reduction
  for (const std::uint32_t layer : bucket.layers) {
    std::uint64_t gradients = 0;
    for (const Linear linear : layer_linears(model_, model_.kind(layer)))
      if (is_of_experts(linear) == bucket.experts && division_.of(linear) > 1) ++gradients;
    if (gradients > 0) order_.reduce(rank, {layer, bucket.experts}, micro_batches * gradients);
  }
}

double DividedWeights::bytes_of(const std::vector<Slot>& slots, const SlotPlans& plans, bool experts) const {
  double bytes = 0;
  std::set<Gathered> kept;
  for (const Slot& slot : slots)
    for (const SlotStep& step : plans.plan(slot.kind, slot.stage).steps)
      if (divides(step) && is_of_experts(step.use->linear) == experts && !is_kept(kept, step))
        bytes += static_cast<double>(moved_bytes(step));
  return bytes;
}

double DividedWeights::input_bytes_of(const std::vector<Slot>& slots, const SlotPlans& plans) const {
  double bytes = 0;
  for (const Slot& slot : slots)
    for (const SlotStep& step : plans.plan(slot.kind, slot.stage).steps)
      if (gathers_input(step)) bytes += static_cast<double>(input_buffer_of(step).bytes());
  return bytes;
}

DividedWeights::Use DividedWeights::use_of(const SlotStep& step, SlotKind kind) {
  switch (step.use->product) {
    case Product::fprop: return kind == SlotKind::forward ? kForward : kRecomputed;
    case Product::dgrad: return kBackward;
    case Product::wgrad: return kScatter;
  }
  return kForward;
}

std::uint32_t DividedWeights::tag(const SlotStep& step, Use use) const {
  std::uint32_t place = step.layer;
  if (step.layer == SlotStep::kEnds) place = model_.layers + (step.use->linear == Linear::head ? 1 : 0);
  return place * kUses + use;
}

void DividedWeights::count(const SlotStep& step) {
  const transformer::LinearUse& use = *step.use;
  if (!is_of_layer(use.linear)) return;
  const double ranks = division_.of(use.linear);
  // Switches read all of a gradient, the own shard, too; otherwise a rank sends all but its own shard.
  const bool all = use.product == Product::wgrad && spec_.gtp_shards.reduce == ShardReduce::nvls;
  moved_bytes_ += static_cast<double>(matrix_of(step).elements()) * railyard::bytes_of(type_of(use)) *
                  (all ? ranks / (ranks - 1) : 1);
}

double DividedWeights::bytes_per_element() const {
  double elements = 0;
  for (const transformer::Stage& stage : transformer::stages_of(spec_.stage_layers))
    for (const auto& [linear, kind] : linears_of(model_, stage))
      if (is_of_layer(linear) && division_.of(linear) > 1)
        elements +=
            static_cast<double>(transformer::matrix_of(model_, linear, spec_.tp(), kind, spec_.ep()).elements());
  return moved_bytes_ / elements / spec_.micro_batches() / spec_.steps;
}

void DividedWeights::begin_slot(std::uint32_t p) {
  Place& place = places_[p];
  for (WeightChain& chain : chains_) chain.restart(place.ranks);
  place.used.fill(std::nullopt);
}

void DividedWeights::before_step(std::uint32_t p, std::uint32_t slot, std::uint32_t detail, const SlotStep& step,
                                 SlotKind kind) {
  if (gathers_input(step)) gather_input(places_[p], slot, detail, step);
  if (!divides(step)) return;
  Place& place = places_[p];
  const bool again = use_of(step, kind) == kRecomputed;
  const auto number = static_cast<std::size_t>(chain_of(step, kind));
  WeightChain& chain = chains_[number];
  const std::pair use{step.layer, step.use->linear};
  if (place.used[number] != use) {
    chain.next_unit(place.ranks);
    place.used[number] = use;
    place.has[number] = false;
  }
  if (step.use->product == Product::wgrad || std::exchange(place.has[number], true)) return;
  if (is_kept(place.kept, step)) return;
  count(step);
  const bool casts = spec_.gtp_shards.quantize == ShardCast::per_gather && type_of(*step.use) != model_.dtype;
  const Streams& streams = groups_[group_of(step.use->linear)].streams;
  const GroupPlace& group = place.groups[group_of(step.use->linear)];
  for (Communicator* communicator : again ? group.gathers_again : group.gathers) {
    std::vector<JobRef> after = chain.starts(*communicator);
    if (casts)
      after = cast_shards(*communicator, again ? streams.gathers_again : streams.gathers, step, std::move(after), slot,
                          detail);
    chain.gather(*communicator, moved_bytes(step),
                 jobs_.label(Jobs::kMatrixGather, slot, detail, communicator->rank(0).number), after);
  }
}

std::vector<JobRef> DividedWeights::cast_shards(Communicator& gathers, std::size_t stream, const SlotStep& step,
                                                std::vector<JobRef> after, std::uint32_t slot, std::uint32_t detail) {
  const double elements = static_cast<double>(shard_elements(step)), read = railyard::bytes_of(model_.dtype);
  const auto run = [&](double bytes) {
    const gpu::SharedChain kernel = gpu::chain_of(kernels_.memory_bound(elements * bytes));
    for (std::uint32_t m = 0; m < gathers.size(); ++m) {
      const std::uint32_t rank = gathers.rank(m).number;
      after[m] = programs_.kernels_beside(rank, stream, kernel, jobs_.label(Jobs::kNarrowShard, slot, detail, rank),
                                          {after[m]});
    }
  };
  if (spec_.form.narrow->finds_amax()) {
    constexpr Bytes kMaximumBytes = 4;  // fp32
    run(read);
    after = programs_.start(gathers, collective::Operation::all_reduce, kMaximumBytes,
                            jobs_.label(Jobs::kShardMaximum, slot, detail, gathers.rank(0).number), after);
  }
  run(read + railyard::bytes_of(type_of(*step.use)));
  return after;
}

const SlotStep* DividedWeights::after_step(std::uint32_t p, std::uint32_t slot, std::uint32_t detail,
                                           const SlotStep& step) {
  if (!divides(step) || step.use->product != Product::wgrad) return nullptr;
  Place& place = places_[p];
  Scatter scatter{slot, detail, &step, {}};
  count(step);
  for (Communicator* communicator : place.groups[group_of(step.use->linear)].scatters) {
    const std::vector<JobRef>& jobs =
        programs_.start(*communicator, scatter_operation(spec_.gtp_shards.reduce), moved_bytes(step),
                        jobs_.label(Jobs::kMatrixScatter, slot, detail, communicator->rank(0).number),
                        programs_.last_of(*communicator));
    for (std::size_t m = 0; m < jobs.size(); ++m) scatter.jobs.emplace_back(communicator->rank(m).number, jobs[m]);
  }
  const SlotStep* added = add(place);
  place.pending = std::move(scatter);
  return added;
}

const SlotStep* DividedWeights::end_slot(std::uint32_t p) { return add(places_[p]); }

const SlotStep* DividedWeights::add(Place& place) {
  if (!place.pending) return nullptr;
  const Scatter& scatter = *place.pending;
  const SlotStep* step = scatter.step;
  // Reads the scattered gradient, or those of all ranks, and reads and writes the sum over micro-batches.
  const std::uint32_t received =
      spec_.gtp_shards.reduce == ShardReduce::all_to_all_fp32 ? division_.of(step->use->linear) : 1;
  const double bytes = static_cast<double>(shard_elements(*step)) *
                       (received * railyard::bytes_of(model_.dtype) + 2 * railyard::bytes_of(spec_.gradients));
  const gpu::SharedChain kernel = gpu::chain_of(kernels_.memory_bound(bytes));
  for (const auto& [rank, job] : scatter.jobs) {
    programs_.wait_for(rank, job);
    programs_.kernels(rank, kernel, 1, jobs_.label(Jobs::kAddGradient, scatter.slot, scatter.detail, rank));
  }
  place.pending.reset();
  return step;
}

}  // namespace railyard::workload::training
