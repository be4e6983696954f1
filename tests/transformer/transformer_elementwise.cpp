// Elementwise kernels of a training layer: what they move, fused and as operators of eager PyTorch.
#define BOOST_TEST_MODULE transformer_elementwise
#include <boost/test/unit_test.hpp>

#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/training_models.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/layer_plan.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

constexpr std::uint64_t kTokens = 2048;

LayerPass whole_sequences(std::uint64_t count) { return {{count, {kTokens, 0}}, {}, 0}; }

}  // namespace

// Bytes that a kernel moves, wherever they are: two for each number, one for each mask.
BOOST_AUTO_TEST_CASE(masks_take_a_byte_and_norms_leave_the_residual) {
  gpu::KernelTimer gpu(gpu_datasheet("A100-SXM4-80GB"));
  const ModelShape model = gpt_22b();
  const LayerPass pass = whole_sequences(4);
  const auto bytes_of = [&](const TrainingForm& form, Direction direction, const std::string& name) {
    LayerTimer timer(model, 8, gpu);
    timer.set_training(form);
    for (const LayerStep& step : plan_layer(model, timer, pass, {8, true}, direction))
      for (const NamedKernel& kernel : step.kernels.kernels)
        if (kernel.name == name) return kernel.time.l2_bytes;
    return 0.0;
  };
  const double scores = 4.0 * kTokens * kTokens * 64 / 8, hidden = 4.0 * kTokens * 6144 / 8;
  const TrainingForm none, dropped = unfused_with_dropout();
  BOOST_TEST(bytes_of(dropped, Direction::forward, "softmax") == 3 * scores);  // reads a half
  BOOST_TEST(bytes_of(dropped, Direction::forward, "softmax_dropout") == 5 * scores);
  BOOST_TEST(bytes_of(dropped, Direction::dgrad, "softmax_dropout_dgrad") == 5 * scores);
  BOOST_TEST(bytes_of(dropped, Direction::dgrad, "softmax_dgrad") == 4 * scores);
  BOOST_TEST(bytes_of(dropped, Direction::forward, "dropout") == 7 * hidden);
  BOOST_TEST(bytes_of(dropped, Direction::dgrad, "dropout_dgrad") == 5 * hidden);
  BOOST_TEST(bytes_of(dropped, Direction::forward, "rmsnorm") == 4 * hidden);
  BOOST_TEST(bytes_of(none, Direction::forward, "rmsnorm") == 8 * hidden);  // adds the residual, too
  BOOST_TEST(bytes_of(none, Direction::forward, "dropout") == 0);
  // The gradient of a norm's input is added to that of the residual stream, by the same kernel or the next one.
  BOOST_TEST(bytes_of(none, Direction::dgrad, "rmsnorm_dgrad") == 8 * hidden);
  BOOST_TEST(bytes_of(none, Direction::dgrad, "residual_dgrad") == 0);
  TrainingForm summed;
  summed.fused.residual = false;
  BOOST_TEST(bytes_of(summed, Direction::forward, "residual") == 6 * hidden);
  BOOST_TEST(bytes_of(summed, Direction::forward, "rmsnorm") == 4 * hidden);
  BOOST_TEST(bytes_of(summed, Direction::dgrad, "rmsnorm_dgrad") == 6 * hidden);
  BOOST_TEST(bytes_of(summed, Direction::dgrad, "residual_dgrad") == 6 * hidden);
}

// The norm before the head is after the last sum: nothing is added to the gradient of its input.
BOOST_AUTO_TEST_CASE(the_residual_stream_ends_before_the_head) {
  gpu::KernelTimer gpu(gpu_datasheet("A100-SXM4-80GB"));
  for (const bool fused : {true, false}) {
    LayerTimer timer(gpt_22b(), 1, gpu);
    TrainingForm form;
    form.fused.residual = fused;
    timer.set_training(form);
    const Segment norm = timer.norm_backward(LayerPart::head, kTokens);
    BOOST_TEST(norm.kernels.size() == 1u);
    BOOST_TEST(norm.kernels.front().time.l2_bytes == 3 * 2.0 * kTokens * 6144);
  }
}

// Megatron-LM's softmax kernel takes up to 2048 keys and multiples of four rows and of four heads. Other shapes run as
// operators, counted by hand: 36 bytes a score forward, in place of 3, and 48 backward, in place of 4.
BOOST_AUTO_TEST_CASE(softmax_of_other_shapes_runs_as_operators) {
  gpu::KernelTimer gpu(gpu_datasheet("A100-SXM4-80GB"));
  const ModelShape model = gpt_22b();
  struct Case {
    std::uint32_t tp, sequences;
    std::uint64_t tokens;
    bool fused;
  };
  for (const Case& one : std::vector<Case>{{16, 1, 2048, true},
                                           {32, 1, 2048, false},  // two heads
                                           {32, 2, 2048, true},
                                           {16, 1, 2046, false},
                                           {16, 1, 2052, false}}) {
    LayerTimer timer(model, one.tp, gpu);
    timer.set_training(unfused_with_dropout());
    LayerPass pass;
    pass.prefills.assign(one.sequences, {one.tokens, 0});
    const double scores = 64.0 / one.tp * one.sequences * static_cast<double>(one.tokens * one.tokens);
    const auto softmax = [&](Direction direction) {
      std::pair<int, double> found;
      for (const LayerStep& step : plan_layer(model, timer, pass, {one.tp, false}, direction))
        for (const NamedKernel& kernel : step.kernels.kernels) {
          const std::string name = kernel.name;
          if (name.find("softmax") != 0 || name.find("dropout") != name.npos) continue;
          ++found.first;
          found.second += kernel.time.l2_bytes;
        }
      return found;
    };
    using Found = std::pair<int, double>;
    BOOST_TEST((softmax(Direction::forward) == (one.fused ? Found(1, 3 * scores) : Found(5, 36 * scores))));
    BOOST_TEST((softmax(Direction::dgrad) == (one.fused ? Found(1, 4 * scores) : Found(6, 48 * scores))));
  }
}

// Counted by hand from the operators of eager PyTorch, for each number of the input: RMSNorm reads and writes 36 bytes
// forward and 84 backward, the rotary embedding 20 each way, SiLU and its product 10 and 18, a sum with the residual 6.
BOOST_AUTO_TEST_CASE(operators_of_eager_pytorch_move_all_their_numbers) {
  gpu::KernelTimer gpu(gpu_datasheet("A100-SXM4-80GB"));
  const ModelShape model = llama_8b();
  TrainingForm eager;
  eager.fused = {false, false, false, false, false};
  struct Moved {
    double bytes = 0;
    int kernels = 0;
  };
  const auto moved = [&](const TrainingForm& form, Direction direction) {
    LayerTimer timer(model, 1, gpu);
    timer.set_training(form);
    Moved sum;
    for (const LayerStep& step : plan_layer(model, timer, whole_sequences(1), {1, false}, direction))
      for (const NamedKernel& kernel : step.kernels.kernels) {
        const std::string name = kernel.name;
        if (name.find("rmsnorm") == name.npos && name.find("rotary") == name.npos &&
            name.find("activation") == name.npos && name.find("residual") == name.npos)
          continue;
        sum.bytes += kernel.time.l2_bytes;
        ++sum.kernels;
      }
    return sum;
  };
  const double n = kTokens, h = 4096, f = 14336, qk = (32 + 8) * 128;
  const Moved forward = moved(eager, Direction::forward), dgrad = moved(eager, Direction::dgrad);
  BOOST_TEST(forward.bytes == n * (2 * (36 + 6) * h + 20 * qk + 10 * f));
  BOOST_TEST(dgrad.bytes == n * (2 * (84 + 6) * h + 20 * qk + 18 * f));
  BOOST_TEST(forward.kernels == 2 * (6 + 1) + 2 * 3 + 2);
  BOOST_TEST(dgrad.kernels == 2 * (12 + 1) + 2 * 3 + 3);
  BOOST_TEST(moved(eager, Direction::wgrad).bytes == 0);
  const Moved fused = moved({}, Direction::forward);
  BOOST_TEST(fused.kernels == 4);
  // With dropout, the sum follows it.
  TrainingForm dropped = eager;
  dropped.dropout = true;
  BOOST_TEST(moved(dropped, Direction::forward).bytes == forward.bytes);
}
