#include "workload/training/divided_weights.h"

#include <utility>

#include "workload/training/nccl_request.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;
using transformer::Linear;
using transformer::Product;

DividedWeights::DividedWeights(const TrainingSpec& spec, const transformer::ModelShape& model,
                               const gpu::KernelTimer& kernels, const Mesh& mesh, const Streams& streams,
                               transport::Fabric& fabric, const TrainingJobs& jobs, RankPrograms& programs)
    : spec_(spec),
      model_(model),
      kernels_(kernels),
      jobs_(jobs),
      programs_(programs),
      streams_(streams),
      chains_{WeightChain(spec.gtp_shards.prefetch_depth, mesh.size(), programs),
              WeightChain(spec.gtp_shards.prefetch_depth, mesh.size(), programs)},
      places_(spec.pp()),
      order_(mesh.size()) {
  const collective::CollectiveRequest request = nccl_request(spec.software, TrafficClass::weights);
  gathers_ = mesh.connect({Dimension::gtp}, streams.gathers, request, fabric);
  gathers_again_ = mesh.connect({Dimension::gtp}, streams.gathers_again, request, fabric);
  collective::CollectiveRequest reduction = request;
  if (spec.gtp_shards.reduce == ShardReduce::nvls) reduction.algorithm = collective::Algorithm::nvls;
  scatters_ = mesh.connect({Dimension::gtp}, streams.scatters, reduction, fabric);
  for (std::size_t g = 0; g < gathers_.all().size(); ++g) {
    Place& place = places_[mesh.place(gathers_.all()[g]->rank(0).number, Dimension::pp)];
    place.gathers.push_back(gathers_.all()[g].get());
    place.gathers_again.push_back(gathers_again_.all()[g].get());
    place.scatters.push_back(scatters_.all()[g].get());
    for (const Rank* rank : gathers_.all()[g]->ranks()) place.ranks.push_back(rank->number);
  }
}

std::uint64_t DividedWeights::shard_elements(Linear linear) const {
  return shard_of(matrix_of(model_, linear, spec_.tp()), spec_.gtp(), spec_.shard_rows()).elements();
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

void DividedWeights::kernels_begin(std::uint32_t rank, const SlotStep& step, SlotKind kind) const {
  if (step.use && step.use->product != Product::wgrad) order_.use(rank, copy_of(step, kind));
}

void DividedWeights::reduction_begins(std::uint32_t rank, const GradientBucket& bucket) {
  if (bucket.whole) return;
  const std::uint64_t micro_batches = spec_.zero_stage >= 2 ? 1 : spec_.micro_batches();  // of a reduction
  for (const std::uint32_t layer : bucket.layers)
    order_.reduce(rank, layer, micro_batches * transformer::kLayerLinears.size());
}

double DividedWeights::bytes_of(const std::vector<Slot>& slots, const SlotPlans& plans) const {
  double bytes = 0;
  std::set<Gathered> kept;
  for (const Slot& slot : slots)
    for (const SlotStep& step : plans.plan(slot.kind, slot.stage).steps)
      if (step.use && !is_kept(kept, step)) bytes += static_cast<double>(moved_bytes(*step.use));
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

void DividedWeights::count(const transformer::LinearUse& use) {
  if (!is_of_layer(use.linear)) return;
  // Switches read all of a gradient, the own shard, too; otherwise a rank sends all but its own shard.
  const bool all = use.product == Product::wgrad && spec_.gtp_shards.reduce == ShardReduce::nvls;
  moved_bytes_ += static_cast<double>(matrix_of(model_, use.linear, spec_.tp()).elements()) *
                  railyard::bytes_of(type_of(use)) * (all ? static_cast<double>(spec_.gtp()) / (spec_.gtp() - 1) : 1);
}

double DividedWeights::bytes_per_element() const {
  double elements = 0;
  for (const transformer::Stage& stage : transformer::stages_of(spec_.stage_layers))
    for (const Linear linear : linears_of(stage))
      if (is_of_layer(linear)) elements += static_cast<double>(matrix_of(model_, linear, spec_.tp()).elements());
  return moved_bytes_ / elements / spec_.micro_batches() / spec_.steps;
}

void DividedWeights::begin_slot(std::uint32_t p) {
  Place& place = places_[p];
  for (const Chain chain : {kPass, kAgain}) {
    chains_[chain].restart(place.ranks);
    place.used[chain].reset();
  }
}

void DividedWeights::before_step(std::uint32_t p, std::uint32_t slot, std::uint32_t detail, const SlotStep& step,
                                 SlotKind kind) {
  if (!step.use) return;
  Place& place = places_[p];
  const Chain chain = use_of(step, kind) == kRecomputed ? kAgain : kPass;
  const std::pair use{step.layer, step.use->linear};
  if (place.used[chain] != use) {
    chains_[chain].next_unit(place.ranks);
    place.used[chain] = use;
    place.has[chain] = false;
  }
  if (step.use->product == Product::wgrad || std::exchange(place.has[chain], true)) return;
  if (is_kept(place.kept, step)) return;
  count(*step.use);
  const bool casts = spec_.gtp_shards.quantize == ShardCast::per_gather && type_of(*step.use) != model_.dtype;
  for (Communicator* communicator : chain == kAgain ? place.gathers_again : place.gathers) {
    std::vector<JobRef> after = chains_[chain].starts(*communicator);
    if (casts)
      after = cast_shards(*communicator, chain == kAgain ? streams_.gathers_again : streams_.gathers, step,
                          std::move(after), slot, detail);
    chains_[chain].gather(*communicator, moved_bytes(*step.use),
                          jobs_.label(Jobs::kMatrixGather, slot, detail, communicator->rank(0).number), after);
  }
}

std::vector<JobRef> DividedWeights::cast_shards(Communicator& gathers, std::size_t stream, const SlotStep& step,
                                                std::vector<JobRef> after, std::uint32_t slot, std::uint32_t detail) {
  const double elements = static_cast<double>(shard_elements(step.use->linear)),
               read = railyard::bytes_of(model_.dtype);
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
  if (!step.use || step.use->product != Product::wgrad) return nullptr;
  Place& place = places_[p];
  Scatter scatter{slot, detail, &step, {}};
  count(*step.use);
  for (Communicator* communicator : place.scatters) {
    const std::vector<JobRef>& jobs =
        programs_.start(*communicator, scatter_operation(spec_.gtp_shards.reduce), moved_bytes(*step.use),
                        jobs_.label(Jobs::kMatrixScatter, slot, detail, communicator->rank(0).number),
                        programs_.last_of(*communicator));
    scatter.jobs.insert(scatter.jobs.end(), jobs.begin(), jobs.end());
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
  const std::uint32_t received = spec_.gtp_shards.reduce == ShardReduce::all_to_all_fp32 ? spec_.gtp() : 1;
  const double bytes = static_cast<double>(shard_elements(step->use->linear)) *
                       (received * railyard::bytes_of(model_.dtype) + 2 * railyard::bytes_of(spec_.gradients));
  const gpu::SharedChain kernel = gpu::chain_of(kernels_.memory_bound(bytes));
  for (std::size_t i = 0; i < place.ranks.size(); ++i) {
    programs_.wait_for(place.ranks[i], scatter.jobs[i]);
    programs_.kernels(place.ranks[i], kernel, 1,
                      jobs_.label(Jobs::kAddGradient, scatter.slot, scatter.detail, place.ranks[i]));
  }
  place.pending.reset();
  return step;
}

}  // namespace railyard::workload::training
