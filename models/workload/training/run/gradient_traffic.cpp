// GradientSync: what replicas and stages send, and whose jobs tell when they begin.
#include <algorithm>

#include "workload/training/run/gradient_sync.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

void GradientSync::announce(bool replicas) {
  for (const auto& communicator : tied_.all()) programs_.announce(*communicator);
  for (const Communicators* all : {&dp_, &expert_dp_, &same_shard_, &weights_, &expert_weights_, &norm_})
    for (const auto& communicator : all->all())
      if (replicas) programs_.announce(*communicator);
  for (const Communicators& pass : norm_pass_)
    for (const auto& communicator : pass.all()) programs_.announce(*communicator, true);
}

const Communicator* GradientSync::communicator_of(const Job& job) const {
  const Jobs::Fields f = Jobs::fields_of(job);
  const std::uint32_t rank = job.rank().number, p = pipeline_rank(rank);
  switch (f.what) {
    case Jobs::kGradients: return &reducing(buckets_[p][f.detail]).of(rank);
    case Jobs::kShardGradients: return &same_shard_.of(rank);
    case Jobs::kGather: return &gathering(buckets_[p][f.detail]).of(rank);
    case Jobs::kNormReduce: return f.detail == 0 ? nullptr : &norm_.of(rank);
    case Jobs::kTiedGradients: return &tied_.of(rank);
    case Jobs::kNormPass: return &norm_pass_[p - f.detail].of(rank);
    default: return nullptr;
  }
}

std::vector<GroupTraffic> GradientSync::traffic() const {
  std::vector<GroupTraffic> all;
  const double bytes = (bytes_of(spec_.gradients) + bytes_of(model_.dtype)) * spec_.steps;
  for (const Communicators* communicators : {&dp_, &expert_dp_, &whole_dp_}) {
    double most = 0;
    for (const std::vector<GradientBucket>& buckets : buckets_) {
      double parameters = 0;
      for (const GradientBucket& bucket : buckets)
        if (&reducing(bucket) == communicators) parameters += static_cast<double>(bucket.parameters);
      most = std::max(most, parameters);
    }
    if (most == 0) continue;
    all.push_back({communicators, most * bytes});
    if (!same_shard_.all().empty())
      all.push_back({&same_shard_, 2 * most * bytes_of(spec_.gradients) * spec_.steps / spec_.state_shards()});
  }
  all.push_back({&norm_, static_cast<double>(kNormBytes)});
  if (!maxima_.all().empty()) all.push_back({&maxima_, static_cast<double>(kNormBytes)});
  return all;
}

}  // namespace railyard::workload::training
