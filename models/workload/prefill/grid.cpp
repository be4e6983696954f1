#include "workload/prefill/grid.h"

#include "workload/transformer/memory.h"

namespace railyard::workload::prefill {

Grid::Grid(const ModelShape& model, const Mapping& mapping, const std::vector<gpu::Gpu*>& gpus)
    : model_(model),
      mapping_(mapping),
      stages_(stages_of(mapping.stage_layers)),
      kernels_(gpus.front()->datasheet()),
      timer_(model, mapping.tp, kernels_, mapping.profile) {
  tp_sites_.resize(pp());
  held_kv_.resize(pp());
  std::uint32_t layer = 0;
  for (std::uint32_t p = 0; p < pp(); ++p) {
    first_layer_.push_back(layer);
    layer += stages_[p].layers;
    kv_bytes_per_token_.push_back(workload::kv_bytes_per_token(model_, stages_[p], tp()));
    tp_devices_.emplace_back();
    for (std::uint32_t t = 0; t < tp(); ++t) {
      ranks_.push_back(std::make_unique<RankDevice>());
      ranks_.back()->gpu = gpus[p * tp() + t];
      tp_devices_[p].push_back(ranks_.back().get());
    }
    tp_groups_.push_back(collective::group_of({gpus.begin() + p * tp(), gpus.begin() + (p + 1) * tp()}));
  }
}

std::vector<gpu::Gpu*> Grid::tp_gpus(std::uint32_t stage) const {
  std::vector<gpu::Gpu*> gpus;
  for (const RankDevice* device : tp_devices_[stage]) gpus.push_back(device->gpu);
  return gpus;
}

void Grid::add_multicast_groups(transport::Fabric& fabric) {
  for (std::uint32_t p = 0; p < pp(); ++p) collective::add_multicast_groups(tp_groups_[p], tp_gpus(p), fabric);
}

const collective::Site& Grid::tp_site(std::uint32_t stage, const transport::Fabric& fabric) {
  if (!tp_sites_[stage]) tp_sites_[stage] = collective::site_of(tp_gpus(stage), tp_groups_[stage], fabric);
  return *tp_sites_[stage];
}

Grid::HeadRange Grid::heads(std::uint32_t t) const {
  const std::uint32_t g = model_.kv_heads;
  if (tp() > g) {
    const std::uint32_t head = t * g / tp();
    return {head, head + 1};
  }
  return {t * g / tp(), static_cast<std::uint32_t>(ceil_div((t + 1) * g, tp()))};
}

bool Grid::hold_kv(std::uint64_t tokens) {
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    const gpu::Hbm& hbm = ranks_[r]->gpu->hbm();
    const double limit = static_cast<double>(hbm.capacity()) * limit_ratio_;
    if (static_cast<double>(hbm.used() + sequence_kv(r / tp(), tokens)) > limit) return false;
  }
  for (std::uint32_t r = 0; r < ranks(); ++r) ranks_[r]->gpu->hbm().allocate(sequence_kv(r / tp(), tokens));
  for (std::uint32_t p = 0; p < pp(); ++p) held_kv_[p] += sequence_kv(p, tokens);
  return true;
}

void Grid::free_kv(std::uint64_t tokens) {
  for (std::uint32_t r = 0; r < ranks(); ++r) ranks_[r]->gpu->hbm().free(sequence_kv(r / tp(), tokens));
  for (std::uint32_t p = 0; p < pp(); ++p) held_kv_[p] -= sequence_kv(p, tokens);
}

void Grid::load(double limit_ratio, std::uint64_t pass_tokens, std::uint64_t logit_rows, std::uint64_t new_tokens) {
  limit_ratio_ = limit_ratio;
  new_tokens_ = new_tokens;
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    const Stage& s = stages_[r / tp()];
    ranks_[r]->gpu->hbm().allocate(rank_weight_bytes(model_, s, tp()) +
                                   activation_bytes(model_, s, tp(), pass_tokens, logit_rows));
  }
}

}  // namespace railyard::workload::prefill
