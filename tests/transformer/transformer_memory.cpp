#define BOOST_TEST_MODULE transformer_memory
#include <boost/test/unit_test.hpp>

#include "tests/transformer/transformer_models.h"
#include "transformer/memory.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

constexpr double kGb = 1e9;

MemoryCheck check(const ModelShape& m, std::uint32_t tp, std::uint32_t pp, std::uint64_t kv_tokens,
                  double capacity_gb) {
  return check_memory(m, even_stage_layers(m.layers, pp), tp, {kv_tokens, 256, 1}, capacity_gb * kGb, 0.9);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_rank_holds_weights_kv_and_activations) {
  const ModelShape m = llama_70b();
  const RankMemory memory = rank_memory(m, {40, true, false}, 4, {1024, 256, 1});
  BOOST_TEST(memory.weights == 2 * rank_parameters(m, {40, true, false}, 4));
  BOOST_TEST(memory.kv == 1024u * 40 * 2 * (8 / 4) * 128 * 2);
  BOOST_TEST(memory.activations == 256u * (4 * 8192 + 3 * 28672 / 4) * 2);
  BOOST_TEST(memory.total() == memory.weights + memory.kv + memory.activations);
}

BOOST_AUTO_TEST_CASE(logits_lie_on_the_last_stage) {
  const ModelShape m = llama_70b();
  const Bytes middle = activation_bytes(m, {40, false, false}, 4, 256, 32);
  const Bytes last = activation_bytes(m, {40, false, true}, 4, 256, 32);
  BOOST_TEST(last - middle == 32u * 128256 / 4 * 4);
}

// Llama-3.1-70B in bf16 (141 GB) on L40S of 48 GB: eight hold it, two do not.
BOOST_AUTO_TEST_CASE(llama_70b_needs_four_l40s) {
  BOOST_TEST(check(llama_70b(), 4, 2, 1024, 48).fits);
  const MemoryCheck two = check(llama_70b(), 2, 1, 1024, 48);
  BOOST_TEST(!two.fits);
  BOOST_TEST(two.limit == 43200000000u);
  BOOST_TEST(two.exceeds_by == two.need.total() - two.limit);
  BOOST_TEST(two.most_kv_tokens == 0u);
  BOOST_TEST(two.fitting_tp * two.fitting_pp == 4u);
  BOOST_TEST(check(llama_70b(), two.fitting_tp, two.fitting_pp, 1024, 48).fits);
  BOOST_TEST(two.sentence.find("too much") != std::string::npos);
  BOOST_TEST(two.sentence.find("GPUs (tp") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_largest_kv_cache_fits_exactly) {
  const ModelShape m = llama_70b();
  const MemoryCheck over = check(m, 4, 1, 2000000, 48);
  BOOST_TEST(!over.fits);
  BOOST_TEST(over.most_kv_tokens > 0u);
  BOOST_TEST(check(m, 4, 1, over.most_kv_tokens, 48).fits);
  BOOST_TEST(!check(m, 4, 1, over.most_kv_tokens + 1, 48).fits);
  BOOST_TEST(over.sentence.find(std::to_string(over.most_kv_tokens) + " tokens of KV cache fit") != std::string::npos);
}

// No smaller grid than the one offered fits.
BOOST_AUTO_TEST_CASE(the_offered_mapping_is_the_smallest) {
  const ModelShape m = llama_405b();
  const MemoryCheck one = check(m, 8, 1, 4096, 80);
  BOOST_TEST(!one.fits);
  const std::uint32_t offered = one.fitting_tp * one.fitting_pp;
  BOOST_TEST(offered > 8u);
  BOOST_TEST(check(m, one.fitting_tp, one.fitting_pp, 4096, 80).fits);
  for (std::uint32_t tp = 1; tp <= m.heads; tp *= 2)
    for (std::uint32_t pp = 1; pp <= m.layers && tp * pp < offered; ++pp) BOOST_TEST(!check(m, tp, pp, 4096, 80).fits);
}

BOOST_AUTO_TEST_CASE(the_fullest_stage_decides) {
  const ModelShape m = llama_70b();
  const MemoryCheck uneven = check_memory(m, {10, 50, 20}, 4, {1024, 256, 1}, 48 * kGb, 0.9);
  BOOST_TEST(uneven.stage == 1u);
  BOOST_TEST(uneven.need.weights == rank_weight_bytes(m, {50, false, false}, 4));
}

BOOST_AUTO_TEST_CASE(nothing_helps_a_cache_beyond_every_grid) {
  ModelShape m = llama_8b();
  m.kv_heads = 1;  // replicated over every tensor-parallel rank
  const MemoryCheck hopeless = check(m, 1, 1, 4000000000ull, 24);
  BOOST_TEST(!hopeless.fits);
  BOOST_TEST(hopeless.fitting_tp == 0u);
  BOOST_TEST(hopeless.sentence.find("no tp and pp") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(experts_weigh_in_full) {
  const ModelShape m = mixtral_8x7b();
  BOOST_TEST(!check(m, 1, 1, 1024, 80).fits);  // 93 GB of weights, though a token uses 26
  BOOST_TEST(check(m, 2, 1, 1024, 80).fits);
}

// Windowed layers keep a window of a sequence, and beside it what one pass adds; the others keep all.
BOOST_AUTO_TEST_CASE(a_window_bounds_the_kv_cache) {
  ModelShape m = llama_8b();
  m.kinds = {LayerShape(), LayerShape()};
  m.kinds[1].window = 1024;
  for (std::uint32_t l = 0; l < m.layers; ++l) m.kind_of.push_back(l % 2);
  const Stage half{16, false, false, 8};
  const Bytes token = kv_bytes_per_token_layer(m, 1);
  BOOST_TEST(rank_memory(m, half, 1, {500, 256, 1}).kv == 16 * 500 * token);
  BOOST_TEST(rank_memory(m, half, 1, {50000, 256, 1}).kv == (8 * 50000 + 8 * 1024) * token);
  BOOST_TEST(rank_memory(m, half, 1, {50000, 256, 1, 1, 256}).kv == (8 * 50000 + 8 * (1023 + 256)) * token);
  BOOST_TEST(rank_memory(m, half, 1, {50000, 256, 1, 10}).kv == (8 * 50000 + 8 * 10 * 1024) * token);
  const MemoryCheck over = check(m, 1, 1, 4000000, 24);
  BOOST_TEST(!over.fits);
  BOOST_TEST(check(m, 1, 1, over.most_kv_tokens, 24).fits);
  BOOST_TEST(!check(m, 1, 1, over.most_kv_tokens + 1, 24).fits);
  m.kinds[0].window = 4096;
  BOOST_TEST(check(m, 1, 1, 4000000000ull, 24).fits);
}
