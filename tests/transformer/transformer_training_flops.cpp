#define BOOST_TEST_MODULE transformer_training_flops
#include <boost/test/unit_test.hpp>

#include "tests/transformer/training_models.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/parameters.h"
#include "transformer/training_flops.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace tt = boost::test_tools;

// Narayanan et al., arXiv 2104.04473, equation 3, and Korthikanti et al., arXiv 2205.05198, appendix A.
BOOST_AUTO_TEST_CASE(gpt_flops_are_those_of_the_papers) {
  for (const ModelShape& model : {gpt_22b(), gpt_175b()}) {
    const double b = 64, s = 2048, l = model.layers, h = model.hidden, v = model.vocab;
    const auto flops = [&](Recompute recompute) {
      return training_flops(model, 64, 2048, CountedKeys::all, recompute);
    };
    const double layers = b * s * l * h * h;
    BOOST_TEST(flops(Recompute::full) == 96 * layers * (1 + s / (6 * h) + v / (16 * l * h)), tt::tolerance(1e-13));
    BOOST_TEST(flops(Recompute::none) == 72 * layers * (1 + s / (6 * h) + v / (12 * l * h)), tt::tolerance(1e-13));
    BOOST_TEST(flops(Recompute::selective) == flops(Recompute::none) + 4 * b * l * s * s * h, tt::tolerance(1e-13));
  }
}

// 6 N T with N the multiplied weights, and 6 s (s + 1) a d of each layer for causal attention, half of 12 s^2 a d.
BOOST_AUTO_TEST_CASE(flops_are_six_per_weight_and_token_and_attention) {
  for (const ModelShape& m : {llama_8b(), llama_70b(), mixtral_8x7b()}) {
    const double s = 8192, b = 16, norms = (2.0 * m.layers + 1) * m.hidden;
    const double weights =
        static_cast<double>(active_parameters(m)) - norms - static_cast<double>(embedding_parameters(m));
    const double attention = 6 * s * (s + 1) * m.layers * m.heads * m.head_dim;
    BOOST_TEST(training_flops(m, 16, 8192, CountedKeys::causal) == b * (6 * weights * s + attention),
               tt::tolerance(1e-13));
  }
}
