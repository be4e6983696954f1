#include "workload/prefill/grid.h"

#include <fmt/format.h>

#include "transformer/memory.h"
#include "workload/traffic.h"

namespace railyard::workload::prefill {

namespace {

collective::Request tp_request() {
  collective::Request request;
  request.library = collective::Library::vllm;
  request.in_graph = true;
  request.traffic_class = number(TrafficClass::tp);
  return request;
}

}  // namespace

Grid::Grid(const std::string& name, const transformer::ModelShape& model, const Mapping& mapping, const Host& host,
           const std::vector<gpu::Gpu*>& gpus, Executor& executor)
    : model_(model),
      mapping_(mapping),
      stages_(transformer::stages_of(mapping.stage_layers)),
      kernels_(gpus.front()->datasheet()),
      timer_(model, mapping.tp, kernels_, mapping.profile) {
  held_kv_.resize(pp());
  const bool launches = host.step(1) != Time() || host.prefill_layer() != Time();
  std::uint32_t layer = 0;
  for (std::uint32_t p = 0; p < pp(); ++p) {
    first_layer_.push_back(layer);
    layer += stages_[p].layers;
    kv_bytes_per_token_.push_back(transformer::kv_bytes_per_token(model_, stages_[p], tp()));
    std::vector<Rank*> members;
    for (std::uint32_t t = 0; t < tp(); ++t) {
      const std::uint32_t r = p * tp() + t;
      Rank& rank = executor.add_rank(name, r, fmt::format("[{}][{}]", p, t), *gpus[r]);
      for (const char* stream : {"compute", "pp", "kv"}) rank.add_stream(stream);
      if (t == 0 && launches) rank.add_stream("host");
      ranks_.push_back(&rank);
      members.push_back(&rank);
    }
    tp_communicators_.push_back(
        std::make_unique<Communicator>(std::move(members), kCompute, tp_request(), executor.fabric()));
  }
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
    const transformer::Stage& s = stages_[r / tp()];
    ranks_[r]->gpu->hbm().allocate(rank_weight_bytes(model_, s, tp()) +
                                   activation_bytes(model_, s, tp(), pass_tokens, logit_rows));
  }
}

}  // namespace railyard::workload::prefill
