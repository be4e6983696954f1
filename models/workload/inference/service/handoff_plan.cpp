#include "workload/inference/service/handoff_plan.h"

#include <algorithm>

namespace railyard::workload::inference {

HandoffPlan::HandoffPlan(const Grid& prefill, const Grid& decode)
    : model_(prefill.model()), shares_(prefill.replica_ranks()) {
  head_bytes_ = transformer::kv_head_bytes(model_);

  // heads_from[t][u]: KV heads that decode TP rank u takes from prefill TP rank t.
  std::vector<std::vector<std::uint32_t>> heads_from(prefill.tp(), std::vector<std::uint32_t>(decode.tp(), 0));
  for (std::uint32_t u = 0; u < decode.tp(); ++u) {
    for (std::uint32_t head = decode.kv().heads(u).first; head < decode.kv().heads(u).last; ++head) {
      std::vector<std::uint32_t> holders;
      for (std::uint32_t t = 0; t < prefill.tp(); ++t)
        if (prefill.kv().heads(t).first <= head && head < prefill.kv().heads(t).last) holders.push_back(t);
      ++heads_from[holders[u % holders.size()]][u];
    }
  }
  for (std::uint32_t p = 0; p < prefill.pp(); ++p) {
    const std::uint32_t first = prefill.first_layer(p), last = first + prefill.stage(p).layers;
    for (std::uint32_t q = 0; q < decode.pp(); ++q) {
      const std::uint32_t from = std::max(first, decode.first_layer(q));
      const std::uint32_t to = std::min(last, decode.first_layer(q) + decode.stage(q).layers);
      if (from >= to) continue;
      for (std::uint32_t t = 0; t < prefill.tp(); ++t)
        for (std::uint32_t u = 0; u < decode.tp(); ++u)
          if (heads_from[t][u] != 0)
            shares_[p * prefill.tp() + t].push_back({q * decode.tp() + u, heads_from[t][u], from, to});
    }
  }
}

Bytes HandoffPlan::bytes(const Share& share, std::uint32_t first, std::uint32_t last, const Tokens& tokens) const {
  const auto seen = [&](std::uint32_t layer) {
    const std::uint64_t begin =
        std::max(tokens.begin, tokens.prompt - kept_tokens(model_.layer(layer), tokens.prompt, 0));
    return begin < tokens.end ? tokens.end - begin : 0;
  };
  first = std::max(first, share.first_layer), last = std::min(last, share.last_layer);
  if (first >= last) return 0;
  std::uint64_t sum = 0;
  if (model_.kind_of.empty())
    sum = (last - first) * seen(first);
  else
    for (std::uint32_t l = first; l < last; ++l) sum += seen(l);
  return sum * share.heads * head_bytes_;
}

}  // namespace railyard::workload::inference
