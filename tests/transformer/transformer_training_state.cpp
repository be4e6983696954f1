#define BOOST_TEST_MODULE transformer_training_state
#include <boost/test/unit_test.hpp>

#include "tests/transformer/training_models.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/parameters.h"
#include "transformer/training_state.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace tt = boost::test_tools;

BOOST_AUTO_TEST_CASE(state_has_the_published_bytes_per_parameter) {
  constexpr Bytes n = 1 << 20;
  const StatePrecision mixed{2, 4, 4}, half{2, 2, 4}, full{4, 4, 4};
  const auto bytes = [&](const StatePrecision& precision, std::uint32_t stage, std::uint32_t ranks) {
    return training_state(n, precision, {stage, ranks}).total();
  };
  BOOST_TEST(bytes(mixed, 0, 1) == 18 * n);
  BOOST_TEST(bytes(half, 0, 1) == 16 * n);
  BOOST_TEST(training_state(n, half, {0, 1}).gradient_copies == 4 * n);
  BOOST_TEST(training_state(n, mixed, {0, 1}).gradient_copies == 0u);
  BOOST_TEST(bytes(full, 0, 1) == 16 * n);
  for (const Bytes d : {1, 2, 8, 64}) {
    const auto ranks = static_cast<std::uint32_t>(d);
    BOOST_TEST(bytes(mixed, 0, ranks) == 18 * n);  // without ZeRO each rank has everything
    BOOST_TEST(bytes(mixed, 1, ranks) == 6 * n + 12 * n / d);
    BOOST_TEST(bytes(half, 1, ranks) == 4 * n + 12 * n / d);
    BOOST_TEST(training_state(n, half, {1, ranks}).gradient_copies == 4 * n / d);
    BOOST_TEST(bytes(full, 1, ranks) == 8 * n + 8 * n / d);
    BOOST_TEST(bytes(mixed, 2, ranks) == 2 * n + 16 * n / d);
    BOOST_TEST(bytes(mixed, 3, ranks) == 18 * n / d);
  }
}

// 16-bit moments, and no master copy. An optimizer with narrow state reads gradients as they are.
BOOST_AUTO_TEST_CASE(narrow_states_have_their_bytes) {
  constexpr Bytes n = 1 << 20;
  const StatePrecision moments{2, 2, 4, 2}, fp8_moments{2, 4, 4, 1}, all{2, 2, 0, 2};
  BOOST_TEST(training_state(n, moments, {0, 1}).total() == 12 * n);
  BOOST_TEST(training_state(n, fp8_moments, {0, 1}).total() == 12 * n);
  BOOST_TEST(training_state(n, all, {0, 1}).total() == 8 * n);
  for (const StatePrecision& precision : {moments, all})
    BOOST_TEST(training_state(n, precision, {0, 1}).gradient_copies == 0u);
  BOOST_TEST(training_state(n, moments, {1, 8}).total() == 4 * n + n);
  BOOST_TEST(training_state(n, moments, {1, 8}).owned == n / 8);
}

// Read: gradient, master, two moments; written: master, moments, weight. Without a master copy the weight is read.
BOOST_AUTO_TEST_CASE(adam_moves_its_states_once_each_way) {
  const StatePrecision mixed{2, 4, 4, 4}, moments{2, 2, 4, 2}, all{2, 2, 0, 2};
  BOOST_TEST(mixed.adam_bytes(mixed.read_gradients()) == 4u + 4 + 8 + 4 + 8 + 2);
  BOOST_TEST(moments.adam_bytes(moments.read_gradients()) == 2u + 4 + 4 + 4 + 4 + 2);
  BOOST_TEST(all.adam_bytes(all.read_gradients()) == 2u + 2 + 4 + 2 + 4);
}

BOOST_AUTO_TEST_CASE(shards_cover_all_parameters) {
  const TrainingState state = training_state(1001, {}, {3, 4});
  BOOST_TEST(state.weights == 251 * 2u);
  BOOST_TEST(state.gradients == 251 * 4u);
  BOOST_TEST(state.optimizer == 251 * 12u);
}

// Korthikanti et al., arXiv 2205.05198, figure 1: weights and optimizer in GiB on each GPU. The figure counts the
// layers' 12 L h^2 parameters; biases and norms add 0.1 %, embeddings 1.5 % to the one stage of the 22B model.
BOOST_AUTO_TEST_CASE(figure_1_of_korthikanti) {
  const double gib = 1024.0 * 1024 * 1024;
  const auto state_gib = [&](const ModelShape& model, const Stage& stage) {
    return static_cast<double>(training_state(rank_parameters(model, stage, 8), {}, {}).total()) / gib;
  };
  BOOST_TEST(state_gib(gpt_22b(), {48, false, false}) == 45.56, tt::tolerance(0.002));
  BOOST_TEST(state_gib(gpt_175b(), {96 / 8, false, false}) == 45.56, tt::tolerance(0.002));
  BOOST_TEST(state_gib(gpt_22b(), {48, true, true}) == 45.56, tt::tolerance(0.03));
}
