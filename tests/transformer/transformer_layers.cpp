#define BOOST_TEST_MODULE transformer_layers
#include <boost/test/unit_test.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/layer_plan.h"
#include "transformer/linears.h"
#include "transformer/parameters.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

std::vector<std::string> names(const Segment& segment) {
  std::vector<std::string> result;
  for (const NamedKernel& kernel : segment.kernels) result.push_back(kernel.name);
  return result;
}

gpu::KernelTime find(const Segment& segment, const std::string& name) {
  for (const NamedKernel& kernel : segment.kernels)
    if (kernel.name == name) return kernel.time;
  throw std::out_of_range(name);
}

double weight_bytes(const ModelShape& m) {
  const LayerParameters p = layer_parameters(m);
  return static_cast<double>(p.total() - p.norms) * bytes_of(m.dtype);
}

}  // namespace

BOOST_AUTO_TEST_CASE(segments_hold_the_layers_kernels_in_order) {
  gpu::KernelTimer timer(gpu_datasheet("L40S"));
  LayerTimer dense(llama_70b(), 4, timer), experts(mixtral_8x7b(), 4, timer);
  using Names = std::vector<std::string>;
  const Names attention{"rmsnorm", "qkv", "rotary", "attention", "o_proj"};
  const Names mlp{"rmsnorm", "gate_up", "activation", "down"};
  const Names moe{"rmsnorm", "router", "top_k", "permute", "align", "gate_up", "activation", "down", "combine"};
  const Names head{"rmsnorm", "lm_head", "sampling"};
  BOOST_TEST(names(prefill_attention(dense, 256, 0)) == attention, boost::test_tools::per_element());
  BOOST_TEST(names(decode_attention(dense, {100, 200})) == attention, boost::test_tools::per_element());
  BOOST_TEST(names(test::mlp(dense, 256)) == mlp, boost::test_tools::per_element());
  BOOST_TEST(names(test::mlp(experts, 256)) == moe, boost::test_tools::per_element());
  BOOST_TEST(names(dense.head(1)) == head, boost::test_tools::per_element());
  const Segment segment = test::mlp(dense, 256);
  double sum = 0;
  for (const NamedKernel& kernel : segment.kernels) sum += kernel.time.seconds;
  BOOST_TEST(segment.seconds == sum);
}

// The ranks' useful FLOPs together are the layer's, for every even tensor-parallel split.
BOOST_AUTO_TEST_CASE(ranks_share_the_layers_flops) {
  const ModelShape m = llama_70b();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  for (const std::uint32_t tp : {1u, 2u, 4u, 8u}) {
    LayerTimer layer(m, tp, timer);
    for (const std::uint64_t start : {0, 512, 4096}) {
      const double prefill = prefill_attention(layer, 512, start).flops + mlp(layer, 512).flops;
      BOOST_TEST(prefill * tp == prefill_flops(m, 1, 512, start), boost::test_tools::tolerance(1e-13));
    }
    const std::vector<std::uint64_t> context{10, 4000, 300};
    const double decode = decode_attention(layer, context).flops + mlp(layer, 3).flops;
    BOOST_TEST(decode * tp == decode_flops(m, 1, context), boost::test_tools::tolerance(1e-13));
    BOOST_TEST(layer.head(2).flops * tp == head_flops(m, 2));
  }
}

BOOST_AUTO_TEST_CASE(experts_multiply_only_routed_rows) {
  const ModelShape m = mixtral_8x7b();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer layer(m, 1, timer);
  // 1024 x 2 routed rows divide evenly over 8 experts.
  BOOST_TEST(prefill_attention(layer, 1024, 0).flops + mlp(layer, 1024).flops == prefill_flops(m, 1, 1024, 0),
             boost::test_tools::tolerance(1e-13));
}

// A token reaches two experts, and reads only their weights; a large batch reads all eight.
BOOST_AUTO_TEST_CASE(small_batches_read_few_experts) {
  const ModelShape m = mixtral_8x7b();
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer layer(m, 1, timer);
  BOOST_TEST(layer.active_experts(1) == 2u);
  BOOST_TEST(layer.active_experts(2) == 4u);  // 8 (1 - 0.75^2) = 3.5
  BOOST_TEST(layer.active_experts(64) == 8u);
  const double expert = 3.0 * 4096 * 14336 * 2;
  BOOST_TEST(mlp(layer, 1).bytes == 2 * expert, boost::test_tools::tolerance(0.01));
  BOOST_TEST(mlp(layer, 64).bytes == 8 * expert, boost::test_tools::tolerance(0.02));
  BOOST_TEST(LayerTimer(llama_70b(), 1, timer).active_experts(7) == 0u);
}

// A decode step of a small batch is bound by reading every weight once.
BOOST_AUTO_TEST_CASE(decode_reads_the_layers_weights) {
  for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "L40S"}) {
    const gpu::GpuDatasheet sheet = gpu_datasheet(name);
    gpu::KernelTimer timer(sheet);
    LayerTimer layer(llama_70b(), 1, timer);
    const std::vector<std::uint64_t> context(4, 128);
    const double seconds = decode_attention(layer, context).seconds + mlp(layer, 4).seconds;
    const double weights = weight_bytes(llama_70b()) / sheet.gemm_hbm_bytes_per_s();
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(seconds > weights);
      BOOST_TEST(seconds < 1.15 * weights + 40e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(later_chunks_take_longer_in_attention_only) {
  gpu::KernelTimer timer(gpu_datasheet("L40S"));
  LayerTimer layer(llama_70b(), 4, timer);
  const Segment first = prefill_attention(layer, 256, 0), later = prefill_attention(layer, 256, 768);
  BOOST_TEST(find(later, "attention").seconds > find(first, "attention").seconds);
  BOOST_TEST(find(later, "qkv").seconds == find(first, "qkv").seconds);
  BOOST_TEST(find(later, "o_proj").seconds == find(first, "o_proj").seconds);
}

BOOST_AUTO_TEST_CASE(tensor_parallel_ranks_are_faster_but_never_tp_times) {
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer one(llama_70b(), 1, timer), eight(llama_70b(), 8, timer);
  const double whole = prefill_attention(one, 1024, 1024).seconds + mlp(one, 1024).seconds;
  const double shard = prefill_attention(eight, 1024, 1024).seconds + mlp(eight, 1024).seconds;
  BOOST_TEST(shard < whole / 2);
  BOOST_TEST(shard > whole / 8);
}

// 16 ranks over 8 KV heads: each holds one, so its qkv product is as wide as its queries plus one key and one value
// head.
BOOST_AUTO_TEST_CASE(replicated_kv_heads_widen_the_projection) {
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer sixteen(llama_70b(), 16, timer);
  const double flops = find(prefill_attention(sixteen, 256, 0), "qkv").flops;
  BOOST_TEST(flops == 2.0 * 256 * 8192 * (4 + 2 * 1) * 128);
  const double sharded = 2.0 * 256 * 8192 * (64 + 2 * 8) * 128 / 16;
  BOOST_TEST(flops > sharded);
}

BOOST_AUTO_TEST_CASE(head_reads_its_share_of_the_vocabulary) {
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  LayerTimer layer(llama_70b(), 8, timer);
  const gpu::KernelTime head = find(layer.head(1), "lm_head");
  BOOST_TEST(head.bytes == 128256.0 / 8 * 8192 * 2, boost::test_tools::tolerance(0.001));
  BOOST_TEST(layer.embedding(1024).bytes == 1024.0 * 8192 * 2);
}

BOOST_AUTO_TEST_CASE(layers_share_the_timers_memory) {
  gpu::KernelTimer timer(gpu_datasheet("L40S"));
  LayerTimer layer(llama_70b(), 4, timer);
  prefill_attention(layer, 256, 0);
  mlp(layer, 256);
  BOOST_TEST(timer.remembered() == 4u);
  for (std::uint64_t start = 256; start < 4096; start += 256) prefill_attention(layer, 256, start), mlp(layer, 256);
  BOOST_TEST(timer.remembered() == 4u);
}

// Formats of their own: bytes in HBM reads, a kernel in front where scales are found as it runs, and what tensor cores lack is
// widened.
BOOST_AUTO_TEST_CASE(quantised_weights_have_kernels_of_their_own) {
  const auto mlp_of = [](const ModelShape& model, std::uint32_t tp, gpu::KernelTimer& gpu, std::uint64_t tokens) {
    LayerTimer timer(model, tp, gpu);
    return mlp(timer, tokens);
  };
  gpu::KernelTimer hopper(gpu_datasheet("H100-SXM5-80GB")), ampere(gpu_datasheet("A100-SXM4-80GB"));
  WeightFormat int4{"int4", 0.52, DataType::bf16, true, false}, fp8{"fp8", 1, DataType::fp8, false, true};
  ModelShape m = llama_70b();
  const double wide = mlp_of(m, 1, hopper, 1).bytes;
  m.kinds[0].mlp = int4;
  BOOST_TEST(mlp_of(m, 1, hopper, 1).bytes == 0.26 * wide, boost::test_tools::tolerance(0.01));
  BOOST_TEST(names(mlp_of(m, 1, hopper, 1)) == names(mlp_of(llama_70b(), 1, hopper, 1)),
             boost::test_tools::per_element());
  m.kinds[0].mlp = fp8;
  using Names = std::vector<std::string>;
  BOOST_TEST(
      names(mlp_of(m, 1, hopper, 64)) == (Names{"rmsnorm", "quantize", "gate_up", "activation", "quantize", "down"}),
      boost::test_tools::per_element());
  BOOST_TEST(names(mlp_of(m, 1, ampere, 64)) == (Names{"rmsnorm", "gate_up", "activation", "down"}),
             boost::test_tools::per_element());
  BOOST_TEST(mlp_of(m, 1, ampere, 1).bytes > wide / 2);
  BOOST_TEST(mlp_of(m, 1, ampere, 1).bytes < 1.05 * wide / 2);
  // Of 4096 rows, fp8 takes about half of bf16's time on Hopper, and no less on Ampere.
  const double bf16 = mlp_of(llama_70b(), 1, hopper, 4096).seconds;
  BOOST_TEST(mlp_of(m, 1, hopper, 4096).seconds < 0.75 * bf16);
  BOOST_TEST(mlp_of(m, 1, ampere, 4096).seconds > mlp_of(llama_70b(), 1, ampere, 4096).seconds);
}

// Products of block-scaled weights run in the engine's library for the GPU, if n and k are its multiples.
BOOST_AUTO_TEST_CASE(block_scaled_products_run_in_the_engines_library) {
  const std::vector<gpu::BlockScaledProducts> products{
      {{gpu::Architecture::hopper}, gpu::GemmLibrary::deepgemm, 128, 128, 0}};
  const auto down = [&](const char* gpu_name, const WeightFormat& format, std::uint32_t tp) {
    gpu::KernelTimer kernels(gpu_datasheet(gpu_name));
    ModelShape m = llama_70b();
    m.kinds[0].mlp = format;
    LayerTimer timer(m, tp, kernels);
    timer.set_libraries(gpu::AttentionLibrary::flash, products);
    return mlp(timer, 64).kernels.back().time;
  };
  const WeightFormat by_tensor{"fp8", 1, DataType::fp8, false, true, false};
  const WeightFormat by_block{"fp8", 1, DataType::fp8, false, true, true};
  const auto deepgemm = [](const gpu::KernelTime& time) { return time.tile_m == 64 && time.tile_n == 64; };
  BOOST_TEST(deepgemm(down("H100-SXM5-80GB", by_block, 1)));  // 128 tiles of 64 x 64
  BOOST_TEST(down("H100-SXM5-80GB", by_block, 1).seconds > down("H100-SXM5-80GB", by_tensor, 1).seconds);
  BOOST_TEST(down("B200-SXM-180GB", by_block, 1).seconds == down("B200-SXM-180GB", by_tensor, 1).seconds);
  // On 64 ranks, k is 448, no multiple of 128.
  BOOST_TEST(down("H100-SXM5-80GB", by_block, 64).seconds == down("H100-SXM5-80GB", by_tensor, 64).seconds);
}

// A kernel's name is a label: what the code asks is in the kernel's use and role.
BOOST_AUTO_TEST_CASE(each_matrix_has_one_product_of_each_kind_in_a_layer) {
  gpu::KernelTimer timer(gpu_datasheet("H100-SXM5-80GB"));
  for (const ModelShape& model : {llama_70b(), mixtral_8x7b()}) {
    LayerTimer layers(model, 8, timer);
    layers.set_training({});
    std::map<std::pair<Linear, Product>, int> uses;
    for (const Direction direction : {Direction::forward, Direction::backward})
      for (const LayerStep& step : plan_layer(model, layers, {{{4096, 0}}, {}}, {8}, direction))
        for (const NamedKernel& kernel : step.kernels.kernels)
          if (kernel.use) ++uses[{kernel.use->linear, kernel.use->product}];
    for (const Linear linear : layer_linears(model, 0))
      for (const Product product : {Product::fprop, Product::dgrad, Product::wgrad})
        BOOST_TEST((uses[{linear, product}]) == 1);
    BOOST_TEST(uses.size() == 3 * layer_linears(model, 0).size());
  }
}
