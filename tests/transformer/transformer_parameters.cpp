#define BOOST_TEST_MODULE transformer_parameters
#include <boost/test/unit_test.hpp>

#include <numeric>

#include "gpu/kernels/attention.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/parameters.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

// Parameter counts of the published checkpoints (the model cards' 8.03, 70.55, 405.85, 72.71 and 46.70 billion).
BOOST_AUTO_TEST_CASE(totals_are_the_published_ones) {
  BOOST_TEST(total_parameters(llama_8b()) == 8030261248u);
  BOOST_TEST(total_parameters(llama_70b()) == 70553706496u);
  BOOST_TEST(total_parameters(llama_405b()) == 405853388800u);
  BOOST_TEST(total_parameters(qwen_72b()) == 72706203648u);
  BOOST_TEST(total_parameters(mixtral_8x7b()) == 46702792704u);
  BOOST_TEST(active_parameters(mixtral_8x7b()) ==
             12879659008u + 65 * 4096u);  // the card's 12.9 billion, norms included
  BOOST_TEST(active_parameters(llama_8b()) == total_parameters(llama_8b()));
}

BOOST_AUTO_TEST_CASE(layers_of_llama_70b) {
  const LayerParameters p = layer_parameters(llama_70b());
  BOOST_TEST(p.attention == 8192u * (64 + 2 * 8) * 128 + 64u * 128 * 8192);
  BOOST_TEST(p.mlp == 3ull * 8192 * 28672);
  BOOST_TEST(p.router == 0u);
  BOOST_TEST(p.norms == 2u * 8192);
  BOOST_TEST(decoder_parameters(llama_70b()) == 80 * p.total());
}

BOOST_AUTO_TEST_CASE(tied_embeddings_count_once) {
  ModelShape m = llama_8b();
  const std::uint64_t untied = total_parameters(m);
  m.tied_embeddings = true;
  BOOST_TEST(total_parameters(m) == untied - 128256ull * 4096);
  // A last stage of its own still has to hold a copy for the head.
  const Stage last{16, false, true}, both{32, true, true};
  BOOST_TEST(rank_parameters(m, last, 1) == decoder_parameters(m) / 2 + 128256ull * 4096 + 4096);
  BOOST_TEST(rank_parameters(m, both, 1) == total_parameters(m));
}

// (W // L) * (L // pp) // tp, as the design that this replaces wrote it.
BOOST_AUTO_TEST_CASE(even_stages_follow_the_integer_formula) {
  for (const ModelShape& m : {llama_8b(), llama_70b(), qwen_72b(), mixtral_8x7b()}) {
    const std::uint64_t w = decoder_parameters(m), l = m.layers;
    for (const std::uint32_t pp : {4u, 8u, 16u})
      for (const std::uint32_t tp : {1u, 3u, 4u, 8u}) {
        const std::uint64_t expected = (w / l) * (l / pp) / tp;
        const Stage middle{m.layers / pp, false, false};
        BOOST_TEST(rank_parameters(m, middle, tp) == expected);
        const Stage first{m.layers / pp, true, false}, last{m.layers / pp, false, true};
        BOOST_TEST(rank_parameters(m, first, tp) == expected + std::uint64_t(m.vocab) * m.hidden / tp);
        BOOST_TEST(rank_parameters(m, last, tp) == expected + (std::uint64_t(m.vocab) * m.hidden + m.hidden) / tp);
      }
  }
}

BOOST_AUTO_TEST_CASE(ranks_of_llama_70b) {
  const ModelShape m = llama_70b();
  // 855654400 per layer; 40 layers over 4 ranks; embeddings 262668288 a rank.
  BOOST_TEST(rank_parameters(m, Stage{40, false, false}, 4) == 8556544000u);
  BOOST_TEST(rank_parameters(m, Stage{40, true, false}, 4) == 8556544000u + 262668288u);
  BOOST_TEST(rank_parameters(m, Stage{40, false, true}, 4) == 8556544000u + 262668288u + 2048u);
  BOOST_TEST(rank_weight_bytes(m, Stage{40, false, false}, 4) == 17113088000u);
  BOOST_TEST(rank_parameters(m, Stage{80, true, true}, 1) == total_parameters(m));
}

BOOST_AUTO_TEST_CASE(uneven_stages_cover_every_layer) {
  const ModelShape m = llama_405b();  // 126 layers
  for (const std::uint32_t pp : {1u, 4u, 5u, 8u, 125u, 126u}) {
    const std::vector<std::uint32_t> layers = even_stage_layers(m.layers, pp);
    BOOST_TEST(layers.size() == pp);
    BOOST_TEST(std::accumulate(layers.begin(), layers.end(), 0u) == 126u);
    BOOST_TEST(layers.front() - layers.back() <= 1u);
    std::uint64_t sum = 0;
    for (const Stage& stage : stages_of(layers)) sum += rank_parameters(m, stage, 1);
    BOOST_TEST(sum == total_parameters(m));
  }
  BOOST_TEST(even_stage_layers(126, 4) == (std::vector<std::uint32_t>{32, 32, 31, 31}),
             boost::test_tools::per_element());
  const std::vector<Stage> stages = stages_of({40, 30, 56});
  BOOST_TEST(rank_parameters(m, stages[1], 8) == decoder_parameters(m) / 126 * 30 / 8);
  BOOST_TEST((stages[0].first && !stages[0].last && !stages[1].first && !stages[1].last && stages[2].last));
}

// Bytes per token over all layers, bf16: 131072, 327680, 516096, 327680 and 131072.
BOOST_AUTO_TEST_CASE(kv_bytes_of_the_models) {
  const Stage all8{32, true, true}, all70{80, true, true}, all405{126, true, true};
  BOOST_TEST(kv_bytes_per_token(llama_8b(), all8, 1) == 131072u);
  BOOST_TEST(kv_bytes_per_token(llama_70b(), all70, 1) == 327680u);
  BOOST_TEST(kv_bytes_per_token(llama_405b(), all405, 1) == 516096u);
  BOOST_TEST(kv_bytes_per_token(qwen_72b(), all70, 1) == 327680u);
  BOOST_TEST(kv_bytes_per_token(mixtral_8x7b(), all8, 1) == 131072u);
}

BOOST_AUTO_TEST_CASE(kv_heads_are_sharded_then_replicated) {
  ModelShape m = llama_70b();  // 8 KV heads of 128
  BOOST_TEST(rank_kv_heads(m, 1) == 8u);
  BOOST_TEST(rank_kv_heads(m, 4) == 2u);
  BOOST_TEST(rank_kv_heads(m, 8) == 1u);
  BOOST_TEST(rank_kv_heads(m, 16) == 1u);
  BOOST_TEST(rank_kv_heads(m, 64) == 1u);
  BOOST_TEST(kv_bytes_per_token_layer(m, 4) == 1024u);
  BOOST_TEST(kv_bytes_per_token_layer(m, 8) == 512u);
  BOOST_TEST(kv_bytes_per_token_layer(m, 16) == 512u);
  m.kv_dtype = DataType::fp8;
  BOOST_TEST(kv_bytes_per_token_layer(m, 4) == 512u);
  m.kv_dtype = DataType::fp4;
  BOOST_TEST(kv_bytes_per_token_layer(m, 4) == 256u);
  BOOST_TEST(hidden_bytes(m, 256) == 256u * 8192 * 2);
}

BOOST_AUTO_TEST_CASE(chunk_flops_add_up_to_the_prompts) {
  for (const ModelShape& m : {llama_70b(), mixtral_8x7b()}) {
    const std::uint64_t prompt = 3001;
    const double whole = prefill_flops(m, m.layers, prompt, 0);
    for (const std::uint64_t chunk : {1, 256, 512, 3000}) {
      double sum = 0;
      for (std::uint64_t start = 0; start < prompt; start += chunk)
        sum += prefill_flops(m, m.layers, std::min(chunk, prompt - start), start);
      BOOST_TEST(sum == whole, boost::test_tools::tolerance(1e-13));
    }
    BOOST_TEST(prefill_flops(m, 1, 256, 4096) > prefill_flops(m, 1, 256, 0));
  }
}

// Two per GEMM weight and token; 139.0 GFLOP a token for Llama-3.1-70B without attention, the head included.
BOOST_AUTO_TEST_CASE(flops_per_token) {
  const double attention_of_one = 4.0 * 64 * 128;
  const double dense = prefill_flops(llama_70b(), 80, 1, 0) - 80 * attention_of_one + head_flops(llama_70b(), 1);
  BOOST_TEST(dense == 139003428864.0);
  const double moe = prefill_flops(mixtral_8x7b(), 32, 1, 0) - 32 * 4.0 * 32 * 128 + head_flops(mixtral_8x7b(), 1);
  BOOST_TEST(moe == 25497174016.0);
  // One decode step is a one-token chunk after context - 1 tokens, for each request.
  const std::vector<std::uint64_t> context{100, 2000, 1};
  double steps = 0;
  for (const std::uint64_t keys : context) steps += prefill_flops(llama_70b(), 80, 1, keys - 1);
  BOOST_TEST(decode_flops(llama_70b(), 80, context) == steps, boost::test_tools::tolerance(1e-14));
}

// A query of a windowed layer sees at most its window; every kind of layer counts for itself.
BOOST_AUTO_TEST_CASE(layers_of_two_kinds) {
  ModelShape m = mixtral_8x7b();
  m.dense_ffn = 4096;
  m.kinds = {LayerShape(), LayerShape()};
  m.kinds[1].window = 100;
  m.kinds[1].dense = true;
  m.kind_of.assign(m.layers, 0);
  m.kind_of[3] = 1;
  const std::uint64_t dense = 3ull * 4096 * 4096, experts = 8 * 3ull * 4096 * 14336 + 8 * 4096;
  BOOST_TEST(total_parameters(m) == total_parameters(mixtral_8x7b()) - experts + dense);
  BOOST_TEST(rank_parameters(m, {2, false, false, 2}, 1) ==
             layer_parameters(m, 0).total() + layer_parameters(m, 1).total());
  BOOST_TEST(common_layer(m) == 31u);
  // 100 pairs a token once the window is full, chunk by chunk or at once.
  const auto pairs = [&](std::uint64_t tokens, std::uint64_t start) { return gpu::causal_pairs({tokens, start}, 100); };
  BOOST_TEST(pairs(1000, 0) == 100 * 101 / 2 + 900 * 100);
  BOOST_TEST(pairs(60, 0) + pairs(60, 60) + pairs(880, 120) == pairs(1000, 0));
  BOOST_TEST(pairs(1, 4000) == 100);
}
