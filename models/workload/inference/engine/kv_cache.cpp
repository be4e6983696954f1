#include "workload/inference/engine/kv_cache.h"

#include <algorithm>
#include <limits>

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
  new_tokens_ = new_tokens;
  room_.assign(stages_.size(), std::numeric_limits<Bytes>::max());
  Bytes tokens = std::numeric_limits<std::uint32_t>::max() - 1;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    const gpu::Hbm& hbm = ranks_[r]->gpu->hbm();
    const auto limit = static_cast<Bytes>(static_cast<double>(hbm.capacity()) * limit_ratio);
    const std::uint32_t p = r / tp_;
    room_[p] = std::min(room_[p], limit - std::min(limit, hbm.used()));
    tokens = std::min(tokens, room_[p] / bytes_per_token_[p]);
  }
  blocks_ = static_cast<std::uint32_t>(tokens);
}

std::uint32_t KvCache::blocks(std::uint64_t tokens) const {
  std::uint32_t most = 0;
  for (std::uint32_t p = 0; p < room_.size(); ++p) {
    const unsigned __int128 share = static_cast<unsigned __int128>(sequence(p, tokens)) * blocks_;
    most = std::max(most, static_cast<std::uint32_t>((share + room_[p] - 1) / room_[p]));
  }
  return most;
}

void KvCache::on_held(std::uint64_t tokens) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) ranks_[r]->gpu->hbm().allocate(sequence(r / tp_, tokens));
  for (std::uint32_t p = 0; p < held_.size(); ++p) held_[p] += sequence(p, tokens);
}

void KvCache::on_freed(std::uint64_t tokens) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) ranks_[r]->gpu->hbm().free(sequence(r / tp_, tokens));
  for (std::uint32_t p = 0; p < held_.size(); ++p) held_[p] -= sequence(p, tokens);
}

}  // namespace railyard::workload::inference
