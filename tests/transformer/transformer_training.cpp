#define BOOST_TEST_MODULE transformer_training
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/training_models.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/end_plan.h"
#include "transformer/layer_plan.h"
#include "transformer/parameters.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

constexpr std::uint64_t kTokens = 2048;

const char* short_name(collective::Operation operation) {
  if (operation == collective::Operation::all_reduce) return "AR";
  return operation == collective::Operation::all_gather ? "AG" : "RS";
}

/// Kernels and collectives of a plan: name or operation, and what they cost. Sorted, to compare plans of another order.
using Work = std::vector<std::tuple<std::string, double, double, double>>;

Work work_of(const std::vector<LayerStep>& steps) {
  Work work;
  for (const LayerStep& step : steps) {
    if (step.is_collective()) work.emplace_back(short_name(step.operation), static_cast<double>(step.bytes), 0, 0);
    for (const NamedKernel& kernel : step.kernels.kernels)
      work.emplace_back(kernel.name, kernel.time.seconds, kernel.time.flops, kernel.time.bytes);
  }
  std::sort(work.begin(), work.end());
  return work;
}

std::vector<LayerStep> joined(std::vector<LayerStep> first, const std::vector<LayerStep>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

LayerPass whole_sequences(std::uint64_t count) { return {{count, {kTokens, 0}}, {}, 0}; }

std::vector<std::string> names_of(const std::vector<LayerStep>& steps) {
  std::vector<std::string> names;
  for (const LayerStep& step : steps) {
    if (step.is_collective()) names.emplace_back(short_name(step.operation));
    for (const NamedKernel& kernel : step.kernels.kernels) names.emplace_back(kernel.name);
  }
  return names;
}

TrainingForm gathering_again() {
  TrainingForm form;
  form.keep_gathered = false;
  return form;
}

bool has_dgrad_last(const LayerStep& step) {
  const std::string name = step.kernels.kernels.back().name, ending = "_dgrad";
  return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

double flops_of(const std::vector<LayerStep>& steps) {
  double flops = 0;
  for (const LayerStep& step : steps) flops += step.kernels.flops;
  return flops;
}

}  // namespace

BOOST_AUTO_TEST_CASE(dgrad_and_wgrad_are_the_backward_pass) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const LayerPass pass = whole_sequences(2);
  for (const ModelShape& model : {llama_8b(), mixtral_8x7b()}) {
    for (const LayerSplit& split : {LayerSplit{1, false}, LayerSplit{4, false}, LayerSplit{4, true}}) {
      LayerTimer timer(model, split.tp, gpu);
      const auto plan = [&](Direction direction) { return plan_layer(model, timer, pass, split, direction); };
      const auto dgrad = plan(Direction::dgrad), wgrad = plan(Direction::wgrad);
      BOOST_TEST((work_of(joined(dgrad, wgrad)) == work_of(plan(Direction::backward))));
      BOOST_TEST(std::none_of(wgrad.begin(), wgrad.end(), [](const LayerStep& s) { return s.is_collective(); }));
      // Each product of the forward pass has one product of each kind, attention has five for two.
      const double attention = 4.0 * model.heads * model.head_dim * 2 * gpu::causal_pairs({kTokens, 0}) / split.tp;
      const double forward = flops_of(plan(Direction::forward)) - attention;
      BOOST_TEST(flops_of(wgrad) == forward, boost::test_tools::tolerance(1e-13));
      BOOST_TEST(flops_of(dgrad) == forward + 2.5 * attention, boost::test_tools::tolerance(1e-13));
    }
  }
}

// With the default form there is no second gather. Without kept inputs there is one for each projection whose input is
// gathered, in the slot with its wgrad product, and it runs beside one product.
BOOST_AUTO_TEST_CASE(sharded_inputs_are_gathered_again_beside_a_product) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const LayerPass pass = whole_sequences(1);
  const LayerSplit split{8, true};
  const ModelShape dense = llama_8b(), routed = mixtral_8x7b();
  for (const ModelShape* model : {&dense, &routed}) {
    LayerTimer kept(*model, split.tp, gpu), again(*model, split.tp, gpu);
    kept.set_training({});
    again.set_training(gathering_again());
    for (const Direction direction : {Direction::forward, Direction::backward, Direction::dgrad, Direction::wgrad}) {
      std::vector<LayerStep> steps = plan_layer(*model, again, pass, split, direction), others;
      std::vector<std::string> beside;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!steps[i].beside_next) {
          others.push_back(steps[i]);
          continue;
        }
        BOOST_TEST((steps[i].operation == collective::Operation::all_gather));
        BOOST_TEST(steps[i].bytes == hidden_bytes(*model, kTokens));
        beside.emplace_back(steps.at(i + 1).kernels.kernels.back().name);
        BOOST_TEST(steps.at(i + 2).kernels.kernels.size() == 1u);
      }
      BOOST_TEST((work_of(others) == work_of(plan_layer(*model, kept, pass, split, direction))));
      std::vector<std::string> expected;
      if (direction == Direction::backward) expected = {"gate_up_dgrad", "qkv_dgrad"};
      if (direction == Direction::wgrad) expected = {"down_wgrad", "o_proj_wgrad"};
      if (model == &routed && !expected.empty()) expected.erase(expected.begin());
      BOOST_TEST(beside == expected, boost::test_tools::per_element());
    }
  }
}

// Megatron-LM's order of a whole backward pass: the sum over the ranks starts after dgrad, and runs beside wgrad.
BOOST_AUTO_TEST_CASE(gradients_are_summed_beside_a_product) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const LayerPass pass = whole_sequences(1);
  const ModelShape dense = llama_8b(), routed = mixtral_8x7b();
  TrainingForm form = gathering_again();
  form.input_reduce.fill(InputReduce::beside_wgrad);
  for (const ModelShape* model : {&dense, &routed}) {
    for (const LayerSplit& split : {LayerSplit{1, false}, LayerSplit{8, false}, LayerSplit{8, true}}) {
      LayerTimer serial(*model, split.tp, gpu), overlapped(*model, split.tp, gpu);
      serial.set_training(gathering_again());
      overlapped.set_training(form);
      for (const Direction direction : {Direction::dgrad, Direction::wgrad})
        BOOST_TEST((names_of(plan_layer(*model, overlapped, pass, split, direction)) ==
                    names_of(plan_layer(*model, serial, pass, split, direction))));
      const auto steps = plan_layer(*model, overlapped, pass, split, Direction::backward);
      BOOST_TEST((work_of(steps) == work_of(plan_layer(*model, serial, pass, split, Direction::backward))));
      std::vector<std::string> beside;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        if (!steps[i].beside_next || steps[i].operation == collective::Operation::all_gather) continue;
        BOOST_TEST(has_dgrad_last(steps.at(i - 1)));
        BOOST_TEST(steps.at(i + 1).kernels.kernels.size() == 1u);
        beside.emplace_back(steps[i + 1].kernels.kernels.front().name);
      }
      std::vector<std::string> expected;
      if (split.tp > 1) expected = {"gate_up_wgrad", "qkv_wgrad"};
      if (model == &routed && split.tp > 1) expected.erase(expected.begin());  // the MLP's sum follows its last kernel
      BOOST_TEST(beside == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(ends_hold_the_steps_of_a_divided_vocabulary) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  using Names = std::vector<std::string>;
  const auto names = [&](auto plan, const ModelShape& model, const LayerSplit& split, Direction direction) {
    LayerTimer timer(model, split.tp, gpu);
    return names_of(plan(model, timer, kTokens, split, direction));
  };
  const ModelShape llama = llama_8b(), learned = gpt_22b();
  const LayerSplit one{1, false}, eight{8, false}, sequence{8, true};
  const auto forward = Direction::forward, backward = Direction::backward;
  BOOST_TEST((names(plan_embedding, llama, one, forward) == Names{"embedding"}));
  BOOST_TEST((names(plan_embedding, llama, eight, forward) == Names{"embedding", "AR"}));
  BOOST_TEST((names(plan_embedding, llama, sequence, forward) == Names{"embedding", "RS"}));
  BOOST_TEST((names(plan_embedding, learned, sequence, forward) == Names{"embedding", "AR", "positions"}));
  BOOST_TEST((names(plan_embedding, llama, eight, backward) == Names{"embedding_wgrad"}));
  BOOST_TEST((names(plan_embedding, llama, sequence, backward) == Names{"AG", "embedding_wgrad"}));
  BOOST_TEST((names(plan_embedding, learned, sequence, backward) == Names{"AG", "positions_wgrad", "embedding_wgrad"}));
  BOOST_TEST((names(plan_head, llama, one, forward) ==
              Names{"rmsnorm", "lm_head", "logits_maximum", "logits_exponentials", "loss"}));
  BOOST_TEST((names(plan_head, llama, sequence, forward) ==
              Names{"rmsnorm", "AG", "lm_head", "logits_maximum", "AR", "logits_exponentials", "AR", "AR", "loss"}));
  BOOST_TEST((names(plan_head, llama, eight, backward) ==
              Names{"loss_dgrad", "lm_head_dgrad", "lm_head_wgrad", "AR", "rmsnorm_dgrad"}));
  BOOST_TEST((names(plan_head, llama, sequence, backward) ==
              Names{"loss_dgrad", "lm_head_dgrad", "lm_head_wgrad", "RS", "rmsnorm_dgrad"}));
}

BOOST_AUTO_TEST_CASE(ends_multiply_and_move_what_closed_forms_say) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  for (const ModelShape& model : {llama_8b(), gpt_22b()}) {
    for (const LayerSplit& split : {LayerSplit{1, false}, LayerSplit{8, false}, LayerSplit{8, true}}) {
      LayerTimer timer(model, split.tp, gpu);
      const auto ends = [&](Direction direction) {
        return joined(plan_embedding(model, timer, kTokens, split, direction),
                      plan_head(model, timer, kTokens, split, direction));
      };
      const double head = head_flops(model, kTokens) / split.tp;
      BOOST_TEST(flops_of(ends(Direction::forward)) == head);
      BOOST_TEST(flops_of(ends(Direction::backward)) == 2 * head);
      BOOST_TEST(
          (work_of(joined(ends(Direction::dgrad), ends(Direction::wgrad))) == work_of(ends(Direction::backward))));
      if (split.tp == 1) continue;
      // Sums of embeddings, the head's input or its gradient, and three fp32 for each token.
      Bytes bytes = 0;
      for (const LayerStep& step : ends(Direction::forward)) bytes += step.bytes;
      const Bytes activations = 2 * kTokens * model.hidden;
      BOOST_TEST(bytes == (split.sequence_parallel ? 2 : 1) * activations + 3 * 4 * kTokens);
    }
  }
}

// The head's input is gathered again before its wgrad product, in a slot of its own beside nothing.
BOOST_AUTO_TEST_CASE(the_heads_input_is_gathered_again) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const ModelShape model = llama_8b();
  LayerTimer timer(model, 8, gpu);
  timer.set_training(gathering_again());
  using Names = std::vector<std::string>;
  auto steps = plan_head(model, timer, kTokens, {8, true}, Direction::backward);
  BOOST_TEST((names_of(steps) == Names{"loss_dgrad", "AG", "lm_head_dgrad", "lm_head_wgrad", "RS", "rmsnorm_dgrad"}));
  BOOST_TEST(steps.at(1).beside_next);
  steps = plan_head(model, timer, kTokens, {8, true}, Direction::wgrad);
  BOOST_TEST((names_of(steps) == Names{"AG", "lm_head_wgrad"}));
  BOOST_TEST(!steps.at(0).beside_next);
}

BOOST_AUTO_TEST_CASE(recompute_runs_attention_or_the_layer_again) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const ModelShape model = llama_8b();
  const LayerSplit split{8, true};
  LayerTimer timer(model, split.tp, gpu);
  const LayerPass pass = whole_sequences(2);
  const auto again = [&](Recompute recompute) {
    TrainingForm form;
    form.recompute = recompute;
    timer.set_training(form);
    return plan_recompute(model, timer, pass, split);
  };
  BOOST_TEST(again(Recompute::none).empty());
  BOOST_TEST((names_of(again(Recompute::selective)) == std::vector<std::string>{"attention"}));
  BOOST_TEST((work_of(again(Recompute::full)) == work_of(plan_layer(model, timer, pass, split))));
}

BOOST_AUTO_TEST_CASE(recompute_that_stops_early_leaves_out_the_last_product) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const ModelShape model = llama_8b();
  const LayerSplit split{8, true};
  LayerTimer timer(model, split.tp, gpu);
  TrainingForm form;
  form.recompute = Recompute::full;
  timer.set_training(form);
  const LayerPass pass = whole_sequences(2);
  std::vector<std::string> all = names_of(plan_recompute(model, timer, pass, split));
  BOOST_TEST_REQUIRE((all.size() > 2 && all[all.size() - 2] == "down" && all.back() == "RS"));
  all.resize(all.size() - 2);
  BOOST_TEST((names_of(plan_recompute(model, timer, pass, split, true)) == all));
  const double down = 2.0 * static_cast<double>(pass.tokens()) * model.ffn * model.hidden / split.tp;
  BOOST_TEST(flops_of(plan_recompute(model, timer, pass, split)) -
                 flops_of(plan_recompute(model, timer, pass, split, true)) ==
             down);
}

BOOST_AUTO_TEST_CASE(a_gpt_layer_has_the_kernels_of_megatron) {
  gpu::KernelTimer gpu(gpu_datasheet("A100-SXM4-80GB"));
  const ModelShape model = gpt_22b();
  LayerTimer timer(model, 8, gpu);
  timer.set_training(unfused_with_dropout());
  const LayerPass pass = whole_sequences(4);
  const auto names = [&](Direction direction) {
    return names_of(plan_layer(model, timer, pass, {8, false}, direction));
  };
  using Names = std::vector<std::string>;
  const Names forward{"rmsnorm", "qkv",        "scores", "softmax", "softmax_dropout",
                      "values",  "o_proj",     "AR",     "dropout", "rmsnorm",
                      "gate_up", "activation", "down",   "AR",      "dropout"};
  const Names wgrad{"down_bias_wgrad",   "down_wgrad",   "gate_up_wgrad", "gate_up_bias_wgrad",
                    "o_proj_bias_wgrad", "o_proj_wgrad", "qkv_wgrad",     "qkv_bias_wgrad"};
  const Names dgrad{"dropout_dgrad",
                    "down_dgrad",
                    "activation_dgrad",
                    "gate_up_dgrad",
                    "AR",
                    "rmsnorm_dgrad",
                    "dropout_dgrad",
                    "o_proj_dgrad",
                    "values_dgrad",
                    "probabilities_dgrad",
                    "softmax_dropout_dgrad",
                    "softmax_dgrad",
                    "queries_dgrad",
                    "keys_dgrad",
                    "qkv_dgrad",
                    "AR",
                    "rmsnorm_dgrad"};
  BOOST_TEST(names(Direction::forward) == forward, boost::test_tools::per_element());
  BOOST_TEST(names(Direction::wgrad) == wgrad, boost::test_tools::per_element());
  BOOST_TEST(names(Direction::dgrad) == dgrad, boost::test_tools::per_element());
  BOOST_TEST((names_of(plan_embedding(model, timer, kTokens, {8, false})) ==
              Names{"embedding", "AR", "positions", "dropout"}));
}

// apex adds a gradient in its product; PyTorch and Megatron-LM's first DistributedDataParallel add it in a kernel that
// reads the new gradient and the sum, and writes the sum.
BOOST_AUTO_TEST_CASE(gradients_of_micro_batches_are_added_by_products_or_kernels) {
  const gpu::GpuDatasheet sheet = gpu_datasheet("A100-SXM4-80GB");
  gpu::KernelTimer gpu(sheet);
  const ModelShape model = gpt_22b();
  const LayerPass pass = whole_sequences(4);
  const auto wgrad = [&](GradientSum sum, DataType gradients) {
    LayerTimer timer(model, 8, gpu);
    TrainingForm form;
    form.gradient_sum = sum;
    form.gradients = gradients;
    timer.set_training(form);
    return plan_layer(model, timer, pass, {8, false}, Direction::wgrad);
  };
  const auto bytes_of_sums = [](const std::vector<LayerStep>& steps) {
    double bytes = 0;
    for (const LayerStep& step : steps)
      for (const NamedKernel& kernel : step.kernels.kernels)
        if (kernel.name == std::string("gradient_sum")) bytes += kernel.time.bytes;
    return bytes;
  };
  const auto bytes_of_products = [](const std::vector<LayerStep>& steps) {
    double bytes = 0;
    for (const LayerStep& step : steps)
      for (const NamedKernel& kernel : step.kernels.kernels)
        if (kernel.time.flops > 0) bytes += kernel.time.bytes;
    return bytes;
  };
  const double weights = 12.0 * model.hidden * model.hidden / 8;
  const auto exact = boost::test_tools::tolerance(1e-9);
  for (const DataType gradients : {DataType::fp16, DataType::tf32}) {
    const auto reduced = wgrad(GradientSum::after_reduce, gradients), added = wgrad(GradientSum::product, gradients);
    const auto kernel = wgrad(GradientSum::kernel, gradients);
    BOOST_TEST(bytes_of_sums(reduced) + bytes_of_sums(added) == 0);
    // The sums are in HBM; the new gradient may still be in L2.
    BOOST_TEST(bytes_of_sums(kernel) >= 2 * weights * bytes_of(gradients));
    BOOST_TEST(bytes_of_sums(kernel) <= weights * (2 + 2 * bytes_of(gradients)));
    BOOST_TEST(bytes_of_products(added) - bytes_of_products(reduced) == weights * (2 * bytes_of(gradients) - 4), exact);
    BOOST_TEST(bytes_of_products(reduced) - bytes_of_products(kernel) == weights * 2, exact);
  }
}

// Narayanan et al., arXiv 2104.04473, appendix: 24 B s h^2 (1 + s / 6h) forward, twice as much backward; selective
// recompute adds 4 B s^2 h (Korthikanti et al., arXiv 2205.05198, appendix A).
BOOST_AUTO_TEST_CASE(unfused_attention_multiplies_all_scores) {
  gpu::KernelTimer gpu(gpu_datasheet("A100-SXM4-80GB"));
  const ModelShape model = gpt_22b();
  LayerTimer timer(model, 8, gpu);
  TrainingForm form = unfused_with_dropout();
  form.recompute = Recompute::selective;
  timer.set_training(form);
  const LayerPass pass = whole_sequences(4);
  const LayerSplit split{8, true};
  const double s = kTokens, b = 4, h = 6144, forward = 24 * b * s * h * h * (1 + s / (6 * h)) / 8;
  BOOST_TEST(flops_of(plan_layer(model, timer, pass, split)) == forward, boost::test_tools::tolerance(1e-13));
  BOOST_TEST(flops_of(plan_layer(model, timer, pass, split, Direction::backward)) == 2 * forward,
             boost::test_tools::tolerance(1e-13));
  BOOST_TEST(flops_of(plan_recompute(model, timer, pass, split)) == 4 * b * s * s * h / 8,
             boost::test_tools::tolerance(1e-13));
}

// A copy reads and writes all tokens once. All else is as with the sequence first.
BOOST_AUTO_TEST_CASE(collectives_of_the_second_dimension_copy_all_tokens) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const ModelShape model = llama_8b();
  const LayerSplit split{8, true};
  TrainingForm batch_first, own_products;
  batch_first.sequence_first = own_products.sequence_first = own_products.fused.projections = false;
  const auto plan = [&](const TrainingForm& form, const LayerSplit& of, Direction direction) {
    LayerTimer timer(model, of.tp, gpu);
    timer.set_training(form);
    return plan_layer(model, timer, whole_sequences(2), of, direction);
  };
  const auto copies = [&](const TrainingForm& form, Direction direction) {
    const Work found = work_of(plan(form, split, direction));
    Work others;
    for (const auto& each : found)
      if (std::get<0>(each) != "rearrange") others.push_back(each);
    if (form.fused.projections) BOOST_TEST((others == work_of(plan({}, split, direction))));
    for (const LayerStep& step : plan(form, split, direction))
      for (const NamedKernel& kernel : step.kernels.kernels)
        if (std::string(kernel.name) == "rearrange")
          BOOST_TEST(kernel.time.l2_bytes == 2.0 * hidden_bytes(model, 2 * kTokens));
    return found.size() - others.size();
  };
  BOOST_TEST(copies(batch_first, Direction::forward) == 4u);
  BOOST_TEST(copies(batch_first, Direction::backward) == 4u);
  BOOST_TEST(copies(batch_first, Direction::wgrad) == 0u);
  BOOST_TEST(copies(own_products, Direction::backward) == 2u);  // sums of input gradients write in order
  for (const LayerSplit& whole : {LayerSplit{1, true}, LayerSplit{8, false}})
    BOOST_TEST((work_of(plan(batch_first, whole, Direction::forward)) == work_of(plan({}, whole, Direction::forward))));
}

BOOST_AUTO_TEST_CASE(matrices_with_products_of_their_own_have_the_same_flops) {
  gpu::KernelTimer gpu(gpu_datasheet("H100-SXM5-80GB"));
  const ModelShape model = llama_8b();
  const LayerSplit split{8, true};
  TrainingForm own_products;
  own_products.fused.projections = false;
  LayerTimer fused(model, split.tp, gpu), apart(model, split.tp, gpu);
  fused.set_training({});
  apart.set_training(own_products);
  for (const Direction direction : {Direction::forward, Direction::dgrad, Direction::wgrad}) {
    const std::vector<LayerStep> one = plan_layer(model, fused, whole_sequences(2), split, direction),
                                 several = plan_layer(model, apart, whole_sequences(2), split, direction);
    BOOST_TEST(flops_of(several) == flops_of(one), boost::test_tools::tolerance(1e-13));
    std::vector<double> sums, seconds(2);
    for (const LayerStep& step : several)
      for (const NamedKernel& kernel : step.kernels.kernels)
        if (std::string(kernel.name) == "input_gradient_sum") sums.push_back(kernel.time.l2_bytes);
    for (const LayerStep& step : one) seconds[0] += step.kernels.seconds;
    for (const LayerStep& step : several) seconds[1] += step.kernels.seconds;
    BOOST_TEST(seconds[0] < seconds[1]);
    // Gate and up; queries, keys and values. Each gradient is read, their sum written.
    const double hidden = hidden_bytes(model, 2 * kTokens);
    BOOST_TEST((sums ==
                (direction == Direction::dgrad ? std::vector<double>{3 * hidden, 4 * hidden} : std::vector<double>{})));
  }
}
