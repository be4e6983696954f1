// Memory for KV blocks: the block counts of vLLM servers, and what a pipeline does to them.
#define BOOST_TEST_MODULE inference_kv_memory
#include <boost/test/unit_test.hpp>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/parameters.h"
#include "workload/inference/engine/kv_memory.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;
using transformer::ModelShape;

namespace {

ModelShape with_heads(ModelShape model, std::uint32_t kv_heads, std::uint32_t head_dim = 128) {
  model.kv_heads = kv_heads;
  model.head_dim = head_dim;
  return model;
}
ModelShape llama_2_7b() { return with_heads(dense_model("llama-2-7b", 32, 4096, 32, 11008, 32000), 32); }
ModelShape mistral_nemo_12b() { return dense_model("mistral-nemo-12b", 40, 5120, 32, 14336, 131072); }
ModelShape yi_34b() { return dense_model("yi-34b", 60, 7168, 56, 20480, 64000); }
ModelShape qwen_7b() {
  ModelShape model = with_heads(dense_model("qwen2.5-7b", 28, 3584, 28, 18944, 152064), 4);
  model.qkv_bias = true;
  return model;
}

InstanceSpec instance(const ModelShape& model, std::uint32_t tp, std::uint32_t pp, std::uint32_t tokens,
                      std::uint32_t seqs) {
  InstanceSpec spec;
  spec.mapping.tp = tp;
  spec.mapping.pp = pp;
  spec.mapping.stage_layers = transformer::even_stage_layers(model.layers, pp);
  spec.scheduler.max_batched_tokens = tokens;
  spec.scheduler.max_seqs = seqs;
  return spec;
}

double visible_bytes(const char* gpu) { return gpu_datasheet(gpu).hbm.visible_bytes(); }

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_of_seven_vllm_servers) {
  // RTX 4090: casys-kaist/LLMServingSim 5daddb2, bench/RTX4090. H100: inference-sim/sim-to-real-accuracy-validation, vLLM
  // v0.15.1. Shapes from the models' config.json at Hugging Face.
  const struct {
    const char* gpu;
    ModelShape model;
    std::uint32_t tp, tokens, seqs, blocks;
  } servers[] = {
      {"RTX-4090", llama_8b(), 1, 2048, 256, 2588},
      {"H100-SXM5-80GB", llama_2_7b(), 1, 2048, 128, 7463},
      {"H100-SXM5-80GB", llama_70b(), 4, 2048, 128, 30425},
      {"H100-SXM5-80GB", mistral_nemo_12b(), 1, 2048, 128, 19251},
      {"H100-SXM5-80GB", mistral_nemo_12b(), 2, 1024, 128, 48009},
      {"H100-SXM5-80GB", yi_34b(), 2, 2048, 128, 20793},
      {"H100-SXM5-80GB", qwen_7b(), 1, 1024, 128, 65368},
  };
  for (const auto& s : servers) {
    const auto stages = stage_memory(s.model, instance(s.model, s.tp, 1, s.tokens, s.seqs), {}, visible_bytes(s.gpu));
    BOOST_TEST(stages.front().blocks() == static_cast<double>(s.blocks), boost::test_tools::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(two_stages_halve_weights_and_blocks) {
  const ModelShape model = llama_70b();
  const double visible = visible_bytes("H100-SXM5-80GB");
  const auto whole = stage_memory(model, instance(model, 4, 1, 8192, 1024), {}, visible);
  const auto halves = stage_memory(model, instance(model, 4, 2, 8192, 1024), {}, visible);
  BOOST_TEST_REQUIRE(halves.size() == 2u);
  BOOST_TEST(halves[0].weights + halves[1].weights == whole[0].weights);
  for (const StageMemory& half : halves) {
    // The first stage has the embedding, and the last one the head of the same size and a norm.
    BOOST_TEST(2.0 * static_cast<double>(half.weights) == static_cast<double>(whole[0].weights),
               boost::test_tools::tolerance(1e-6));
    BOOST_TEST(2 * half.block == whole[0].block);
    // Twice as many blocks in the same memory, and as many more as the other half of the weights took.
    const double more = static_cast<double>(whole[0].weights - half.weights + whole[0].activations - half.activations);
    BOOST_TEST(half.left == whole[0].left + more, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(half.blocks() >= 2 * whole[0].blocks());
  }
}

BOOST_AUTO_TEST_CASE(a_model_that_does_not_fit_leaves_no_blocks) {
  const ModelShape model = llama_70b();
  const auto stages = stage_memory(model, instance(model, 1, 1, 8192, 1024), {}, visible_bytes("H100-SXM5-80GB"));
  BOOST_TEST(stages.front().left < 0);
  BOOST_TEST(stages.front().blocks() == 0u);
}
