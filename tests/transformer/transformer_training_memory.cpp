#define BOOST_TEST_MODULE transformer_training_memory
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/transformer/training_models.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/training_memory.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

Bytes bytes_named(const std::vector<KeptTensor>& tensors, const std::string& name) {
  for (const KeptTensor& tensor : tensors)
    if (tensor.name == name) return tensor.bytes;
  return 0;
}

TrainingForm korthikanti(Recompute recompute) {
  TrainingForm form = unfused_with_dropout();
  form.recompute = recompute;
  form.keep_gathered = false;
  return form;
}

}  // namespace

// Korthikanti et al., arXiv 2205.05198, table 2, to the byte.
BOOST_AUTO_TEST_CASE(a_gpt_layer_keeps_the_bytes_of_table_2) {
  for (const ModelShape& model : {gpt_22b(), gpt_175b()}) {
    const auto kept = [&](Recompute recompute, std::uint64_t b, std::uint32_t t, bool sequence_parallel) {
      return sum_of(kept_by_layer(model, 0, {b, 2048}, {t, sequence_parallel}, korthikanti(recompute)));
    };
    for (const Bytes b : {1, 4}) {
      const Bytes s = 2048, a = model.heads, sbh = s * b * model.hidden, scores = 5 * a * s * s * b;
      BOOST_TEST(kept(Recompute::none, b, 1, false) == 34 * sbh + scores);
      BOOST_TEST(kept(Recompute::selective, b, 1, false) == 34 * sbh);
      BOOST_TEST(kept(Recompute::full, b, 1, false) == 2 * sbh);
      for (const Bytes t : {2, 8}) {
        const auto tp = static_cast<std::uint32_t>(t);
        BOOST_TEST(kept(Recompute::none, b, tp, false) == 10 * sbh + 24 * sbh / t + scores / t);
        BOOST_TEST(kept(Recompute::none, b, tp, true) == 34 * sbh / t + scores / t);
        BOOST_TEST(kept(Recompute::selective, b, tp, false) == 10 * sbh + 24 * sbh / t);
        BOOST_TEST(kept(Recompute::selective, b, tp, true) == 34 * sbh / t);
        BOOST_TEST(kept(Recompute::full, b, tp, false) == 2 * sbh);
        BOOST_TEST(kept(Recompute::full, b, tp, true) == 2 * sbh / t);
      }
    }
  }
}

// Operators of PyTorch in place of Megatron-LM's softmax kernel keep its result in fp32. Without dropout, the product with
// the values keeps it in 16 bits, too; with dropout it keeps what that leaves.
BOOST_AUTO_TEST_CASE(softmax_operators_keep_scores_in_fp32) {
  const ModelShape model = gpt_22b();
  for (const bool dropout : {false, true}) {
    TrainingForm form = korthikanti(Recompute::none);
    form.dropout = dropout;
    const auto scores = [&](Bytes sequences) {
      return sum_of(kept_by_layer(model, 0, {sequences, 2048}, {32, false}, form)) -
             sum_of(kept_by_layer(model, 0, {sequences, 2048}, {32, false}, [&] {
               TrainingForm selective = form;
               selective.recompute = Recompute::selective;
               return selective;
             }()));
    };
    const Bytes numbers = 2 * 2048 * 2048;  // of two heads
    BOOST_TEST(scores(2) == 2 * (dropout ? 5 : 2) * numbers);
    BOOST_TEST(scores(1) == (dropout ? 7 : 6) * numbers);
  }
}

// A kept gathered input has all tokens on every rank: 2sbh instead of 2sbh / t, twice a layer and once in the head.
BOOST_AUTO_TEST_CASE(kept_gathered_inputs_have_all_tokens) {
  const ModelShape model = gpt_22b();
  const MicroBatch batch{4, 2048};
  const LayerSplit split{8, true};
  TrainingForm kept = korthikanti(Recompute::none), again = kept;
  kept.keep_gathered = true;
  const Bytes sbh = batch.tokens() * model.hidden, more = 2 * sbh - 2 * sbh / 8;
  const auto difference = [&](auto tensors) {
    return sum_of(tensors(model, batch, split, kept)) - sum_of(tensors(model, batch, split, again));
  };
  const auto layer = [](const ModelShape& m, const MicroBatch& b, const LayerSplit& s, const TrainingForm& f) {
    return kept_by_layer(m, 0, b, s, f);
  };
  BOOST_TEST(difference(layer) == 2 * more);
  BOOST_TEST(difference([](const auto&... of) { return kept_by_head(of...); }) == more);
}

// Megatron-LM, theoretical_memory_usage.py: sbh (18 + 4 f/h) / t, for any width f of the MLP.
BOOST_AUTO_TEST_CASE(selective_recompute_agrees_with_megatrons_report) {
  ModelShape model = gpt_22b();
  for (const std::uint32_t f : {2 * 6144u, 3 * 6144u, 4 * 6144u}) {
    model.ffn = f;
    const Bytes tokens = 2 * 2048, t = 8;
    BOOST_TEST(sum_of(kept_by_layer(model, 0, {2, 2048}, {8, true}, korthikanti(Recompute::selective))) ==
               tokens * (18 * 6144 + 4 * f) / t);
  }
}

// Grouped heads, a gated MLP, no dropout and a flash kernel: every tensor of a Llama layer.
BOOST_AUTO_TEST_CASE(a_llama_layer_keeps_less_for_grouped_heads_and_flash) {
  const ModelShape model = llama_8b();
  const auto tensors = kept_by_layer(model, 0, {1, 8192}, {2, true}, {});
  const Bytes n = 8192, h = 4096, f = 14336, a = 32, g = 8, d = 128;
  BOOST_TEST(bytes_named(tensors, "attention.queries") == 2 * n * a * d / 2);
  BOOST_TEST(bytes_named(tensors, "attention.keys") == 2 * n * g * d / 2);
  BOOST_TEST(bytes_named(tensors, "attention.statistics") == 4 * n * a / 2);
  BOOST_TEST(bytes_named(tensors, "mlp.activation_input") == 2 * n * 2 * f / 2);
  const Bytes norms = 2 * 2 * n * h / 2, inputs = 2 * 2 * n * h;
  const Bytes attention = (2 * (2 * a + 2 * g) * d + 4 * a) * n / 2, mlp = 2 * 3 * f * n / 2;
  BOOST_TEST(sum_of(tensors) == norms + inputs + attention + mlp);
  TrainingForm selective;
  selective.recompute = Recompute::selective;
  BOOST_TEST(sum_of(tensors) - sum_of(kept_by_layer(model, 0, {1, 8192}, {2, true}, selective)) == 4 * n * a / 2);
  // Operators of eager PyTorch also keep the activated gate, and both norms in fp32.
  TrainingForm eager;
  eager.fused = {false, false, false, false, false};
  BOOST_TEST(sum_of(kept_by_layer(model, 0, {1, 8192}, {2, true}, eager)) - sum_of(tensors) ==
             2 * n * f / 2 + 2 * 4 * n * h / 2);
}

// Two experts a token: the MLP's tensors twice, with the input and output of each routed copy and the router's scores.
BOOST_AUTO_TEST_CASE(a_mixture_of_experts_keeps_routed_copies) {
  const ModelShape routed = mixtral_8x7b();
  ModelShape dense = routed;
  dense.experts = dense.experts_per_token = 0;
  const Bytes n = 4096, h = 4096, f = 14336;
  const Bytes mlp = 2 * 3 * f * n / 4;
  const auto kept = [&](const ModelShape& m) { return sum_of(kept_by_layer(m, 0, {1, 4096}, {4, false}, {})); };
  BOOST_TEST(kept(routed) - kept(dense) == mlp + 2 * 2 * 2 * h * n + 8 * 4 * n);
}

// Qi et al., arXiv 2401.10241, table 1: 32sbh from the dgrad to the wgrad pass.
BOOST_AUTO_TEST_CASE(a_gpt_layer_keeps_32_sbh_for_gradients_of_weights) {
  const ModelShape model = gpt_22b();
  const Bytes sbh = 2 * 2048 * 6144;
  for (const Recompute recompute : {Recompute::none, Recompute::full})
    BOOST_TEST(sum_of(kept_for_wgrad(model, 0, {2, 2048}, {1, false}, korthikanti(recompute))) == 32 * sbh);
  // Divided among t ranks: the inputs of two projections and the gradients of the outputs of two others are whole.
  BOOST_TEST(sum_of(kept_for_wgrad(model, 0, {2, 2048}, {8, false}, korthikanti(Recompute::none))) ==
             8 * sbh + 24 * sbh / 8);
}

// Korthikanti et al., section 4.3: sbh for the dropout of embeddings, 4sbh (1 + v/h) for norm, head and loss, all / t.
BOOST_AUTO_TEST_CASE(ends_keep_mask_inputs_and_logits) {
  const ModelShape model = gpt_22b();
  const Bytes s = 2048, b = 4, h = 6144, v = 51200, sbh = s * b * h;
  const TrainingForm form = korthikanti(Recompute::selective);
  for (const Bytes t : {1, 8}) {
    const LayerSplit split{static_cast<std::uint32_t>(t), t > 1};
    BOOST_TEST(sum_of(kept_by_embedding(model, {b, s}, split, form)) == sbh / t);
    BOOST_TEST(sum_of(kept_by_head(model, {b, s}, split, form)) == 4 * s * b * (h + v) / t);
    BOOST_TEST(sum_of(kept_for_head_wgrad(model, {b, s}, split, form)) == 2 * s * b * (h + v) / t);
  }
}

// Korthikanti et al., figure 1: activations on each GPU in GiB. 22B: one stage, micro-batches of 4 sequences. 175B:
// eight stages with three virtual stages each, so the first stage keeps L (1 + (p - 1) / (p m)) layers.
BOOST_AUTO_TEST_CASE(figure_1_of_korthikanti) {
  const double gib = 1024.0 * 1024 * 1024;
  const auto kept = [&](const ModelShape& model, std::uint64_t b, double layers, bool sequence_parallel,
                        Recompute recompute) {
    return static_cast<double>(
               sum_of(kept_by_layer(model, 0, {b, 2048}, {8, sequence_parallel}, korthikanti(recompute)))) *
           layers / gib;
  };
  const double stashed = 96 * (1 + 7.0 / (8 * 3));
  const auto near = boost::test_tools::tolerance(0.001);
  BOOST_TEST(kept(gpt_22b(), 4, 48, false, Recompute::none) == 59.25, near);
  BOOST_TEST(kept(gpt_175b(), 1, stashed, false, Recompute::none) == 66.84, near);
  BOOST_TEST(kept(gpt_22b(), 4, 48, true, Recompute::selective) == 9.56, near);
  BOOST_TEST(kept(gpt_175b(), 1, stashed, true, Recompute::selective) == 12.35, near);
}

// Megatron-LM, --recompute-modules: outputs of norms, the inside of an MLP and activated rows of experts are not kept.
BOOST_AUTO_TEST_CASE(modules_that_run_again_are_not_kept) {
  constexpr std::uint64_t kTokens = 4096;
  const auto kept = [&](const ModelShape& model, std::initializer_list<RecomputeModule> modules) {
    TrainingForm form;
    form.recompute = modules.size() > 0 ? Recompute::selective : Recompute::none;
    form.modules = {};
    for (const RecomputeModule module : modules) form.modules[static_cast<std::size_t>(module)] = true;
    return sum_of(kept_by_layer(model, 0, {1, kTokens}, {1, false}, form));
  };
  const ModelShape dense = llama_8b(), routed = mixtral_8x7b();
  const Bytes hidden = 2 * kTokens * dense.hidden, wide = 2 * kTokens * dense.ffn, all = kept(dense, {});
  BOOST_TEST(all - kept(dense, {RecomputeModule::core_attn}) == 4 * kTokens * dense.heads);
  BOOST_TEST(all - kept(dense, {RecomputeModule::layernorm}) == 2 * hidden);
  BOOST_TEST(all - kept(dense, {RecomputeModule::mlp}) == 3 * wide);
  BOOST_TEST(all - kept(dense, {RecomputeModule::layernorm, RecomputeModule::mlp}) == 2 * hidden + 3 * wide);
  const Bytes copies = routed.experts_per_token, experts = kept(routed, {});
  BOOST_TEST(experts - kept(routed, {RecomputeModule::moe_act}) == copies * wide);
  BOOST_TEST(experts - kept(routed, {RecomputeModule::moe}) ==
             copies * (3 * wide + 2 * hidden) + 4 * kTokens * routed.experts);
  BOOST_TEST(kept(routed, {RecomputeModule::moe, RecomputeModule::moe_act}) == kept(routed, {RecomputeModule::moe}));
}
