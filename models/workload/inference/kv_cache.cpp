#include "workload/inference/kv_cache.h"

namespace railyard::workload::inference {

KvCache::KvCache(const transformer::ModelShape& model, const std::vector<transformer::Stage>& stages, std::uint32_t tp,
                 const std::vector<Rank*>& ranks)
    : model_(model), stages_(stages), tp_(tp), ranks_(ranks), held_(stages.size()) {
  for (const transformer::Stage& stage : stages)
    bytes_per_token_.push_back(transformer::kv_bytes_per_token(model, stage, tp));
}

KvCache::HeadRange KvCache::heads(std::uint32_t t) const {
  const std::uint32_t g = model_.kv_heads;
  if (tp_ > g) {
    const std::uint32_t head = t * g / tp_;
    return {head, head + 1};
  }
  return {t * g / tp_, static_cast<std::uint32_t>(ceil_div((t + 1) * g, tp_))};
}

void KvCache::set_limit(double limit_ratio, std::uint64_t new_tokens) {
  limit_ratio_ = limit_ratio;
  new_tokens_ = new_tokens;
}

bool KvCache::hold(std::uint64_t tokens) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const gpu::Hbm& hbm = ranks_[r]->gpu->hbm();
    const double limit = static_cast<double>(hbm.capacity()) * limit_ratio_;
    if (static_cast<double>(hbm.used() + sequence(r / tp_, tokens)) > limit) return false;
  }
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) ranks_[r]->gpu->hbm().allocate(sequence(r / tp_, tokens));
  for (std::uint32_t p = 0; p < held_.size(); ++p) held_[p] += sequence(p, tokens);
  return true;
}

void KvCache::free(std::uint64_t tokens) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) ranks_[r]->gpu->hbm().free(sequence(r / tp_, tokens));
  for (std::uint32_t p = 0; p < held_.size(); ++p) held_[p] -= sequence(p, tokens);
}

}  // namespace railyard::workload::inference
