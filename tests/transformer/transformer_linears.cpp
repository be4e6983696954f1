// The matrices of a dense model and their shards.
#define BOOST_TEST_MODULE transformer_linears
#include <boost/test/unit_test.hpp>

#include "tests/transformer/training_models.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/linears.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;

namespace {

Stage all_of(const ModelShape& model) { return {model.layers, true, true, 0}; }

}  // namespace

BOOST_AUTO_TEST_CASE(one_shard_and_the_whole_parameters_are_all_parameters) {
  const ModelShape model = llama_70b();
  for (const std::uint32_t tp : {1u, 2u, 8u}) {
    const DividedParameters one = divided_parameters(model, all_of(model), tp, 1, {});
    BOOST_TEST(one.shards + one.whole == rank_parameters(model, all_of(model), tp));
    BOOST_TEST(one.whole == (2ull * model.layers + 1) * model.hidden / tp);
  }
}

// Rows of 2 x 28672, 10240, 8192 and 128256 are multiples of 8 x 16; 64 shards of 10240 rows have 160 each, of 128256 rows
// 2004, padded to 2016.
BOOST_AUTO_TEST_CASE(shards_have_padded_rows) {
  const ModelShape model = llama_70b();
  const DividedParameters one = divided_parameters(model, all_of(model), 1, 1, {});
  BOOST_TEST(divided_parameters(model, all_of(model), 1, 1, {8}).shards == one.shards / 8);
  BOOST_TEST(divided_parameters(model, all_of(model), 1, 1, {8}).whole == one.whole);
  BOOST_TEST(shard_of({10240, 8192}, 64).rows == 160u);
  BOOST_TEST(shard_of({128256, 8192}, 64).rows == 2016u);
  BOOST_TEST(divided_parameters(model, all_of(model), 1, 1, {64}).shards ==
             one.shards / 64 + 2 * (2016 - 2004) * std::uint64_t(model.hidden));
}

// Each expert's matrices are cut by themselves: 3 f h of each of the experts of an expert-parallel rank.
BOOST_AUTO_TEST_CASE(other_ranks_divide_experts_than_all_else) {
  const ModelShape model = mixtral_8x7b();
  const std::uint64_t experts = std::uint64_t(model.layers) * model.experts * 3 * model.ffn * model.hidden;
  for (const std::uint32_t ep : {1u, 4u}) {
    const DividedParameters one = divided_parameters(model, all_of(model), 1, ep, {});
    BOOST_TEST(one.experts == experts / ep);
    BOOST_TEST(one.shards + one.experts + one.whole == rank_parameters(model, all_of(model), 1, ep).total());
    const DividedParameters divided = divided_parameters(model, all_of(model), 1, ep, {8, 2});
    BOOST_TEST(divided.experts == experts / ep / 2);
    BOOST_TEST(divided.shards == one.shards / 8);
    BOOST_TEST(divided.whole == one.whole);
    BOOST_TEST(divided_projection_weights(model, all_of(model), 1, ep, {8, 2}) +
                   2ull * (model.vocab / 8) * model.hidden ==
               divided.shards + divided.experts);
  }
}
