// In which pieces a KvExchange moves KV: descriptors, and buffers; and when pushed ones may be sent.
#include <algorithm>

#include "workload/inference/service/kv_exchange.h"

namespace railyard::workload::inference {

std::uint64_t KvExchange::blocks(const Part& part, bool merges) const {
  const std::uint64_t of_block = part.from->spec().scheduler.block_tokens;
  const std::uint64_t first = part.tokens.begin / of_block, last = ceil_div(part.tokens.end, of_block);
  if (!merges || of_block != part.to->spec().scheduler.block_tokens) return last - first;
  const auto from = part.from->scheduler().blocks(part.request), to = part.to->scheduler().blocks(part.request);
  if (from.size() < last || to.size() < last) return last - first;
  std::uint64_t runs = 1;
  for (std::uint64_t i = first + 1; i < last; ++i) runs += from[i] != from[i - 1] + 1 || to[i] != to[i - 1] + 1;
  return runs;
}

std::uint64_t KvExchange::descriptors(const Part& part, std::uint32_t from_rank, const HandoffPlan::Share& share,
                                      std::uint32_t first_layer, std::uint32_t last_layer) const {
  const Grid &from = part.from->grid(), &to = part.to->grid();
  if (is_staged(part, from_rank, share)) return 1;
  const bool is_whole = this->is_whole(from, to, from_rank, share);
  const bool by_token = !is_whole && connector_.scatters_heads;
  const std::uint64_t pieces =
      by_token ? part.tokens.end - part.tokens.begin : blocks(part, is_whole && connector_.merges_adjacent);
  return pieces * regions(from, share, first_layer, last_layer, is_whole);
}

std::uint64_t KvExchange::regions(const Grid& from, const HandoffPlan::Share& share, std::uint32_t first_layer,
                                  std::uint32_t last_layer, bool is_whole) const {
  if (connector_.cross_layer_blocks && is_whole) return 1;
  const std::uint32_t layers = std::min(last_layer, share.last_layer) - std::max(first_layer, share.first_layer);
  return layers * (from.model().latent ? 1ull : 2ull);  // keys and values
}

bool KvExchange::is_staged(const Part& part, std::uint32_t from_rank, const HandoffPlan::Share& share) const {
  return connector_.staging == KvStaging::all || (connector_.staging == KvStaging::resharded &&
                                                  !is_whole(part.from->grid(), part.to->grid(), from_rank, share));
}

std::vector<HandoffPlan::Share> KvExchange::staged(const Part& part, std::uint32_t from_rank, std::uint32_t first_layer,
                                                   std::uint32_t last_layer) {
  std::vector<HandoffPlan::Share> all;
  if (connector_.staging == KvStaging::none) return all;
  const HandoffPlan& plan = this->plan(*part.from, *part.to);
  for (const HandoffPlan::Share& share : plan.shares(from_rank))
    if (is_staged(part, from_rank, share) && plan.bytes(share, first_layer, last_layer, part.tokens) > 0)
      all.push_back(share);
  return all;
}

std::vector<HandoffPlan::Share> KvExchange::staged_of(const Fields& fields) {
  const Part& of = part(fields.part);
  return fields.per_layer ? staged(of, fields.rank, fields.layer, fields.layer + 1)
                          : staged(of, fields.rank, 0, of.from->grid().model().layers);
}

Time KvExchange::next_sent(const Instance& from, const Instance& to) {
  if (grain_ == HandoffGrain::fetched || is_per_layer()) return client_.next_transfer(from, to);
  const Time now = executor_.fabric().now();
  if (contacts_ && contacts_->is_meeting(from)) return now;
  // Copies, posts and kernels that have begun; others wait behind them.
  const auto is_busy = [](const gpu::Stream& stream) { return !stream.empty() && stream.front()->begun(); };
  for (std::uint32_t r = 0; r < from.grid().ranks(); ++r)
    if (is_busy(from.grid().rank(r).stream(Grid::kKv))) return now;
  if (!staging_streams_.empty())
    for (const gpu::Stream* stream : staging_streams_[from.id()])
      if (is_busy(*stream)) return now;
  return client_.next_kv(from);
}

}  // namespace railyard::workload::inference
