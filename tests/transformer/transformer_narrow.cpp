// Training with narrow products: kernels, FLOPs, times and memory by recipe.
#define BOOST_TEST_MODULE transformer_narrow
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/end_plan.h"
#include "transformer/layer_plan.h"
#include "transformer/parameters.h"
#include "transformer/training_memory.h"
#include "transformer/training_state.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

constexpr std::uint64_t kTokens = 8192;
constexpr std::array<Direction, 2> kBoth{Direction::forward, Direction::backward};

NarrowProducts recipe_of(ScalingRecipe recipe, bool one_layout = true) {
  const DataType type = recipe == ScalingRecipe::mxfp8   ? DataType::mxfp8
                        : recipe == ScalingRecipe::nvfp4 ? DataType::nvfp4
                                                         : DataType::fp8;
  return {type, recipe, WeightCast::step, one_layout};
}

struct Plan {
  std::vector<LayerStep> steps;
  std::map<std::string, int> count;
  std::map<std::string, gpu::KernelTime> kernel;
  Bytes gathered = 0;
  double flops = 0;

  int casts() const {
    int n = 0;
    for (const char* name : {"quantize", "quantize_columns", "amax", "transpose"})
      if (const auto found = count.find(name); found != count.end()) n += found->second;
    return n;
  }
  int operator[](const char* name) const { return count.count(name) > 0 ? count.at(name) : 0; }
};

Plan plan(const ModelShape& model, const char* gpu, const std::optional<NarrowProducts>& narrow, LayerSplit split,
          Direction direction) {
  gpu::KernelTimer kernels(gpu_datasheet(gpu));
  LayerTimer timer(model, split.tp, kernels);
  TrainingForm form;
  form.narrow = narrow;
  timer.set_training(form);
  split.gather_for(form);
  Plan plan;
  plan.steps = plan_layer(model, timer, {{{kTokens, 0}}, {}, 0}, split, direction);
  for (const LayerStep& step : plan.steps) {
    if (step.is_collective() && step.operation == collective::Operation::all_gather) plan.gathered += step.bytes;
    if (step.is_collective() && step.operation == collective::Operation::all_reduce) ++plan.count["AR"];
    plan.flops += step.kernels.flops;
    for (const NamedKernel& kernel : step.kernels.kernels) {
      ++plan.count[kernel.name];
      plan.kernel[kernel.name] = kernel.time;
    }
  }
  return plan;
}

}  // namespace

BOOST_AUTO_TEST_CASE(narrow_products_have_the_same_flops) {
  for (const ModelShape& model : {llama_8b(), mixtral_8x7b()})
    for (const ScalingRecipe recipe : {ScalingRecipe::delayed, ScalingRecipe::tensorwise, ScalingRecipe::rowwise,
                                       ScalingRecipe::mxfp8, ScalingRecipe::nvfp4})
      for (const LayerSplit& split : {LayerSplit{1, false}, LayerSplit{4, true}})
        for (const Direction direction : kBoth)
          BOOST_TEST(plan(model, "B200-SXM-180GB", recipe_of(recipe, false), split, direction).flops ==
                     plan(model, "B200-SXM-180GB", std::nullopt, split, direction).flops);
}

// A dense layer has four operands forward (inputs) and four backward (gradients of results); the norm makes two of them.
BOOST_AUTO_TEST_CASE(each_recipe_has_its_kernels) {
  const auto both = [](ScalingRecipe recipe, bool one_layout, const LayerSplit& split) {
    const char* const gpu = one_layout ? "H100-SXM5-80GB" : "B200-SXM-180GB";
    return std::pair{plan(llama_8b(), gpu, recipe_of(recipe, one_layout), split, Direction::forward),
                     plan(llama_8b(), gpu, recipe_of(recipe, one_layout), split, Direction::backward)};
  };
  const LayerSplit one{1, false}, sequence{4, true};
  {
    const auto [forward, backward] = both(ScalingRecipe::delayed, true, one);
    BOOST_TEST(forward["quantize"] == 2);  // inputs of o_proj and down
    BOOST_TEST(forward.casts() == 2);
    BOOST_TEST(backward["quantize"] == 4);
    BOOST_TEST(backward["transpose"] == 2);  // outputs of the norms
    BOOST_TEST(backward.casts() == 6);
  }
  {
    const auto [forward, backward] = both(ScalingRecipe::delayed, false, one);  // Blackwell reads both layouts
    BOOST_TEST(forward.casts() == 2);
    BOOST_TEST(backward.casts() == 4);
  }
  {
    const auto [forward, backward] = both(ScalingRecipe::tensorwise, true, one);
    BOOST_TEST(forward["amax"] == 4);
    BOOST_TEST(forward["quantize"] == 4);
    BOOST_TEST(backward["amax"] == 4);
    BOOST_TEST(backward.casts() == 8);
    BOOST_TEST(forward["AR"] + backward["AR"] == 0);
  }
  {
    const auto [forward, backward] = both(ScalingRecipe::tensorwise, true, sequence);  // scales of gathered tensors
    BOOST_TEST(forward["AR"] == 2);
    BOOST_TEST(backward["AR"] == 2);
    BOOST_TEST(backward["transpose"] == 4);
  }
  {
    const auto [forward, backward] = both(ScalingRecipe::rowwise, true, one);
    BOOST_TEST(forward["quantize"] == 4);
    BOOST_TEST(forward["quantize_columns"] == 4);
    BOOST_TEST(backward.casts() == 8);
  }
  for (const ScalingRecipe recipe : {ScalingRecipe::mxfp8, ScalingRecipe::nvfp4}) {
    const auto [forward, backward] = both(recipe, false, one);
    BOOST_TEST(forward["quantize"] == 4);
    BOOST_TEST(backward["quantize"] == 4);
    BOOST_TEST(forward["amax"] == (recipe == ScalingRecipe::nvfp4 ? 4 : 0));
    BOOST_TEST(backward["transpose"] == 0);
  }
}

// dgrad and wgrad together are backward: nothing is narrowed twice.
BOOST_AUTO_TEST_CASE(divided_backward_passes_have_the_same_kernels) {
  for (const ScalingRecipe recipe : {ScalingRecipe::delayed, ScalingRecipe::tensorwise, ScalingRecipe::rowwise})
    for (const LayerSplit& split : {LayerSplit{1, false}, LayerSplit{4, true}}) {
      const auto kernels = [&](Direction direction) {
        return plan(mixtral_8x7b(), "H100-SXM5-80GB", recipe_of(recipe), split, direction).count;
      };
      std::map<std::string, int> sum = kernels(Direction::dgrad);
      for (const auto& [name, n] : kernels(Direction::wgrad)) sum[name] += n;
      BOOST_TEST((sum == kernels(Direction::backward)));
    }
}

// Sequence parallelism gathers numbers of a byte where it gathered two; the sum of a rowwise recipe needs 16 bits. The
// fourth gather of a layer with blocks has both directions of the gradient.
BOOST_AUTO_TEST_CASE(gathers_move_narrow_numbers) {
  const LayerSplit split{4, true};
  const ModelShape model = llama_8b();
  const Bytes whole = kTokens * model.hidden;
  const auto gathered = [&](std::optional<NarrowProducts> narrow, Direction direction) {
    return plan(model, "B200-SXM-180GB", narrow, split, direction).gathered;
  };
  for (const Direction direction : kBoth) {
    BOOST_TEST(gathered(std::nullopt, direction) == 2 * 2 * whole);
    BOOST_TEST(gathered(recipe_of(ScalingRecipe::delayed), direction) == 2 * whole);
    BOOST_TEST(gathered(recipe_of(ScalingRecipe::rowwise), direction) == 2 * 2 * whole);
  }
  BOOST_TEST(gathered(recipe_of(ScalingRecipe::mxfp8), Direction::forward) == 2 * whole * 33 / 32);
  BOOST_TEST(gathered(recipe_of(ScalingRecipe::mxfp8), Direction::backward) == 2 * 2 * whole * 33 / 32);
}

// Large products are bound by the tensor cores: they take the ratio of rates, at the sustained efficiency of each type.
// No narrow product of the layer is slower, and attention takes the same time.
BOOST_AUTO_TEST_CASE(products_scale_with_the_tensor_rate) {
  for (const char* name : {"H100-SXM5-80GB", "B200-SXM-180GB"}) {
    const gpu::GpuDatasheet gpu = gpu_datasheet(name);
    const auto work = [&](DataType type) {
      const double share =
          type == DataType::bf16 ? gpu.sm.sustained_efficiency_ratio : gpu.sm.low_precision_sustained_ratio;
      return gpu.sm.flop_per_clock[static_cast<std::size_t>(type)] * share;
    };
    const bool hopper = gpu.architecture == gpu::Architecture::hopper;
    for (const Direction direction : kBoth) {
      const Plan wide = plan(llama_70b(), name, std::nullopt, {1, false}, direction);
      const Plan narrow = plan(llama_70b(), name, recipe_of(ScalingRecipe::delayed, hopper), {1, false}, direction);
      const double ideal = work(DataType::fp8) / work(DataType::bf16);
      for (const auto& [kernel, time] : wide.kernel) {
        const double faster = time.seconds / narrow.kernel.at(kernel).seconds;
        if (time.flops == 0 || kernel == "attention" || kernel == "attention_dgrad") {
          BOOST_TEST(faster >= 1);
          BOOST_TEST(faster < 1.5);  // only the norm writes fewer bytes
        } else {
          BOOST_TEST(faster > 1);
          BOOST_TEST(faster < 1.02 * ideal);
        }
      }
      const char* const large = direction == Direction::forward ? "gate_up" : "gate_up_dgrad";
      BOOST_TEST(wide.kernel.at(large).seconds / narrow.kernel.at(large).seconds > 0.9 * ideal);
    }
  }
}

// A cast moves 2 bytes of each number in and one out; a transposed copy is another byte.
BOOST_AUTO_TEST_CASE(casts_move_the_bytes_of_their_copies) {
  const ModelShape model = llama_70b();  // tensors larger than L2
  const Plan one =
      plan(model, "H100-SXM5-80GB", recipe_of(ScalingRecipe::delayed, false), {1, false}, Direction::forward);
  const Plan two = plan(model, "H100-SXM5-80GB", recipe_of(ScalingRecipe::delayed), {1, false}, Direction::forward);
  const Plan scaled =
      plan(model, "H100-SXM5-80GB", recipe_of(ScalingRecipe::tensorwise), {1, false}, Direction::forward);
  const double numbers = static_cast<double>(kTokens) * model.ffn;  // the last cast is that of down's input
  const auto bytes = [](const Plan& p, const char* name) { return p.kernel.at(name).l2_bytes; };
  BOOST_TEST(bytes(one, "quantize") == 3 * numbers, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(bytes(two, "quantize") == 4 * numbers, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(bytes(scaled, "amax") == 2 * numbers, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(embedding_head_and_router_stay_wide) {
  gpu::KernelTimer kernels(gpu_datasheet("H100-SXM5-80GB"));
  const ModelShape model = mixtral_8x7b();
  LayerTimer wide(model, 1, kernels), narrow(model, 1, kernels);
  TrainingForm form;
  wide.set_training(form);
  form.narrow = recipe_of(ScalingRecipe::tensorwise);
  narrow.set_training(form);
  const auto seconds = [](const std::vector<LayerStep>& steps) {
    double sum = 0;
    for (const LayerStep& step : steps) sum += step.kernels.seconds;
    return sum;
  };
  for (const Direction direction : kBoth) {
    BOOST_TEST(seconds(plan_head(model, wide, kTokens, {}, direction)) ==
               seconds(plan_head(model, narrow, kTokens, {}, direction)));
    BOOST_TEST(seconds(plan_embedding(model, wide, kTokens, {}, direction)) ==
               seconds(plan_embedding(model, narrow, kTokens, {}, direction)));
  }
  BOOST_TEST(wide.route(kTokens).seconds == narrow.route(kTokens).seconds);
}

// Weights that are not kept narrow are narrowed for each product of forward and dgrad.
BOOST_AUTO_TEST_CASE(weights_are_cast_before_each_product_or_once_a_step) {
  NarrowProducts narrow = recipe_of(ScalingRecipe::tensorwise);
  for (const Direction direction : kBoth) {
    BOOST_TEST(plan(llama_8b(), "H100-SXM5-80GB", narrow, {1, false}, direction)["weight_quantize"] == 0);
    NarrowProducts each = narrow;
    each.weight_cast = WeightCast::product;
    const Plan cast = plan(llama_8b(), "H100-SXM5-80GB", each, {1, false}, direction);
    BOOST_TEST(cast["weight_quantize"] == 4);
    BOOST_TEST(cast["weight_amax"] == 4);
  }
}

// Of a Llama layer, in bytes for each token and number: inputs of the four products in the narrow type; the output of
// the flash kernel in 16 bits as well.
BOOST_AUTO_TEST_CASE(a_layer_keeps_narrow_inputs) {
  const ModelShape model = llama_8b();
  const Bytes n = kTokens, h = model.hidden, f = model.ffn;
  const auto kept = [&](std::optional<NarrowProducts> narrow) {
    TrainingForm form;
    form.narrow = narrow;
    return sum_of(kept_by_layer(model, 0, {1, kTokens}, {1, false}, form));
  };
  const Bytes inputs = 3 * n * h + n * f, wide = kept(std::nullopt);
  BOOST_TEST(kept(recipe_of(ScalingRecipe::delayed)) == wide - 2 * inputs + inputs + 2 * n * h);
  BOOST_TEST(kept(recipe_of(ScalingRecipe::mxfp8)) == wide - 2 * inputs + inputs * 33 / 32 + 2 * n * h);
  BOOST_TEST(kept(recipe_of(ScalingRecipe::nvfp4)) == wide - 2 * inputs + inputs * 18 / 32 + 2 * n * h);
}

// Between dgrad and wgrad: inputs and gradients of the four products.
BOOST_AUTO_TEST_CASE(gradients_of_results_are_kept_narrow) {
  const ModelShape model = llama_8b();
  const auto kept = [&](std::optional<NarrowProducts> narrow) {
    TrainingForm form;
    form.narrow = narrow;
    return sum_of(kept_for_wgrad(model, 0, {1, kTokens}, {1, false}, form));
  };
  const Bytes wide = kept(std::nullopt);
  BOOST_TEST(kept(recipe_of(ScalingRecipe::delayed)) == wide / 2);
  BOOST_TEST(kept(recipe_of(ScalingRecipe::mxfp8)) == wide / 2 * 33 / 32);
}

BOOST_AUTO_TEST_CASE(narrow_weights_are_kept_beside_wide_ones) {
  const ModelShape model = llama_8b();
  const Stage all{model.layers, true, true, 0};
  const std::uint64_t h = model.hidden, f = model.ffn, kv = std::uint64_t(model.kv_heads) * model.head_dim;
  const std::uint64_t weights = model.layers * (2 * h * h + 2 * h * kv + 3 * h * f);
  BOOST_TEST(rank_projection_weights(model, all, 1, 1) == weights);
  BOOST_TEST(rank_projection_weights(model, all, 4, 1) == weights / 4);
  const auto bytes = [&](const NarrowProducts& narrow) {
    TrainingForm form;
    form.narrow = narrow;
    return narrow_weight_bytes(weights, form);
  };
  BOOST_TEST(bytes(recipe_of(ScalingRecipe::delayed)) == 2 * weights);
  BOOST_TEST(bytes(recipe_of(ScalingRecipe::delayed, false)) == weights);
  BOOST_TEST(bytes(recipe_of(ScalingRecipe::mxfp8, false)) == 2 * weights * 33 / 32);
  BOOST_TEST(bytes(recipe_of(ScalingRecipe::nvfp4, false)) == 2 * weights * 18 / 32);
  NarrowProducts each = recipe_of(ScalingRecipe::tensorwise);
  each.weight_cast = WeightCast::product;
  BOOST_TEST(bytes(each) == 0);
  BOOST_TEST(narrow_weight_bytes(weights, TrainingForm()) == 0);
  // Experts: each of ep ranks has its share.
  const ModelShape routed = mixtral_8x7b();
  const Stage layer{1, false, false, 0};
  const std::uint64_t expert = 3ull * routed.hidden * routed.ffn;
  BOOST_TEST(rank_projection_weights(routed, layer, 1, 1) - rank_projection_weights(routed, layer, 1, 4) == 6 * expert);
}
