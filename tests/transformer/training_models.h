// GPT models as Megatron-LM trains them: four times wider MLP, LayerNorm, biases, learned positions, tied embeddings.
#pragma once

#include "transformer/model_shape.h"
#include "transformer/training_form.h"

namespace railyard::test {

inline transformer::ModelShape gpt(std::uint32_t layers, std::uint32_t hidden, std::uint32_t heads) {
  transformer::ModelShape m;
  m.name = "gpt";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.head_dim = hidden / heads;
  m.ffn = 4 * hidden;
  m.vocab = 51200;
  m.gated_mlp = m.rotary = false;
  m.tied_embeddings = true;
  m.qkv_bias = m.output_bias = m.mlp_bias = true;
  m.norm_vectors = 2;
  m.positions = 2048;
  m.dtype = DataType::fp16;
  return m;
}
/// Of Korthikanti et al., arXiv 2205.05198, table 3.
inline transformer::ModelShape gpt_22b() { return gpt(48, 6144, 64); }
inline transformer::ModelShape gpt_175b() { return gpt(96, 12288, 96); }

inline transformer::TrainingForm unfused_with_dropout() {
  transformer::TrainingForm form;
  form.attention = transformer::AttentionForm::unfused;
  form.dropout = true;
  return form;
}

}  // namespace railyard::test
