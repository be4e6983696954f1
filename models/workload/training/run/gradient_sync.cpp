#include "workload/training/run/gradient_sync.h"

#include <algorithm>

#include "transformer/shared_gradients.h"
#include "transformer/training_state.h"
#include "workload/training/plan/nccl_request.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

GradientSync::GradientSync(const TrainingSpec& spec, const transformer::ModelShape& model, const Schedule& schedule,
                           const SlotPlans& plans, const std::vector<gpu::KernelTimer>& kernels, const Mesh& mesh,
                           const Streams& streams, const Communicators& tp, transport::Fabric& fabric,
                           const TrainingJobs& jobs, RankPrograms& programs)
    : spec_(spec),
      model_(model),
      kernels_(kernels),
      mesh_(mesh),
      jobs_(jobs),
      programs_(programs),
      tp_(tp),
      reduced_(mesh.size()),
      gathered_(mesh.size()) {
  const collective::CollectiveRequest dp = nccl_request(spec.software, TrafficClass::dp);
  const collective::CollectiveRequest weights =
      nccl_request(spec.software, spec.zero_stage == 3 ? TrafficClass::weights : TrafficClass::dp);
  const std::vector<Dimension> all{Dimension::cp, Dimension::ep, Dimension::dp};
  dp_ = mesh.connect(all, streams.gradients, dp, fabric);
  weights_ = mesh.connect(all, streams.weights, weights, fabric);
  if (spec.gtp() > 1) {
    const std::vector<Dimension> of_experts{Dimension::gtp, Dimension::cp, Dimension::dp};
    expert_dp_ = mesh.connect(of_experts, streams.gradients, dp, fabric, spec.gtp_shards.experts_size);
    expert_weights_ = mesh.connect(of_experts, streams.weights, weights, fabric, spec.gtp_shards.experts_size);
    const std::vector<Dimension> of_whole{Dimension::gtp, Dimension::cp, Dimension::ep, Dimension::dp};
    whole_dp_ = mesh.connect(of_whole, streams.gradients, dp, fabric);
    whole_weights_ = mesh.connect(of_whole, streams.weights, dp, fabric);
  } else {
    const std::vector<Dimension> of_experts{Dimension::cp, Dimension::dp};
    expert_dp_ = mesh.connect(of_experts, streams.gradients, dp, fabric);
    expert_weights_ = mesh.connect(of_experts, streams.weights, weights, fabric);
  }
  if (spec.state_shards() < spec.replicas()) connect_shards(streams, dp, weights, fabric);
  connect_norms(streams.compute, dp, fabric);
  connect_ends(schedule, streams.compute, fabric);
  if (agrees_on_maxima()) maxima_ = mesh.connect({Dimension::gtp}, streams.compute, dp, fabric);
  for (const std::vector<Slot>& slots : schedule.slots) {
    std::vector<std::pair<std::uint32_t, transformer::Stage>> stages;  // in the order of their last gradients
    std::vector<std::uint32_t> last(schedule.stages(), ~0u);
    for (std::uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i].kind == SlotKind::backward || slots[i].kind == SlotKind::backward_weights) last[slots[i].stage] = i;
    for (std::uint32_t i = 0; i < slots.size(); ++i)
      if (last[slots[i].stage] == i) stages.emplace_back(slots[i].stage, plans.stage(slots[i].stage));
    buckets_.push_back(gradient_buckets(model, stages, spec.tp(), spec.ep(), spec.division(), spec.bucket_parameters,
                                        spec.form.adapters));
    buckets_of_.emplace_back();
    for (std::uint32_t b = 0; b < buckets_.back().size(); ++b)
      for (const std::uint32_t layer : buckets_.back()[b].layers) buckets_of_.back()[layer].push_back(b);
    last_gradients_.push_back(std::move(last));
    std::uint64_t weights = 0, shared = 0, shards = 0;
    for (const auto& [number, stage] : stages)
      shared += spec.form.adapters
                    ? transformer::shared_adapter_parameters(model, stage, *spec.form.adapters, spec.tp())
                    : transformer::shared_gradients(model, stage, spec.sequence_parallel);
    shared_gradients_.push_back(spec.tp() > 1 ? shared : 0);
    for (const auto& [number, stage] : stages)
      weights += divided_projection_weights(model, stage, spec.tp(), spec.ep(), spec.division());
    narrowing_bytes_.push_back(narrowing_bytes(weights));
    narrow_weights_.push_back(weights);
    for (const auto& [number, stage] : stages)
      for (const auto& [linear, kind] : linears_of(model, stage))
        shards += transformer::is_of_layer(linear) && spec.division().of(linear) > 1 ? 1 : 0;
    shards_.push_back(shards);
  }
}

void GradientSync::connect_shards(const Streams& streams, const collective::CollectiveRequest& gradients,
                                  const collective::CollectiveRequest& weights, transport::Fabric& fabric) {
  const auto replicas = mesh_.groups({Dimension::cp, Dimension::dp});
  const auto shards = adjacent(replicas, spec_.state_shards());
  dp_ = mesh_.connect_sets(shards, streams.gradients, gradients, fabric);
  weights_ = mesh_.connect_sets(shards, streams.weights, weights, fabric);
  same_shard_ = mesh_.connect_sets(across(replicas, spec_.state_shards()), streams.gradients, gradients, fabric);
}

void GradientSync::connect_norms(std::size_t stream, const collective::CollectiveRequest& request,
                                 transport::Fabric& fabric) {
  std::vector<Dimension> dimensions{Dimension::gtp, Dimension::cp, Dimension::ep, Dimension::dp};
  if (spec_.grad_norm != GradientNorm::post_validation) {
    dimensions.push_back(Dimension::pp);
    norm_ = mesh_.connect(dimensions, stream, request, fabric);
    return;
  }
  norm_ = mesh_.connect(dimensions, stream, request, fabric);
  norm_pass_.resize(spec_.pp() - 1);
  const collective::CollectiveRequest pp = nccl_request(spec_.software, TrafficClass::pp);
  for (const std::vector<std::uint32_t>& line : mesh_.groups({Dimension::pp}))
    for (std::uint32_t p = 0; p + 1 < spec_.pp(); ++p) {
      Rank &from = mesh_.rank(line[p]), &to = mesh_.rank(line[p + 1]);
      const std::vector<std::size_t> of{from.streams.size(), to.streams.size()};
      from.add_stream("norm_to");
      to.add_stream("norm_from");
      norm_pass_[p].add(std::make_unique<Communicator>(std::vector<Rank*>{&from, &to}, of, pp, fabric),
                        {line[p], line[p + 1]});
    }
}

void GradientSync::connect_ends(const Schedule& schedule, std::size_t stream, transport::Fabric& fabric) {
  const std::uint32_t first = schedule.rank_of.front(), last = schedule.rank_of.back();
  if (!model_.tied_embeddings || first == last || spec_.form.adapters) return;
  const collective::CollectiveRequest pp = nccl_request(spec_.software, TrafficClass::pp);
  for (const std::vector<std::uint32_t>& line : mesh_.groups({Dimension::pp}))
    tied_.add(std::make_unique<Communicator>(std::vector<Rank*>{&mesh_.rank(line[first]), &mesh_.rank(line[last])},
                                             std::vector<std::size_t>{stream, stream}, pp, fabric),
              {line[first], line[last]});
}

Bytes GradientSync::tied_bytes() const {
  const auto bytes = static_cast<std::uint64_t>(bytes_of(spec_.gradients));
  return ceil_div(transformer::tied_gradients(model_, spec_.tp() * spec_.gtp()) * bytes, gradient_parts());
}

double GradientSync::narrowing_bytes(std::uint64_t weights) const {
  const auto& narrow = spec_.form.narrow;
  if (!narrow || spec_.form.adapters || narrow->weight_cast == transformer::WeightCast::product ||
      spec_.gtp_shards.quantize == ShardCast::per_gather)
    return 0;
  // The optimizer writes narrow weights itself; a transposed copy follows the gather.
  if (spec_.narrow_primary)
    return narrow->transposes() ? 2 * static_cast<double>(stored_bytes(weights, narrow->dtype)) : 0;
  const double reads = narrow->finds_amax() && !agrees_on_maxima() ? 2 : 1;
  return static_cast<double>(weights) * reads * bytes_of(model_.dtype) +
         static_cast<double>(narrow_weight_bytes(weights, spec_.form));
}

bool GradientSync::agrees_on_maxima() const {
  return spec_.gtp() > 1 && spec_.gtp_shards.narrow && spec_.gtp_shards.quantize == ShardCast::at_optimizer &&
         spec_.form.narrow->finds_amax();
}

void GradientSync::optimize(std::uint32_t rank) {
  const std::uint32_t p = pipeline_rank(rank);
  const transformer::StatePrecision precision = spec_.precision(model_.dtype);
  double bytes = 0;
  if (offload_ == nullptr)
    bytes = static_cast<double>(owned(rank) * precision.adam_bytes(precision.read_gradients()));
  else
    for (const JobRef& weights : offload_->update(rank, programs_.waits(rank), programs_))
      programs_.wait_for(rank, weights);
  // The maxima need the weights once more.
  if (agrees_on_maxima())
    bytes += static_cast<double>(narrow_weights_[p]) * bytes_of(model_.dtype);
  else
    bytes += narrowing_bytes_[p];
  programs_.kernels(rank, gpu::chain_of(kernels_of(rank).memory_bound(bytes)), 0,
                    jobs_.label(Jobs::kOptimizer, 0, 0, rank));
}

void GradientSync::narrow_shards() {
  constexpr Bytes kMaximumBytes = 4;  // fp32
  for (const auto& communicator : maxima_.all()) {
    const std::uint32_t first = communicator->rank(0).number;
    programs_.collective(*communicator, collective::Operation::all_reduce,
                         shards_[pipeline_rank(first)] * kMaximumBytes, jobs_.label(Jobs::kMaxima, 0, 0, first));
    for (const Rank* rank : communicator->ranks())
      programs_.kernels(rank->number,
                        gpu::chain_of(kernels_of(first).memory_bound(narrowing_bytes_[pipeline_rank(first)])), 0,
                        jobs_.label(Jobs::kNarrowShards, 0, 0, rank->number));
  }
}

void GradientSync::begin_step() {
  for (std::uint32_t r = 0; r < mesh_.size(); ++r) reduced_[r].assign(buckets_[pipeline_rank(r)].size(), JobRef());
  if (spec_.software.param_gather_overlap) gather_weights();
}

bool GradientSync::has_last_gradients(std::uint32_t p, std::uint32_t stage, std::uint32_t index) const {
  return last_gradients_[p][stage] == index;
}

bool GradientSync::has_deferred_head(const GradientBucket& bucket) const {
  const std::vector<std::uint32_t>& layers = bucket.layers;
  const bool has_top = layers.empty() || std::find(layers.begin(), layers.end(), model_.layers - 1) != layers.end();
  return spec_.defer_embedding_wgrad && !bucket.experts && has_top;
}

void GradientSync::wait_for_weights(std::uint32_t rank, std::uint32_t layer) {
  const std::vector<JobRef>& gathered = gathered_[rank];
  if (gathered.empty() || !spec_.software.param_gather_overlap) return;
  for (const std::uint32_t b : buckets_of_[pipeline_rank(rank)].at(layer)) programs_.wait_for(rank, gathered[b]);
}

void GradientSync::reduce(std::uint32_t p, std::optional<std::uint32_t> stage, const LayerEnds& ends) {
  for (const bool with_head : {false, true})
    for (std::uint32_t b = 0; b < buckets_[p].size(); ++b) {
      const GradientBucket& bucket = buckets_[p][b];
      if ((!stage || bucket.stage == *stage) && has_deferred_head(bucket) == with_head) reduce_bucket(p, b, ends);
    }
}

void GradientSync::reduce_bucket(std::uint32_t p, std::uint32_t b, const LayerEnds& ends) {
  const GradientBucket& bucket = buckets_[p][b];
  const Bytes bytes = bucket.parameters * static_cast<Bytes>(bytes_of(spec_.gradients));
  const collective::Operation operation =
      spec_.zero_stage == 0 ? collective::Operation::all_reduce : collective::Operation::reduce_scatter;
  for (const auto& communicator : reducing(bucket).all()) {
    const std::uint32_t first = communicator->rank(0).number;
    if (pipeline_rank(first) != p || communicator->members() == 1) continue;
    std::vector<JobRef> after;
    std::vector<Time> places;
    for (const Rank* rank : communicator->ranks()) {
      const LayerEnd end = end_of(bucket, rank->number, ends);
      after.push_back(end.job);
      places.push_back(end.place);
    }
    const std::vector<JobRef>& jobs =
        programs_.start(*communicator, operation, bytes, jobs_.label(Jobs::kGradients, 0, b, first), after, places);
    for (std::size_t m = 0; m < jobs.size(); ++m) reduced_[communicator->rank(m).number][b] = jobs[m];
  }
  reduce_shards(p, b, ends);
  if (offload_ == nullptr || spec_.zero_stage >= 2) return;
  for (std::uint32_t rank = 0; rank < mesh_.size(); ++rank) {
    if (pipeline_rank(rank) != p) continue;
    const JobRef alone = end_of(bucket, rank, ends).job;
    const bool is_reduced = reduced_[rank][b].job != nullptr;
    offload_->send_gradients(rank, b, owned(rank, bucket), is_reduced ? reduced_[rank][b] : alone);
  }
}

GradientSync::LayerEnd GradientSync::end_of(const GradientBucket& bucket, std::uint32_t rank,
                                            const LayerEnds& ends) const {
  const auto end = bucket.layers.empty() ? ends.end() : ends.find({rank, bucket.layers.back()});
  return end != ends.end() ? end->second : LayerEnd{programs_.last(rank), programs_.place(rank)};
}

void GradientSync::reduce_shards(std::uint32_t p, std::uint32_t b, const LayerEnds& ends) {
  const Bytes bytes =
      ceil_div(buckets_[p][b].parameters * static_cast<std::uint64_t>(bytes_of(spec_.gradients)), spec_.state_shards());
  for (const auto& communicator : same_shard_.all()) {
    const std::uint32_t first = communicator->rank(0).number;
    if (pipeline_rank(first) != p) continue;
    std::vector<JobRef> after;
    std::vector<Time> places;
    for (const Rank* rank : communicator->ranks()) {
      after.push_back(reduced_[rank->number][b]);
      places.push_back(end_of(buckets_[p][b], rank->number, ends).place);
    }
    const std::vector<JobRef>& jobs = programs_.start(*communicator, collective::Operation::all_reduce, bytes,
                                                      jobs_.label(Jobs::kShardGradients, 0, b, first), after, places);
    for (std::size_t m = 0; m < jobs.size(); ++m) reduced_[communicator->rank(m).number][b] = jobs[m];
  }
}

void GradientSync::gather_weights() {
  if (spec_.zero_stage != 1 && spec_.zero_stage != 2) return;
  for (std::uint32_t p = 0; p < spec_.pp(); ++p)
    for (auto b = static_cast<std::uint32_t>(buckets_[p].size()); b-- > 0;) gather_bucket(p, b);
}

Bytes GradientSync::weight_bytes(const GradientBucket& bucket) const {
  const auto wide = static_cast<Bytes>(bytes_of(model_.dtype));
  if (!spec_.narrow_primary || spec_.form.adapters) return bucket.parameters * wide;  // adapters have 16 bits
  // A transposed copy is made after the gather.
  const transformer::NarrowProducts& narrow = *spec_.form.narrow;
  return (bucket.parameters - bucket.matrices) * wide +
         stored_bytes(bucket.matrices, narrow.dtype) * (narrow.transposes() ? 1 : narrow.copies());
}

void GradientSync::gather_bucket(std::uint32_t p, std::uint32_t b) {
  const GradientBucket& bucket = buckets_[p][b];
  const Bytes bytes = weight_bytes(bucket);
  for (const auto& communicator : gathering(bucket).all()) {
    const std::uint32_t first = communicator->rank(0).number;
    if (pipeline_rank(first) != p || communicator->members() == 1) continue;
    const std::vector<JobRef>& jobs =
        programs_.start(*communicator, collective::Operation::all_gather, bytes,
                        jobs_.label(Jobs::kGather, 0, b, first), programs_.last_of(*communicator));
    for (std::size_t m = 0; m < jobs.size(); ++m) {
      std::vector<JobRef>& gathered = gathered_[communicator->rank(m).number];
      gathered.resize(buckets_[p].size());
      gathered[b] = jobs[m];
    }
  }
}

std::uint64_t GradientSync::owned(std::uint32_t rank, const GradientBucket& bucket) const {
  if (spec_.zero_stage == 0) return bucket.parameters;
  return ceil_div(bucket.parameters, static_cast<std::uint64_t>(reducing(bucket).of(rank).members()));
}

std::uint64_t GradientSync::owned(std::uint32_t rank) const {
  std::map<const Communicators*, std::uint64_t> parameters;  // by the ranks that reduce them
  for (const GradientBucket& bucket : buckets_[pipeline_rank(rank)]) parameters[&reducing(bucket)] += bucket.parameters;
  std::uint64_t sum = 0;
  for (const auto& [communicators, reduced] : parameters)
    sum += spec_.zero_stage == 0 ? reduced : ceil_div(reduced, communicators->of(rank).members());
  return sum;
}

void GradientSync::reduce_parts() {
  const auto add = [&](Communicator& communicator, Bytes bytes, Jobs::What what) {
    if (communicator.size() == 1 || bytes == 0) return;
    for (const Rank* rank : communicator.ranks()) programs_.wait_for(rank->number, reduced_[rank->number]);
    programs_.collective(communicator, collective::Operation::all_reduce, bytes,
                         jobs_.label(what, 0, 0, communicator.rank(0).number));
  };
  const auto bytes = static_cast<std::uint64_t>(bytes_of(spec_.gradients));
  for (const auto& communicator : tp_.all())
    add(*communicator,
        ceil_div(shared_gradients_[pipeline_rank(communicator->rank(0).number)] * bytes, gradient_parts()),
        Jobs::kSharedGradients);
  for (const auto& communicator : tied_.all()) add(*communicator, tied_bytes(), Jobs::kTiedGradients);
}

std::vector<JobRef> GradientSync::find_norm() {
  std::vector<JobRef> last(mesh_.size());
  for (std::uint32_t rank = 0; rank < mesh_.size(); ++rank) {
    programs_.wait_for(rank, reduced_[rank]);
    programs_.kernels(
        rank,
        gpu::chain_of(kernels_of(rank).memory_bound(static_cast<double>(owned(rank)) * bytes_of(spec_.gradients))), 0,
        jobs_.label(Jobs::kNorm, 0, 0, rank));
    last[rank] = programs_.last(rank);
  }
  for (const Communicators* communicators : {&tp_, &std::as_const(norm_)})
    for (const auto& communicator : communicators->all()) {
      if (communicator->members() == 1) continue;
      const std::vector<JobRef>& jobs =
          programs_.start(*communicator, collective::Operation::all_reduce, kNormBytes,
                          jobs_.label(Jobs::kNormReduce, 0, communicators == &norm_, communicator->rank(0).number));
      for (std::size_t m = 0; m < jobs.size(); ++m) last[communicator->rank(m).number] = jobs[m];
    }
  return last;
}

void GradientSync::end_step() {
  reduce_parts();
  std::vector<JobRef> own;
  if (spec_.grad_norm != GradientNorm::none) own = find_norm();
  std::vector<JobRef> norms(mesh_.size());  // of the stages before, by rank
  for (const Communicators& pass : norm_pass_)
    for (const auto& pair : pass.all()) {
      const std::uint32_t from = pair->rank(0).number, to = pair->rank(1).number;
      const execution::Exchange exchange{0, 1, jobs_.step(), kNormBytes};
      programs_.send(*pair, exchange, jobs_.label(Jobs::kNormPass, 0, 0, from), {own[from], norms[from]});
      norms[to] = programs_.receive(*pair, exchange, jobs_.label(Jobs::kNormPass, 0, 1, to), {own[to]});
    }
  for (std::uint32_t rank = 0; rank < mesh_.size(); ++rank) {
    if (offload_ != nullptr && spec_.zero_stage >= 2)
      for (std::uint32_t b = 0; b < buckets_[pipeline_rank(rank)].size(); ++b) {
        const JobRef reduced = reduced_[rank][b];
        offload_->send_gradients(rank, b, owned(rank, buckets_[pipeline_rank(rank)][b]),
                                 reduced.job != nullptr ? reduced : programs_.last(rank));
      }
    std::vector<JobRef>& waits = programs_.waits(rank);
    waits = reduced_[rank];
    if (!norm_pass_.empty()) waits.push_back(norms[rank]);
    if (spec_.grad_norm == GradientNorm::before) {
      waits.push_back(programs_.last(rank));
      programs_.wait_on_host(rank, waits, jobs_.label(Jobs::kHostWait, 0, 0, rank));
    }
    optimize(rank);
  }
  narrow_shards();
  if (spec_.software.param_gather_overlap) return;
  gather_weights();
  for (std::uint32_t rank = 0; rank < mesh_.size(); ++rank) programs_.wait_for(rank, gathered_[rank]);
}

}  // namespace railyard::workload::training
