// Multi-head latent attention, and experts dealt whole to ranks, counted by hand.
#define BOOST_TEST_MODULE transformer_latent
#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "transformer/layer_plan.h"
#include "transformer/memory.h"
#include "transformer/parameters.h"
#include "transformer/shared_gradients.h"
#include "transformer/training_memory.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

/// DeepSeek-V3 (config.json), in 16 bits.
ModelShape deepseek_v3() {
  ModelShape m;
  m.name = "deepseek-v3";
  m.layers = 61;
  m.hidden = 7168;
  m.heads = 128;
  m.kv_heads = 1;
  m.latent = LatentAttention{1536, 512, 128, 64, 128};
  m.head_dim = m.latent->query_dim();
  m.qk_norm = 1536 + 512;
  m.ffn = 2048;
  m.experts = 256;
  m.experts_per_token = 8;
  m.shared_ffn = 2048;
  m.dense_ffn = 18432;
  m.router_bias = true;
  m.vocab = 129280;
  m.kinds = {LayerShape(), LayerShape()};
  m.kinds[0].dense = true;
  m.kind_of.assign(61, 1);
  for (std::uint32_t l = 0; l < 3; ++l) m.kind_of[l] = 0;
  return m;
}

constexpr std::uint32_t kRoutes = 1;  // kind of layer

double flops_of(const Segment& segment, const std::string& name) {
  double sum = 0;
  for (const NamedKernel& kernel : segment.kernels)
    if (kernel.name == name) sum += kernel.time.flops;
  return sum;
}

const auto kExact = boost::test_tools::tolerance(1e-12);

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_are_those_of_the_matrices) {
  const ModelShape m = deepseek_v3();
  const std::uint64_t h = 7168,
                      attention = h * 1536 + 1536ull * 128 * 192 + h * 576 + 512ull * 128 * 256 + 128ull * 128 * h;
  BOOST_TEST(layer_parameters(m, kRoutes).attention == attention);
  BOOST_TEST(layer_parameters(m, kRoutes).mlp == 257 * 3 * h * 2048);
  BOOST_TEST(layer_parameters(m, kRoutes).norms == 2 * h + 1536 + 512);
  BOOST_TEST(static_cast<double>(total_parameters(m)) == 671.0e9, boost::test_tools::tolerance(0.001));
}

// 61 (512 + 64) numbers of 2 bytes are 70 272 bytes for a token, on every rank.
BOOST_AUTO_TEST_CASE(every_tensor_parallel_rank_caches_the_whole_vector) {
  const ModelShape m = deepseek_v3();
  for (const std::uint32_t tp : {1u, 8u, 16u})
    BOOST_TEST(kv_bytes_per_token(m, {61, true, true}, tp) == 61u * (512 + 64) * 2);
}

BOOST_AUTO_TEST_CASE(ranks_hold_the_first_matrices_whole) {
  const ModelShape m = deepseek_v3();
  const Stage all{61, true, true};
  const double copied = 2.0 * 61 * 7168 * (1536 + 576);
  const double one = static_cast<double>(rank_weight_bytes(m, all, 1)),
               eight = static_cast<double>(rank_weight_bytes(m, all, 8));
  BOOST_TEST(eight == one / 8 + copied * 7 / 8, boost::test_tools::tolerance(1e-9));
}

// Absorbed: q W_UK, scores and values over 576 and 512 numbers, then W_UV. Expanded: K and V of all tokens, then scores and
// values over 192 and 128 numbers.
BOOST_AUTO_TEST_CASE(absorbed_and_expanded_attention_cost_their_products) {
  const ModelShape m = deepseek_v3();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  constexpr std::uint32_t kTp = 8, kHeads = 128 / kTp;
  LayerTimer layers(m, kTp, timer);

  constexpr std::uint64_t kBatch = 32, kContext = 4096;
  const std::vector<std::uint64_t> contexts(kBatch, kContext);
  const Segment decode = layers.attention_core({{}, gpu::one_token_each(contexts), kRoutes});
  BOOST_TEST(flops_of(decode, "q_absorb") == 2.0 * kBatch * kHeads * 128 * 512, kExact);
  BOOST_TEST(flops_of(decode, "attention_latent") == 2.0 * kHeads * kBatch * kContext * (576 + 512), kExact);
  BOOST_TEST(flops_of(decode, "values_up") == 2.0 * kBatch * kHeads * 512 * 128, kExact);

  constexpr double kTokens = 2048, kBefore = 1024;
  const Segment prompt = layers.attention_core({{{2048, 1024}}, {}, kRoutes});
  BOOST_TEST(flops_of(prompt, "kv_up") == 2.0 * kTokens * 512 * kHeads * 256, kExact);
  BOOST_TEST(flops_of(prompt, "context_kv_up") == 2.0 * kBefore * 512 * kHeads * 256, kExact);
  BOOST_TEST(
      flops_of(prompt, "attention") == 2.0 * kHeads * (192 + 128) * (kTokens * kBefore + kTokens * (kTokens + 1) / 2),
      kExact);

  // A batch with both runs the kernels of both.
  const Segment both = layers.attention_core({{{2048, 1024}}, gpu::one_token_each(contexts), kRoutes});
  BOOST_TEST(both.flops == prompt.flops + decode.flops, kExact);
  BOOST_TEST(both.seconds == prompt.seconds + decode.seconds, kExact);
}

// FlashMLA on an H800 reaches 3000 GB/s where memory limits (few heads) and 660 TFLOP/s where products limit
// (deepseek-ai/FlashMLA, README). No constant was fitted to it.
BOOST_AUTO_TEST_CASE(absorbed_attention_is_about_as_fast_as_flashmla) {
  const gpu::GpuDatasheet sheet = gpu_datasheet("H800-SXM5-80GB");
  const auto decode = [&](std::uint32_t heads, std::uint64_t batch, std::uint64_t context) {
    const gpu::AttentionHeads latent{heads, 1, 576, DataType::bf16, 512, true};
    return gpu::decode_attention_time(sheet, latent, gpu::one_token_each(std::vector<std::uint64_t>(batch, context)));
  };
  const gpu::KernelTime memory = decode(16, 128, 8192), products = decode(128, 128, 8192);
  const double rate = memory.bytes / memory.seconds, flops = products.flops / products.seconds;
  BOOST_TEST(rate == 3000e9, boost::test_tools::tolerance(0.05));
  BOOST_TEST(flops == 660e12, boost::test_tools::tolerance(0.25));
}

// A trace of DeepSeek-V3's training on H800 has 1237 us for the kernel of 4096 tokens (deepseek-ai/profile-data, train.json, mean of
// four). No constant was fitted to it.
BOOST_AUTO_TEST_CASE(expanded_attention_is_about_as_fast_as_in_deepseeks_trace) {
  const gpu::AttentionHeads heads{128, 128, 192, DataType::bf16, 128};
  const double seconds = gpu::prefill_attention_time(gpu_datasheet("H800-SXM5-80GB"), heads, {{4096, 0}}).seconds;
  BOOST_TEST(seconds == 1237e-6, boost::test_tools::tolerance(0.1));
}

BOOST_AUTO_TEST_CASE(queries_that_are_not_compressed_come_from_the_hidden_state) {
  ModelShape m = deepseek_v3();
  m.latent->query_rank = 0;
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer layers(m, 8, timer);
  BOOST_TEST(flops_of(layers.attention_input({{{100, 0}}, {}, kRoutes}), "q_up") == 2.0 * 100 * 7168 * 16 * 192,
             kExact);
  BOOST_TEST(flops_of(layers.attention_down(100, kRoutes), "kv_down") == 2.0 * 100 * 7168 * 576, kExact);
}

// The copies of all tokens are computed once over the ranks, whether experts are cut or dealt whole; and the fullest rank has
// `fullest` times its share.
BOOST_AUTO_TEST_CASE(ranks_with_whole_experts_share_the_copies) {
  const ModelShape m = deepseek_v3();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer cut(m, 8, timer), whole(m, 8, timer), skewed(m, 8, timer);
  whole.set_expert_ranks({8, 1});
  skewed.set_expert_ranks({8, 1.5});
  const double even = 2.0 * 4096 * 8 * 3 * 7168 * 2048 / 8;
  BOOST_TEST(cut.local_experts(4096, kRoutes).flops == even, boost::test_tools::tolerance(0.01));
  BOOST_TEST(whole.local_experts(4096, kRoutes).flops == even, boost::test_tools::tolerance(0.01));
  BOOST_TEST(skewed.local_experts(4096, kRoutes).flops == 1.5 * even, boost::test_tools::tolerance(0.01));
  // Products of 2048 columns instead of 256: fewer, longer ones.
  BOOST_TEST(whole.local_experts(64, kRoutes).seconds < cut.local_experts(64, kRoutes).seconds * 1.05);
}

BOOST_AUTO_TEST_CASE(skewed_routing_fills_one_rank_more_than_others) {
  const ModelShape m = deepseek_v3();
  BOOST_TEST(expert_ranks(m, 16, {}).fullest == 1);
  BOOST_TEST(expert_ranks(m, 16, Routing{0, 1}).fullest == 1, boost::test_tools::tolerance(1e-4));
  const double mild = expert_ranks(m, 16, Routing{0.5, 1}).fullest,
               strong = expert_ranks(m, 16, Routing{1.2, 1}).fullest;
  BOOST_TEST(mild > 1);
  BOOST_TEST(strong > mild);
  BOOST_TEST(strong < 16);
}

// Attention replicas: the tokens of all go to every rank, and the results come back, in each layer with experts only.
BOOST_AUTO_TEST_CASE(replicas_exchange_the_tokens_of_all_in_layers_with_experts) {
  const ModelShape m = deepseek_v3();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer layers(m, 1, timer);
  layers.set_expert_ranks({16, 1});
  LayerSplit split;
  split.replicas = 16;
  LayerPass pass{{}, gpu::one_token_each(std::vector<std::uint64_t>(8, 1000)), kRoutes};
  pass.group_tokens = 16 * 8;
  std::vector<LayerStep> collectives;
  for (const LayerStep& step : plan_layer(m, layers, pass, split))
    if (step.is_collective()) collectives.push_back(step);
  BOOST_TEST_REQUIRE(collectives.size() == 2u);
  BOOST_TEST((collectives[0].operation == collective::Operation::all_gather));
  BOOST_TEST(collectives[0].bytes == 16u * 8 * (7168 + 256) * 2);
  BOOST_TEST((collectives[1].operation == collective::Operation::reduce_scatter));
  BOOST_TEST(collectives[1].bytes == 16u * 8 * 7168 * 2);
  pass.kind = 0;  // dense
  for (const LayerStep& step : plan_layer(m, layers, pass, split)) BOOST_TEST(!step.is_collective());
}

// Four ranks share the attention of a replica with 10 tokens, and route three of them each, two of which are padding; all tokens
// are gathered for the next attention.
BOOST_AUTO_TEST_CASE(ranks_of_a_replica_share_attention_and_route_their_own_tokens) {
  using collective::Operation;
  const ModelShape m = deepseek_v3();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer layers(m, 4, timer), one(m, 1, timer);
  LayerSplit split;
  split.tp = split.replicas = 4;
  split.experts.ranks = 16;
  layers.set_expert_ranks(split.experts);
  LayerPass pass{{}, gpu::one_token_each(std::vector<std::uint64_t>(10, 1000)), kRoutes};
  pass.group_tokens = split.group_tokens(10);
  BOOST_TEST(pass.group_tokens == 48u);
  const Bytes hidden = 7168 * 2;
  using Way = std::tuple<RankGroup, Operation, Bytes>;
  const auto collectives = [&] {
    std::vector<Way> all;
    for (const LayerStep& step : plan_layer(m, layers, pass, split))
      if (step.is_collective()) all.emplace_back(step.group, step.operation, step.bytes);
    return all;
  };
  const Way sum{RankGroup::tp, Operation::all_reduce, 10 * hidden},
      scatter{RankGroup::tp, Operation::reduce_scatter, 12 * hidden},
      gather{RankGroup::tp, Operation::all_gather, 12 * hidden};
  for (const ReplicaSum rule : {ReplicaSum::all_reduce, ReplicaSum::reduce_scatter}) {
    const Way& first = rule == ReplicaSum::all_reduce ? sum : scatter;
    split.experts.sum = rule;
    split.experts.exchange = ExpertExchange::allgather_reducescatter;
    pass.kind = kRoutes;
    BOOST_TEST((collectives() == std::vector<Way>{first,
                                                  {RankGroup::ep, Operation::all_gather, 48 * (hidden + 2 * 256)},
                                                  {RankGroup::ep, Operation::reduce_scatter, 48 * hidden},
                                                  gather}));
    split.experts.exchange = ExpertExchange::all_to_all;
    const Way exchange{RankGroup::ep, Operation::all_to_all, 3 * 8 * hidden};
    BOOST_TEST((collectives() == std::vector<Way>{first, exchange, exchange, gather}));
    pass.kind = 0;  // dense: as without replicas
    BOOST_TEST((collectives() == std::vector<Way>{sum, sum}));
  }
  // The shared expert of three tokens, whole; a rank's quarter of the heads.
  BOOST_TEST(layers.whole_shared_experts(3, kRoutes).flops == one.shared_experts(3, kRoutes).flops);
  BOOST_TEST(layers.whole_shared_experts(3, kRoutes).flops == 2.0 * 3 * 3 * 7168 * 2048,
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(4 * layers.attention_core(pass).flops == one.attention_core(pass).flops,
             boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(whole_experts_divide_the_weights_of_replicas) {
  const ModelShape m = deepseek_v3();
  const Stage all{61, true, true};
  const double experts = 2.0 * 58 * 256 * 3 * 7168 * 2048;
  BOOST_TEST(static_cast<double>(rank_weight_bytes(m, all, 1, 16)) ==
                 static_cast<double>(rank_weight_bytes(m, all, 1)) - experts * 15 / 16,
             boost::test_tools::tolerance(1e-9));
  // Four replicas of four ranks: shared experts are whole on each rank, all else but the experts is divided by four.
  const double shared = 2.0 * 58 * 3 * 7168 * 2048;
  BOOST_TEST(static_cast<double>(rank_weight_bytes(m, all, 4, 4)) ==
                 static_cast<double>(rank_weight_bytes(m, all, 4)) - experts / 4 * 3 / 4 + shared * 3 / 4,
             boost::test_tools::tolerance(1e-9));
}

namespace {

constexpr std::uint64_t kSequence = 4096;

/// Kernels and collectives of the attention of a dense layer.
struct AttentionSteps {
  Segment kernels;
  std::vector<LayerStep> collectives;
};
AttentionSteps training_attention(const ModelShape& m, const LayerSplit& split, Direction direction) {
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer layers(m, split.tp, timer);
  layers.set_training({});
  AttentionSteps found;
  for (const LayerStep& step : plan_layer(m, layers, {{{kSequence, 0}}, {}, 0}, split, direction)) {
    if (step.part != LayerPart::attention) continue;
    step.is_collective() ? found.collectives.push_back(step) : found.kernels.append(step.kernels);
  }
  return found;
}

const double kPairs = kSequence * (kSequence + 1.0) / 2;
const double kProducts =
    2.0 * kSequence * (7168.0 * (1536 + 576) + 1536.0 * 128 * 192 + 512.0 * 128 * 256 + 128.0 * 128 * 7168);

}  // namespace

// Scores over 192 numbers and values of 128 for each of 128 heads; five products backward instead of two, of which three have
// the width of the keys; and two products for each of the five matrices.
BOOST_AUTO_TEST_CASE(training_computes_each_product_and_its_two_gradients) {
  const ModelShape m = deepseek_v3();
  const double attention = 2 * 128 * kPairs * (192 + 128);
  const Segment forward = training_attention(m, {}, Direction::forward).kernels;
  BOOST_TEST(forward.flops == kProducts + attention, kExact);
  const Segment dgrad = training_attention(m, {}, Direction::dgrad).kernels,
                wgrad = training_attention(m, {}, Direction::wgrad).kernels,
                backward = training_attention(m, {}, Direction::backward).kernels;
  BOOST_TEST(wgrad.flops == kProducts, kExact);
  BOOST_TEST(backward.flops == dgrad.flops + wgrad.flops, kExact);
  BOOST_TEST(dgrad.flops == kProducts + flops_of(dgrad, "attention_dgrad"), kExact);
  BOOST_TEST(flops_of(dgrad, "attention_dgrad") == 2.5 * attention, boost::test_tools::tolerance(0.1));
}

// Ranks divide the products up, and repeat those down unless each sees its own tokens. What crosses is as wide as the compressed
// vectors on the way in, and as the hidden state on the way out.
BOOST_AUTO_TEST_CASE(tensor_parallel_training_exchanges_compressed_vectors) {
  const ModelShape m = deepseek_v3();
  const double down = 2.0 * kSequence * 7168 * (1536 + 576);
  for (const bool sequence_parallel : {false, true}) {
    constexpr std::uint32_t kTp = 4;
    LayerSplit split;
    split.tp = kTp;
    split.sequence_parallel = sequence_parallel;
    const AttentionSteps forward = training_attention(m, split, Direction::forward),
                         backward = training_attention(m, split, Direction::backward);
    const double attention = 2 * 128 * kPairs * (192 + 128);
    BOOST_TEST(forward.kernels.flops == (kProducts - down + attention) / kTp + (sequence_parallel ? down / kTp : down),
               kExact);
    constexpr Bytes kCompressed = kSequence * (1536 + 576) * 2, kHidden = kSequence * 7168 * 2;
    const std::vector<Bytes> expected =
        sequence_parallel ? std::vector<Bytes>{kCompressed, kHidden} : std::vector<Bytes>{kHidden};
    BOOST_TEST_REQUIRE(forward.collectives.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) BOOST_TEST(forward.collectives[i].bytes == expected[i]);
    // Backward in the other order.
    const std::vector<Bytes> returned =
        sequence_parallel ? std::vector<Bytes>{kHidden, kCompressed} : std::vector<Bytes>{kCompressed};
    BOOST_TEST_REQUIRE(backward.collectives.size() == returned.size());
    for (std::size_t i = 0; i < returned.size(); ++i) BOOST_TEST(backward.collectives[i].bytes == returned[i]);
  }
}

BOOST_AUTO_TEST_CASE(training_keeps_compressed_and_expanded_tensors) {
  const ModelShape m = deepseek_v3();
  TrainingForm form;
  const auto kept = [&](const LayerSplit& split) {
    Bytes sum = 0;
    for (const KeptTensor& tensor : kept_by_layer(m, 0, {1, kSequence}, split, form))
      if (tensor.name.rfind("attention.", 0) == 0) sum += tensor.bytes;
    return sum;
  };
  // Inputs of the norm and of the products down; compressed vectors before and after their norms; queries, keys, values and
  // output of all heads; statistics.
  const std::uint64_t numbers = 2 * 7168 + 2 * (1536 + 512) + 128 * (192 + 192 + 128 + 128);
  BOOST_TEST(kept({}) == kSequence * (2 * numbers + 4 * 128));
}

BOOST_AUTO_TEST_CASE(ranks_have_whole_copies_of_the_first_matrices) {
  const ModelShape m = deepseek_v3();
  const Stage all{61, true, true};
  const std::uint64_t copied = 61ull * 7168 * (1536 + 576);
  BOOST_TEST(rank_parameters(m, all, 8) == rank_parameters(m, all, 1) / 8 + copied - copied / 8);
  BOOST_TEST(shared_gradients(m, all, false) == 0u);
  BOOST_TEST(shared_gradients(m, all, true) > copied);
}
