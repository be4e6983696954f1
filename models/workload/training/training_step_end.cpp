// The end of a training step (training_step.h): gradients are reduced over data-parallel ranks, the optimizer runs, and
// weights are gathered.
#include "workload/training/training_step.h"

namespace railyard::workload::training {

namespace {

/// Fused Adam in bf16 with 32-bit state, of each parameter: reads gradient, master weight and two moments, writes the
/// last three and the weight (4 + 4 + 8, 4 + 8 + 2 bytes).
constexpr double kAdamBytes = 30;

}  // namespace

void TrainingStep::reduce(std::uint32_t p, std::uint32_t b, const LayerEnds& ends) {
  const GradientBucket& bucket = buckets_[p][b];
  for (const auto& communicator : reducing(bucket).all()) {
    const std::uint32_t first = communicator->rank(0).number;
    if (place(first, Dimension::pp) != p || communicator->size() == 1) continue;
    std::vector<JobRef> after;
    for (const Rank* rank : communicator->ranks()) {
      const auto end = bucket.layers.empty() ? ends.end() : ends.find({rank->number, bucket.layers.back()});
      after.push_back(end != ends.end() ? end->second : ranks_[rank->number].last);
    }
    const Bytes bytes = bucket.parameters * static_cast<Bytes>(bytes_of(spec_.gradients));
    const collective::Operation operation =
        spec_.zero_stage == 0 ? collective::Operation::all_reduce : collective::Operation::reduce_scatter;
    executor_.collective(*communicator, communicator->choose(operation, bytes), label(kGradients, 0, b, first), *this,
                         jobs_, after);
    live_ += static_cast<std::int64_t>(jobs_.size());
    for (std::size_t m = 0; m < jobs_.size(); ++m) reduced_[communicator->rank(m).number][b] = jobs_[m];
  }
}

void TrainingStep::gather_bucket(std::uint32_t p, std::uint32_t b) {
  const GradientBucket& bucket = buckets_[p][b];
  for (const auto& communicator : gathering(bucket).all()) {
    const std::uint32_t first = communicator->rank(0).number;
    if (place(first, Dimension::pp) != p || communicator->size() == 1) continue;
    std::vector<JobRef> after;
    for (const Rank* rank : communicator->ranks()) after.push_back(ranks_[rank->number].last);
    const Bytes bytes = bucket.parameters * static_cast<Bytes>(bytes_of(model_.dtype));
    executor_.collective(*communicator, communicator->choose(collective::Operation::all_gather, bytes),
                         label(kGather, 0, b, first), *this, jobs_, after);
    live_ += static_cast<std::int64_t>(jobs_.size());
    for (std::size_t m = 0; m < jobs_.size(); ++m) {
      std::vector<JobRef>& gathered = gathered_[communicator->rank(m).number];
      gathered.resize(buckets_[p].size());
      gathered[b] = jobs_[m];
    }
  }
}

void TrainingStep::emit_flush() {
  // Parameters whose optimizer state a rank holds.
  const auto owned = [&](std::uint32_t rank) {
    std::uint64_t common = 0, experts = 0;
    for (const GradientBucket& bucket : buckets_[place(rank, Dimension::pp)])
      (bucket.experts ? experts : common) += bucket.parameters;
    return spec_.zero_stage == 0
               ? common + experts
               : ceil_div(common, dp_.of(rank).size()) + ceil_div(experts, expert_dp_.of(rank).size());
  };
  const auto run = [&](What what, std::uint32_t rank, double bytes, const std::vector<JobRef>& after) {
    Rank& r = mesh_.rank(rank);
    ranks_[rank].last = executor_.kernel(r, r.stream(kCompute), gpu::chain_of(kernels_.memory_bound(bytes)),
                                         label(what, 0, 0, rank), *this, after);
    ++live_;
  };
  for (std::uint32_t rank = 0; rank < mesh_.size(); ++rank)
    if (spec_.grad_norm != GradientNorm::none)
      run(kNorm, rank, static_cast<double>(owned(rank)) * bytes_of(spec_.gradients), reduced_[rank]);
  for (const Communicators* communicators : {&tp_, &norm_}) {
    for (const auto& communicator : communicators->all()) {
      if (spec_.grad_norm == GradientNorm::none || communicator->size() == 1) continue;
      executor_.collective(*communicator, communicator->choose(collective::Operation::all_reduce, kNormBytes),
                           label(kNormReduce, 0, communicators == &norm_, communicator->rank(0).number), *this, jobs_);
      live_ += static_cast<std::int64_t>(jobs_.size());
    }
  }
  for (std::uint32_t rank = 0; rank < mesh_.size(); ++rank) {
    std::vector<JobRef> after = reduced_[rank];
    if (spec_.grad_norm != GradientNorm::none) {
      after.push_back(ranks_[rank].last);
      wait_on_host(rank, after, 0);
    }
    run(kOptimizer, rank, kAdamBytes * static_cast<double>(owned(rank)), after);
  }

  if (spec_.zero_stage == 1 || spec_.zero_stage == 2)
    for (std::uint32_t p = 0; p < spec_.pp(); ++p)
      for (auto b = static_cast<std::uint32_t>(buckets_[p].size()); b-- > 0;) gather_bucket(p, b);  // in forward order
  ++steps_emitted_;
  if (steps_emitted_ < spec_.steps) begin_step();
}

}  // namespace railyard::workload::training
