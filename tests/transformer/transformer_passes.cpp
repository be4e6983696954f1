#define BOOST_TEST_MODULE transformer_passes
#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/layer_plan.h"
#include "transformer/parameters.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

/// The kernels of a plan in order.
std::vector<NamedKernel> kernels_of(const std::vector<LayerStep>& plan) {
  std::vector<NamedKernel> kernels;
  for (const LayerStep& step : plan)
    kernels.insert(kernels.end(), step.kernels.kernels.begin(), step.kernels.kernels.end());
  return kernels;
}

LayerPass decodes_of(std::size_t sequences, std::uint64_t context) {
  return {{}, gpu::one_token_each(std::vector<std::uint64_t>(sequences, context)), 0};
}

}  // namespace

// A CUDA graph captured for 16 tokens runs 9 decodes: only attention has the real sequences.
BOOST_AUTO_TEST_CASE(a_padded_pass_takes_the_dense_times_of_its_graph) {
  for (const ModelShape& model : {llama_70b(), mixtral_8x7b()}) {
    gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
    LayerTimer layer(model, 4, timer);
    const LayerSplit split{4, false};
    LayerPass padded = decodes_of(9, 1000);
    padded.padded_tokens = 16;
    const auto nine = plan_layer(model, layer, decodes_of(9, 1000), split);
    const auto sixteen = plan_layer(model, layer, decodes_of(16, 1000), split);
    const auto plan = plan_layer(model, layer, padded, split);
    const auto kernels = kernels_of(plan), of_nine = kernels_of(nine), of_sixteen = kernels_of(sixteen);
    BOOST_REQUIRE(kernels.size() == of_sixteen.size());
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const bool is_attention = std::string(kernels[i].name) == "attention";
      BOOST_TEST(kernels[i].time.seconds == (is_attention ? of_nine : of_sixteen)[i].time.seconds, kernels[i].name);
      if (is_attention) BOOST_TEST(of_nine[i].time.bytes < of_sixteen[i].time.bytes);
    }
    std::size_t collectives = 0;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (!plan[i].is_collective()) continue;
      ++collectives;
      BOOST_TEST(plan[i].bytes == hidden_bytes(model, 16));
      BOOST_TEST(nine[i].bytes == hidden_bytes(model, 9));
    }
    BOOST_TEST(collectives == 2u);
  }
}
