#define BOOST_TEST_MODULE transformer_adapters
#include <boost/test/unit_test.hpp>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/layer_plan.h"
#include "transformer/training_flops.h"
#include "transformer/training_memory.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace tt = boost::test_tools;

namespace {

constexpr std::uint64_t kTokens = 2048;

ModelShape llama_2(const char* name, std::uint32_t layers, std::uint32_t hidden, std::uint32_t heads,
                   std::uint32_t kv_heads, std::uint32_t ffn) {
  ModelShape model = dense_model(name, layers, hidden, heads, ffn, 32000);
  model.kv_heads = kv_heads;
  return model;
}

double flops_of(const std::vector<LayerStep>& steps) {
  double flops = 0;
  for (const LayerStep& step : steps) flops += step.kernels.flops;
  return flops;
}

}  // namespace

// 32 x 16 x (4 (4096 + 4096) + 3 (4096 + 11008)) beside all seven matrices of Llama-2-7B; 80 x 16 x ((8192 + 10240) + (8192 + 8192))
// beside the fused matrix of queries, keys and values and the output projection of Llama-2-70B.
BOOST_AUTO_TEST_CASE(adapters_have_the_parameters_of_their_matrices) {
  const ModelShape small = llama_2("llama-2-7b", 32, 4096, 32, 32, 11008);
  const ModelShape large = llama_2("llama-2-70b", 80, 8192, 64, 8, 28672);
  BOOST_TEST(adapter_parameters(small, {32, true, true, 0}, {16, {true, true, true, true}, true}, 1) == 39976960u);
  BOOST_TEST(adapter_parameters(large, {80, true, true, 0}, {16, {true, true, false, false}, false}, 1) == 44564480u);
}

BOOST_AUTO_TEST_CASE(tensor_parallel_ranks_divide_what_the_matrix_divides) {
  const ModelShape model = llama_70b();
  const Adapters adapters{8, {true, true, true, true}, false};
  const Stage layer{1, false, false, 0};
  const std::uint64_t h = model.hidden, qkv = (64 + 16) * 128, attended = 64 * 128, f = model.ffn;
  for (const std::uint64_t t : {1, 2, 8}) {
    const auto tp = static_cast<std::uint32_t>(t);
    const std::uint64_t alike = 8 * (h + h + h + h), divided = 8 * (qkv + attended + 2 * f + f) / t;
    BOOST_TEST(adapter_parameters(model, layer, adapters, tp) == alike + divided);
    BOOST_TEST(shared_adapter_parameters(model, layer, adapters, tp) == (t == 1 ? 0 : alike));
  }
}

// With W weights and P of adapters in a layer: 2 (W + P) forward, 2 W + 4 P backward, and attention as before.
BOOST_AUTO_TEST_CASE(frozen_matrices_have_no_products_for_gradients) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const ModelShape model = llama_8b();
  const LayerPass pass{{{kTokens, 0}}, {}, 0};
  const double weights = multiplied_weights(model, model.layer(0)), m = kTokens;
  for (const std::uint32_t rank : {8u, 64u})
    for (const bool everywhere : {true, false})
      for (const std::uint32_t tp : {1u, 4u}) {
        TrainingForm form;
        LayerTimer all(model, tp, gpu), adapted(model, tp, gpu);
        all.set_training(form);
        form.adapters = Adapters{rank, {true, true, everywhere, everywhere}, false};
        adapted.set_training(form);
        const double parameters =
            static_cast<double>(adapter_parameters(model, {1, false, false, 0}, *form.adapters, tp));
        const LayerSplit split{tp, false};
        const auto more = [&](Direction direction) {
          return flops_of(plan_layer(model, adapted, pass, split, direction)) -
                 flops_of(plan_layer(model, all, pass, split, direction));
        };
        BOOST_TEST(more(Direction::forward) == 2 * m * parameters, tt::tolerance(1e-9));
        BOOST_TEST(more(Direction::backward) == 4 * m * parameters - 2 * m * weights / tp, tt::tolerance(1e-9));
      }
}

BOOST_AUTO_TEST_CASE(flops_of_the_model_count_frozen_weights_twice) {
  const ModelShape model = llama_8b();
  const Adapters adapters{16, {true, true, true, true}, false};
  const auto flops = [&](const Adapters* of) {
    return training_flops(model, 1, kTokens, CountedKeys::causal, Recompute::none, of);
  };
  const double head = static_cast<double>(model.vocab) * model.hidden;
  const double frozen = model.layers * multiplied_weights(model, model.layer(0)) + head;
  const auto parameters = static_cast<double>(adapter_parameters(model, {model.layers, true, true, 0}, adapters, 1));
  BOOST_TEST(flops(nullptr) - flops(&adapters) == 2.0 * kTokens * frozen - 6.0 * kTokens * parameters,
             tt::tolerance(1e-9));
}

// What an adapter keeps is the input of its matrix and r numbers for each token; beside a frozen matrix without an adapter,
// nothing is kept but what activation and attention need.
BOOST_AUTO_TEST_CASE(frozen_matrices_keep_no_inputs) {
  const ModelShape model = llama_8b();
  const auto kept = [&](const std::optional<Adapters>& adapters) {
    TrainingForm form;
    form.adapters = adapters;
    return sum_of(kept_by_layer(model, 0, {1, kTokens}, {1, false}, form));
  };
  const Bytes all = kept(std::nullopt), of_rank = 2 * kTokens * 16;
  BOOST_TEST(kept(Adapters{16, {true, true, true, true}, false}) == all + 4 * of_rank);
  BOOST_TEST(kept(Adapters{16, {true, true, false, false}, false}) ==
             all + 2 * of_rank - 2 * kTokens * (model.hidden + model.ffn));
  BOOST_TEST(kept(Adapters{16, {true, true, true, true}, true}) == all + 7 * of_rank);
}
