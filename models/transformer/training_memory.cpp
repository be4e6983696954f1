#include "transformer/training_memory.h"

#include "transformer/parameters.h"

namespace railyard::transformer {
namespace {

constexpr Bytes kMaskBytes = 1, kFp32Bytes = 4;
constexpr DataType kNarrowestSaved = DataType::bf16;  // activations have 16 bits, even in narrower models

/// Collects the tensors of one rank.
class Tensors {
 public:
  Tensors(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split, const TrainingForm& form)
      : model_(model), batch_(batch), split_(split), form_(form) {}

  std::vector<KeptTensor> take() { return std::move(tensors_); }

  /// Tokens of a rank where tokens are divided among ranks.
  std::uint64_t divided() const { return split_.sequence_parallel ? tokens() / split_.tp : tokens(); }
  std::uint64_t tokens() const { return batch_.tokens(); }
  /// Tokens that a rank keeps of an input that is alike on all tensor-parallel ranks, with sequence parallelism after a
  /// gather.
  std::uint64_t gathered() const {
    if (form_.divide_inputs) return part_of(tokens());
    return form_.keep_gathered ? tokens() : divided();
  }
  /// This rank's part of a width that tensor parallelism divides.
  std::uint64_t part_of(std::uint64_t width) const { return ceil_div(width, split_.tp); }

  void add(const char* name, std::uint64_t rows, std::uint64_t width) {
    add_bytes(name, std::max(stored_bytes(rows * width, model_.dtype), stored_bytes(rows * width, kNarrowestSaved)));
  }
  /// The input of a norm. Operators of their own keep it in fp32, and the result before its product with the weight.
  void add_norm(const char* name, std::uint64_t rows, std::uint64_t width) {
    add(name, rows, width);
    if (!form_.fused.norm) add_bytes(name, rows * width * kFp32Bytes);
  }
  /// Operand of a product of qkv, o_proj or MLP, in one direction.
  void add_operand(const char* name, std::uint64_t rows, std::uint64_t width) {
    form_.narrow ? add_bytes(name, stored_bytes(rows * width, form_.narrow->dtype)) : add(name, rows, width);
  }
  void add_bytes(const char* name, Bytes bytes) {
    if (bytes > 0) tensors_.push_back({name, bytes});
  }
  void add_mask(const char* name, std::uint64_t numbers) {
    if (form_.dropout) add_bytes(name, numbers * kMaskBytes);
  }

  // -- from forward to backward

  void attention() {
    const std::uint64_t heads = model_.heads / split_.tp, d = model_.value_dim();
    add_norm("attention.norm_input", (model_.norms + 1) / 2 * divided(), model_.hidden);
    model_.latent ? latent_inputs(heads) : grouped_inputs(heads);
    if (!form_.recomputes(RecomputeModule::core_attn)) attention_core(heads);
    // A flash kernel's backward pass reads its output in 16 bits.
    if (form_.attention == AttentionForm::flash && !keeps_wide(Linear::proj))
      add("attention.output", tokens(), heads * d);
    add_input("attention.o_proj_input", Linear::proj, tokens(), heads * d);
    add_mask("attention.dropout_mask", divided() * model_.hidden);
  }
  void mlp(const LayerShape& layer) {
    add_norm("mlp.norm_input", model_.norms / 2 * divided(), model_.hidden);
    const bool routes = model_.routes(layer);
    // Attention and MLP that share a norm have the same input.
    if (model_.norms > 1 && !form_.recomputes(RecomputeModule::layernorm)) add_mlp_input(layer);
    if (routes && !form_.recomputes(RecomputeModule::moe)) experts();
    if (!routes && !form_.recomputes(RecomputeModule::mlp)) {
      add("mlp.activation_input", tokens(), gate_inputs() * part_of(dense_width()));
      add_input("mlp.down_input", Linear::fc2, tokens(), part_of(dense_width()));
    }
    add_mask("mlp.dropout_mask", divided() * model_.hidden);
  }

  // -- from dgrad to wgrad

  void attention_products() {
    const std::uint64_t heads = model_.heads / split_.tp, keys = rank_kv_heads(model_, split_.tp);
    if (model_.latent) {
      latent_operands();
      add_operand("attention.down_gradient", divided(), model_.latent->query_rank + model_.latent->cached());
      add_operand("attention.up_gradient", tokens(),
                  heads * (model_.latent->query_dim() + model_.latent->nope_dim + model_.latent->value_dim));
    } else {
      add_operand("attention.qkv_input", gathered(), model_.hidden);
      add_operand("attention.qkv_gradient", tokens(), (heads + 2 * keys) * model_.head_dim);
    }
    add_operand("attention.o_proj_input", tokens(), heads * model_.value_dim());
    add_operand("attention.o_proj_gradient", tokens(), model_.hidden);
  }
  void mlp_products(const LayerShape& layer) {
    if (!model_.routes(layer)) {
      if (model_.norms > 1) add_mlp_input(layer);
      add_operand("mlp.gate_up_gradient", tokens(), projections() * part_of(dense_width()));
      add_operand("mlp.down_input", tokens(), part_of(dense_width()));
      add_operand("mlp.down_gradient", tokens(), model_.hidden);
      return;
    }
    const std::uint64_t routed = routed_copies();
    if (model_.norms > 1) add_mlp_input(layer);
    add("mlp.router_gradient", router_tokens(), model_.experts);
    add_operand("mlp.routed_input", routed, model_.hidden);
    add_operand("mlp.gate_up_gradient", routed, projections() * expert_width());
    add_operand("mlp.down_input", routed, expert_width());
    add_operand("mlp.down_gradient", routed, model_.hidden);
    if (model_.shared_ffn == 0) return;
    if (form_.narrow) add_operand("mlp.shared_input", tokens(), model_.hidden);
    add_operand("mlp.shared_gate_up_gradient", tokens(), projections() * part_of(model_.shared_ffn));
    add_operand("mlp.shared_down_input", tokens(), part_of(model_.shared_ffn));
    add_operand("mlp.shared_down_gradient", tokens(), model_.hidden);
  }

 private:
  /// What the products before attention and the attention kernel read.
  void grouped_inputs(std::uint64_t heads) {
    const std::uint64_t keys = rank_kv_heads(model_, split_.tp), d = model_.head_dim;
    if (!form_.recomputes(RecomputeModule::layernorm))
      add_input("attention.qkv_input", Linear::qkv, gathered(), model_.hidden);
    if (model_.qk_norm > 0) add_norm("attention.qk_norm_input", tokens(), (heads + keys) * d);
    add("attention.queries", tokens(), heads * d);
    add("attention.keys", tokens(), keys * d);
    add("attention.values", tokens(), keys * d);
  }
  void latent_inputs(std::uint64_t heads) {
    const LatentAttention& latent = *model_.latent;
    latent_operands();
    add_norm("attention.q_norm_input", divided(), latent.query_rank);
    add_norm("attention.kv_norm_input", divided(), latent.kv_rank);
    add("attention.queries", tokens(), heads * latent.query_dim());
    add("attention.keys", tokens(), heads * latent.query_dim());
    add("attention.values", tokens(), heads * latent.value_dim);
  }
  void latent_operands() {
    const LatentAttention& latent = *model_.latent;
    add_operand("attention.down_input", divided(), model_.hidden);
    // Queries that are not compressed have a product with the hidden state, which all ranks need whole.
    if (latent.query_rank > 0)
      add_operand("attention.q_up_input", gathered(), latent.query_rank);
    else if (split_.sequence_parallel)
      add_operand("attention.q_up_input", gathered(), model_.hidden);
    add_operand("attention.kv_up_input", gathered(), latent.kv_rank);
  }
  /// The input of the MLP; a router reads it in 16 bits. An MLP that runs again gathers it again.
  void add_mlp_input(const LayerShape& layer) {
    const std::uint64_t rows = form_.recomputes(RecomputeModule::mlp) ? divided() : gathered();
    model_.routes(layer) ? add("mlp.input", router_tokens(), model_.hidden)
                         : add_input("mlp.input", Linear::fc1, rows, model_.hidden);
  }
  /// Whether the input of a matrix is kept in 16 bits.
  bool keeps_wide(Linear linear) const { return form_.adapters ? form_.adapters->has(linear) : !form_.narrow; }
  /// The input of a matrix, and with adapters what A makes of it. Beside a frozen matrix without adapters nothing needs it.
  void add_input(const char* name, Linear linear, std::uint64_t rows, std::uint64_t width) {
    if (!form_.adapters) return add_operand(name, rows, width);
    if (!form_.adapters->has(linear)) return;
    add(name, rows, width);
    add("lora.inputs", tokens(), std::uint64_t(form_.adapters->rank) * adapter_inputs(model_, *form_.adapters, linear));
  }
  /// Tokens that a rank routes: with expert parallelism only its own, and it gathers their copies.
  std::uint64_t router_tokens() const { return split_.expert_ranks() > 1 ? divided() : tokens(); }
  /// Copies of tokens that its experts get.
  std::uint64_t routed_copies() const {
    const std::uint64_t even = (split_.whole_experts ? divided() : tokens()) * model_.experts_per_token;
    return split_.load ? split_.load->of(even) : split_.sent(even);
  }
  /// Of the part of an expert that a rank has.
  std::uint64_t expert_width() const { return split_.whole_experts ? model_.ffn : part_of(model_.ffn); }
  std::uint64_t projections() const { return model_.gated_mlp ? 2 : 1; }
  /// What the backward pass of the activation reads. Operators of their own keep the activated gate, too.
  std::uint64_t gate_inputs() const { return projections() + (model_.gated_mlp && !form_.fused.activation ? 1 : 0); }
  std::uint64_t dense_width() const { return model_.experts == 0 ? model_.ffn : model_.dense_ffn; }

  void experts() {
    const std::uint64_t routed = routed_copies();
    add_bytes("mlp.router_scores", router_tokens() * model_.experts * kFp32Bytes);
    add_operand("mlp.routed_input", routed, model_.hidden);
    add("mlp.activation_input", routed, gate_inputs() * expert_width());
    if (!form_.recomputes(RecomputeModule::moe_act)) add_operand("mlp.down_input", routed, expert_width());
    // DeepEP adds results on the ranks of their experts.
    if (!form_.routed || form_.routed->dispatch == TokenDispatch::all_to_all)
      add("mlp.combine_input", split_.sent(router_tokens() * model_.experts_per_token), model_.hidden);
    add("mlp.shared_activation_input", tokens(), gate_inputs() * part_of(model_.shared_ffn));
    if (form_.narrow && model_.shared_ffn > 0) add_operand("mlp.shared_input", tokens(), model_.hidden);
    add_operand("mlp.shared_down_input", tokens(), part_of(model_.shared_ffn));
  }
  /// Between the projections of attention.
  void attention_core(std::uint64_t heads) {
    if (form_.attention == AttentionForm::flash) {
      add_bytes("attention.statistics", tokens() * heads * kFp32Bytes);
      return;
    }
    const std::uint64_t rows = tokens() * heads, keys = batch_.sequence_tokens;
    const bool fused = softmax_is_fused(batch_.sequences * heads, batch_.sequence_tokens, keys);
    // The operator keeps its result before the cast to 16 bits; the product with V keeps the cast one.
    if (!fused) add_bytes("attention.softmax_operator", rows * keys * kFp32Bytes);
    if (fused || !form_.dropout) add("attention.softmax", rows, keys);
    if (!form_.dropout) return;
    add_mask("attention.softmax_dropout_mask", rows * keys);
    add("attention.softmax_dropout", rows, keys);
  }

  const ModelShape& model_;
  const MicroBatch batch_;
  const LayerSplit split_;
  const TrainingForm form_;
  std::vector<KeptTensor> tensors_;
};

}  // namespace

Bytes sum_of(const std::vector<KeptTensor>& tensors) {
  Bytes sum = 0;
  for (const KeptTensor& tensor : tensors) sum += tensor.bytes;
  return sum;
}

std::vector<KeptTensor> kept_by_layer(const ModelShape& model, std::uint32_t kind, const MicroBatch& batch,
                                      const LayerSplit& split, const TrainingForm& form) {
  Tensors tensors(model, batch, split, form);
  if (form.recompute == Recompute::full) {
    tensors.add("layer_input", tensors.divided(), model.hidden);
  } else {
    tensors.attention();
    tensors.mlp(model.kinds[kind]);
  }
  return tensors.take();
}

std::vector<KeptTensor> kept_for_wgrad(const ModelShape& model, std::uint32_t kind, const MicroBatch& batch,
                                       const LayerSplit& split, const TrainingForm& form) {
  Tensors tensors(model, batch, split, form);
  tensors.attention_products();
  tensors.mlp_products(model.kinds[kind]);
  return tensors.take();
}

std::vector<KeptTensor> kept_by_embedding(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split,
                                          const TrainingForm& form) {
  Tensors tensors(model, batch, split, form);
  if (model.embedding_norm) tensors.add("embedding.norm_input", tensors.divided(), model.hidden);
  tensors.add_mask("embedding.dropout_mask", tensors.divided() * model.hidden);
  return tensors.take();
}

std::vector<KeptTensor> kept_by_head(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split,
                                     const TrainingForm& form, Bytes logit_bytes) {
  Tensors tensors(model, batch, split, form);
  tensors.add_norm("head.norm_input", tensors.divided(), model.hidden);
  tensors.add("head.input", tensors.gathered(), model.hidden);
  tensors.add_bytes("head.logits", logits(model, batch, split) * logit_bytes);
  return tensors.take();
}

std::uint64_t logits(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split) {
  return batch.tokens() * ceil_div(model.vocab, split.tp);
}

std::vector<KeptTensor> kept_for_head_wgrad(const ModelShape& model, const MicroBatch& batch, const LayerSplit& split,
                                            const TrainingForm& form) {
  Tensors tensors(model, batch, split, form);
  tensors.add("head.input", tensors.gathered(), model.hidden);
  tensors.add("head.logits_gradient", tensors.tokens(), tensors.part_of(model.vocab));
  return tensors.take();
}

}  // namespace railyard::transformer
