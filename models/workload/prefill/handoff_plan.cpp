#include "workload/prefill/handoff_plan.h"

#include <algorithm>

namespace railyard::workload::prefill {

HandoffPlan::HandoffPlan(const Grid& prefill, const Grid& decode) : shares_(prefill.ranks()) {
  const ModelShape& model = prefill.model();
  head_bytes_ = stored_bytes(2ull * model.head_dim, model.kv_dtype);

  // heads_from[t][u]: KV heads that decode TP rank u takes from prefill TP rank t.
  std::vector<std::vector<std::uint32_t>> heads_from(prefill.tp(), std::vector<std::uint32_t>(decode.tp(), 0));
  for (std::uint32_t u = 0; u < decode.tp(); ++u) {
    for (std::uint32_t head = decode.heads(u).first; head < decode.heads(u).last; ++head) {
      std::vector<std::uint32_t> holders;
      for (std::uint32_t t = 0; t < prefill.tp(); ++t)
        if (prefill.heads(t).first <= head && head < prefill.heads(t).last) holders.push_back(t);
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

}  // namespace railyard::workload::prefill
