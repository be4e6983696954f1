#include "transformer/context_steps.h"

#include "transformer/parameters.h"

namespace railyard::transformer {

namespace {

using collective::Operation;

constexpr LayerPart kAttention = LayerPart::attention;

/// One sequence of the pass for each two parts.
LayerPass whole(const LayerPass& pass, const gpu::AttentionSequence& sequence) {
  LayerPass changed = pass;
  changed.prefills.assign(pass.prefills.size() / 2, sequence);
  return changed;
}

/// p2p: the rank's own queries and keys.
LayerPass own_keys(const LayerPass& pass) { return whole(pass, {2 * pass.prefills.front().tokens, 0}); }

/// p2p: half of the queries and all keys of another rank, none of them masked.
LayerPass other_keys(const LayerPass& pass) {
  const std::uint64_t half = pass.prefills.front().tokens;
  LayerPass changed = whole(pass, {half, half});
  changed.causal = false;
  return changed;
}

/// a2a: all tokens, some of the heads.
LayerPass all_tokens(const LayerPass& pass, std::uint32_t cp) {
  LayerPass changed = whole(pass, {2 * pass.prefills.front().tokens * cp, 0});
  changed.head_ranks = cp;
  return changed;
}

Bytes query_bytes(const ModelShape& model, const StepList& steps) {
  return stored_bytes(steps.tokens() * (model.heads / steps.split().tp) * model.head_dim, model.dtype);
}

}  // namespace

std::vector<gpu::AttentionSequence> context_part(std::uint64_t sequence_tokens, std::uint32_t cp, std::uint32_t place) {
  if (cp == 1) return {{sequence_tokens, 0}};
  const std::uint64_t part = sequence_tokens / (2 * cp);
  return {{part, place * part}, {part, (2 * cp - 1 - place) * part}};
}

Bytes context_bytes(const ModelShape& model, std::uint64_t tokens, std::uint32_t tp) {
  return stored_bytes(2 * tokens * rank_kv_heads(model, tp) * model.head_dim, model.dtype);
}

void add_context_core(StepList& steps, LayerTimer* timer, const ModelShape& model, const LayerPass& pass) {
  const std::uint32_t cp = steps.split().cp;
  const Bytes block = context_bytes(model, steps.tokens(), steps.split().tp);
  switch (steps.split().exchange) {
    case ContextExchange::all_gather:
      steps.add(kAttention, RankGroup::cp, Operation::all_gather, cp * block);
      if (timer != nullptr) steps.add(kAttention, timer->attention_core(pass));
      break;
    case ContextExchange::p2p:
      for (std::uint32_t i = 0; i < cp; ++i) {
        if (i + 1 < cp) steps.add(kAttention, RankGroup::cp, Operation::send_recv, block, timer != nullptr);
        if (timer == nullptr) continue;
        Segment kernels = timer->attention_core(i == 0 ? own_keys(pass) : other_keys(pass));
        if (i > 0) kernels.append(timer->merge_attention(other_keys(pass)));
        steps.add(kAttention, kernels);
      }
      break;
    case ContextExchange::a2a:
      steps.add(kAttention, RankGroup::cp, Operation::all_to_all, query_bytes(model, steps) + block);
      if (timer != nullptr) steps.add(kAttention, timer->attention_core(all_tokens(pass, cp)));
      steps.add(kAttention, RankGroup::cp, Operation::all_to_all, query_bytes(model, steps));
      break;
  }
}

void add_context_core_backward(StepList& steps, LayerTimer& timer, const ModelShape& model, const LayerPass& pass) {
  const std::uint32_t cp = steps.split().cp;
  const Bytes block = context_bytes(model, steps.tokens(), steps.split().tp);
  switch (steps.split().exchange) {
    case ContextExchange::all_gather:
      steps.add(kAttention, RankGroup::cp, Operation::all_gather, cp * block);
      steps.add(kAttention, timer.attention_core_backward(pass));
      steps.add(kAttention, RankGroup::cp, Operation::reduce_scatter, cp * block);
      break;
    case ContextExchange::p2p:
      // Keys and values arrive before the kernel that needs them, gradients leave after the kernel that adds to them.
      for (std::uint32_t i = 0; i < cp; ++i) {
        const bool is_end = i == 0 || i + 1 == cp;
        steps.add(kAttention, RankGroup::cp, Operation::send_recv, is_end ? block : 2 * block, true);
        Segment kernels = timer.attention_core_backward(i == 0 ? own_keys(pass) : other_keys(pass));
        if (i > 0) kernels.append(timer.merge_attention_backward(other_keys(pass)));
        steps.add(kAttention, kernels);
      }
      break;
    case ContextExchange::a2a:
      steps.add(kAttention, RankGroup::cp, Operation::all_to_all, query_bytes(model, steps));
      steps.add(kAttention, timer.attention_core_backward(all_tokens(pass, cp)));
      steps.add(kAttention, RankGroup::cp, Operation::all_to_all, query_bytes(model, steps) + block);
      break;
  }
}

}  // namespace railyard::transformer
