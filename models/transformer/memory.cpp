#include "transformer/memory.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace railyard::transformer {
namespace {

constexpr std::uint64_t kHiddenBuffers = 4;
constexpr std::uint64_t kLogitBytes = 4;
constexpr DataType kNarrowestActivation = DataType::bf16;  // activations have 16 bits, even in narrower models

Bytes kv_of(const ModelShape& model, const Stage& stage, std::uint32_t tp, const MemoryLoad& load,
            std::uint64_t tokens) {
  const std::uint64_t each = tokens / load.sequences, longer = tokens % load.sequences;
  return (load.sequences - longer) * kv_bytes(model, stage, tp, each, load.new_tokens) +
         longer * kv_bytes(model, stage, tp, each + 1, load.new_tokens);
}

struct Largest {
  std::uint32_t stage = 0;
  RankMemory need;
};

Largest largest_stage(const ModelShape& model, const std::vector<Stage>& stages, std::uint32_t tp,
                      const MemoryLoad& load) {
  Largest largest;
  for (std::uint32_t p = 0; p < stages.size(); ++p) {
    const RankMemory need = rank_memory(model, stages[p], tp, load);
    if (p == 0 || need.total() > largest.need.total()) largest = {p, need};
  }
  return largest;
}

constexpr std::uint64_t kMostTokens = 1ull << 48;

/// Most KV tokens that every stage can hold in addition to its weights and activations.
std::uint64_t most_kv_tokens(const ModelShape& model, const std::vector<Stage>& stages, std::uint32_t tp,
                             const MemoryLoad& load, Bytes limit) {
  const auto fits = [&](std::uint64_t tokens) {
    return std::all_of(stages.begin(), stages.end(), [&](const Stage& stage) {
      const RankMemory need = rank_memory(model, stage, tp, load);
      const Bytes fixed = need.weights + need.activations;
      return fixed <= limit && kv_of(model, stage, tp, load, tokens) <= limit - fixed;
    });
  };
  std::uint64_t most = 0, too_many = 1;
  for (; fits(too_many); too_many *= 2)
    if (too_many >= kMostTokens) return kMostTokens;
  while (too_many - most > 1) {
    const std::uint64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  return most;
}

void find_mapping(const ModelShape& model, std::uint32_t asked_tp, const MemoryLoad& load, MemoryCheck& check) {
  std::vector<std::uint32_t> widths;
  for (std::uint32_t tp = 1; tp <= model.heads; ++tp)
    if (model.heads % tp == 0) widths.push_back(tp);
  const auto distance = [&](std::uint32_t tp) {
    return std::max(tp, asked_tp) / static_cast<double>(std::min(tp, asked_tp));
  };
  std::stable_sort(widths.begin(), widths.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return distance(a) < distance(b); });

  std::uint64_t fewest = ~0ull;
  for (const std::uint32_t tp : widths) {
    for (std::uint32_t pp = 1; pp <= model.layers && std::uint64_t(tp) * pp < fewest; ++pp) {
      const Largest need = largest_stage(model, stages_of(even_stage_layers(model.layers, pp)), tp, load);
      if (need.need.total() > check.limit) continue;
      fewest = std::uint64_t(tp) * pp;
      check.fitting_tp = tp;
      check.fitting_pp = pp;
      break;
    }
  }
}

std::string gigabytes(double bytes) {
  constexpr double kBytesPerGb = 1e9;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB", bytes / kBytesPerGb);
  return text;
}

std::string gigabytes(Bytes bytes) { return gigabytes(static_cast<double>(bytes)); }

std::string describe(const MemoryCheck& check, double capacity_bytes, double limit_ratio) {
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%g", limit_ratio);
  const RankMemory& need = check.need;
  std::string text = "a rank of stage " + std::to_string(check.stage) + " needs " + gigabytes(need.total()) +
                     " (weights " + gigabytes(need.weights) + ", KV cache " + gigabytes(need.kv) + ", activations " +
                     gigabytes(need.activations) + ") of " + gigabytes(check.limit) + " (" + ratio + " x " +
                     gigabytes(capacity_bytes) + ")";
  if (check.fits) return text;
  text += ", " + gigabytes(check.exceeds_by) + " too much; ";
  text += check.most_kv_tokens > 0 ? "at most " + std::to_string(check.most_kv_tokens) + " tokens of KV cache fit"
                                   : std::string("no room is left for KV cache");
  if (check.fitting_tp == 0) return text + ", and no tp and pp of this model fits";
  return text + ", or use " + std::to_string(check.fitting_tp * check.fitting_pp) + " GPUs (tp " +
         std::to_string(check.fitting_tp) + ", pp " + std::to_string(check.fitting_pp) + ")";
}

/// Numbers of a token between the projections of attention.
std::uint64_t attention_numbers(const ModelShape& model, std::uint32_t tp) {
  if (!model.latent) return ceil_div((2ull * model.heads + 2ull * model.kv_heads) * model.head_dim, tp);
  const LatentAttention& latent = *model.latent;
  const std::uint64_t of_head = 2ull * latent.query_dim() + 2ull * latent.value_dim;  // query, key, value, output
  return latent.query_rank + latent.cached() + ceil_div(model.heads * of_head, tp);
}

}  // namespace

Bytes activation_bytes(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint64_t tokens,
                       std::uint64_t logit_rows) {
  const std::uint64_t attention = attention_numbers(model, tp);
  const auto mlp = [&](std::uint64_t width) { return ceil_div((model.gated_mlp ? 3ull : 2ull) * width, tp); };
  std::uint64_t widest = mlp(model.ffn);
  if (model.experts > 0)
    widest = std::max<std::uint64_t>(model.experts_per_token * (widest + 2ull * model.hidden) + mlp(model.shared_ffn),
                                     mlp(model.dense_ffn));
  const std::uint64_t elements = tokens * (kHiddenBuffers * model.hidden + std::max(attention, widest));
  Bytes bytes = std::max(stored_bytes(elements, model.dtype), stored_bytes(elements, kNarrowestActivation));
  if (stage.last) bytes += logit_rows * ceil_div(model.vocab, tp) * kLogitBytes;
  return bytes;
}

RankMemory rank_memory(const ModelShape& model, const Stage& stage, std::uint32_t tp, const MemoryLoad& load) {
  return {rank_weight_bytes(model, stage, tp), kv_of(model, stage, tp, load, load.kv_tokens),
          activation_bytes(model, stage, tp, load.pass_tokens, load.logit_rows)};
}

MemoryCheck check_memory(const ModelShape& model, const std::vector<std::uint32_t>& stage_layers, std::uint32_t tp,
                         const MemoryLoad& load, double capacity_bytes, double limit_ratio) {
  const std::vector<Stage> stages = stages_of(stage_layers);
  const Largest largest = largest_stage(model, stages, tp, load);
  MemoryCheck check;
  check.limit = static_cast<Bytes>(capacity_bytes * limit_ratio);
  check.stage = largest.stage;
  check.need = largest.need;
  check.fits = largest.need.total() <= check.limit;
  check.exceeds_by = check.fits ? 0 : largest.need.total() - check.limit;
  check.most_kv_tokens = most_kv_tokens(model, stages, tp, load, check.limit);
  if (!check.fits) find_mapping(model, tp, load, check);
  check.sentence = describe(check, capacity_bytes, limit_ratio);
  return check;
}

}  // namespace railyard::transformer
