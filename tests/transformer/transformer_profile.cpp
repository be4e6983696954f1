#define BOOST_TEST_MODULE transformer_profile
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>

#include "gpu/kernels/attention_mixed.h"
#include "tests/gpu/kernels_datasheets.h"
#include "tests/transformer/transformer_models.h"
#include "transformer/layer_kernels.h"

using namespace railyard;
using namespace railyard::transformer;
using namespace railyard::test;
using Sequences = std::vector<gpu::AttentionSequence>;

namespace {

const ProfileTable<4>::Names kNames{"a", "b", "c", "d"};

// Linear in each quantity, but with products of them.
double mixed_s(double chunk, double before, double count, double context) {
  return 1e-6 * (5 + chunk / 10 + chunk * before / 5000 + count * (1 + context / 50) + chunk * count / 1000);
}
double prefill_s(double chunk, double before) { return 1e-6 * (4 + chunk / 10 + before / 50); }
double decode_s(double count, double context) { return 1e-6 * (3 + count + context / 20); }

/// Attention only, with or without rows that mix both kinds.
std::shared_ptr<LayerProfile> attention_profile(bool mixes) {
  const auto profile = std::make_shared<LayerProfile>();
  for (const ProfileLayer& layer : kProfileLayers) {
    auto& tables = layer.per_sequence ? profile->per_sequence : profile->dense;
    if (tables[layer.layer].empty()) tables[layer.layer].add({1}, 1e-6);
  }
  for (const double context : {0, 100, 1000}) {
    for (const double chunk : {16, 64, 256}) profile->prefill.add({chunk, context}, prefill_s(chunk, context));
    for (const double count : {1, 4, 16}) profile->decode.add({count, context}, decode_s(count, context));
    if (!mixes) continue;
    for (const double chunk : {16, 64, 256})
      for (const double before : {0, 100, 1000})
        for (const double count : {1, 4, 16})
          profile->mixed.add({chunk, before, count, context}, mixed_s(chunk, before, count, context));
  }
  return profile;
}

double attention_s(const std::shared_ptr<LayerProfile>& profile, const Sequences& prefills, const Sequences& decodes) {
  gpu::KernelTimer timer(gpu_datasheet("L40S"));
  LayerTimer layer(llama_8b(), 1, timer, profile);
  double seconds = 0;
  for (const NamedKernel& kernel : layer.attention_body({prefills, decodes, 0}).kernels)
    if (std::string(kernel.name) == "attention") seconds += kernel.time.seconds;
  return seconds;
}

const auto kExact = boost::test_tools::tolerance(1e-12);

}  // namespace

// Measured points, the middle between two of them on each axis and on all axes, and beyond the last one.
BOOST_AUTO_TEST_CASE(a_table_is_linear_in_each_quantity) {
  const ProfileTable<4> table = attention_profile(true)->mixed;
  const auto check = [&](double chunk, double before, double count, double context, std::vector<std::string> outside) {
    ProfileUse use;
    const double seconds = table.at({chunk, before, count, context}, kNames, use);
    BOOST_TEST(seconds == mixed_s(chunk, before, count, context), kExact);
    std::vector<std::string> left;
    for (const auto& [what, range] : use.outside) {
      left.push_back(what);
      BOOST_TEST(range.times == 1u);
    }
    BOOST_TEST(left == outside, boost::test_tools::per_element());
  };
  check(64, 100, 4, 1000, {});
  check(160, 100, 4, 1000, {});
  check(64, 550, 4, 1000, {});
  check(64, 100, 10, 1000, {});
  check(64, 100, 4, 50, {});
  check(160, 550, 10, 50, {});
  check(512, 100, 4, 1000, {"a"});
  check(512, 2000, 40, 3000, {"a", "b", "c", "d"});
}

// Rows need not be a full grid: each inner table has its own range.
BOOST_AUTO_TEST_CASE(inner_tables_may_have_different_lengths) {
  ProfileTable<2> table;
  BOOST_TEST(table.add({10, 100}, 1));
  BOOST_TEST(table.add({20, 200}, 5));
  BOOST_TEST(table.add({20, 100}, 3));  // any order of rows
  BOOST_TEST(!table.add({20, 100}, 4));
  ProfileUse use;
  BOOST_TEST(table.at({10, 150}, {"x", "y"}, use) == 1);  // one point only
  BOOST_TEST(use.outside.at("y").last == 100);
  BOOST_TEST(table.at({20, 150}, {"x", "y"}, use) == 4);
  BOOST_TEST(table.at({15, 150}, {"x", "y"}, use) == 2.5);
  BOOST_TEST(table.at({5, 100}, {"x", "y"}, use) == 1);
  BOOST_TEST(use.outside.at("x").least == 5);
  BOOST_TEST(use.outside.at("x").times == 1u);
  table.add({30, 100}, 2);
  BOOST_TEST(table.at({40, 100}, {"x", "y"}, use) == 2);  // a falling line stops at the last point
}

BOOST_AUTO_TEST_CASE(prompts_are_one_chunk_of_their_sums) {
  const auto profile = attention_profile(true);
  const Sequences decodes{{1, 100}, {1, 300}};
  BOOST_TEST(attention_s(profile, {{64, 100}}, {}) == prefill_s(64, 100), kExact);
  BOOST_TEST(attention_s(profile, {{50, 100}, {30, 0}, {20, 250}}, {}) == prefill_s(100, 350), kExact);
  BOOST_TEST(attention_s(profile, {}, decodes) == decode_s(2, 200), kExact);
  BOOST_TEST(attention_s(profile, {{50, 100}, {30, 0}}, decodes) == mixed_s(80, 100, 2, 200), kExact);
}

// From the time at the mean context towards the time at the longest context, by the alpha of the batch's class.
BOOST_AUTO_TEST_CASE(unequal_contexts_take_longer) {
  const auto profile = attention_profile(true);
  profile->skew = DecodeSkew(0.25);
  //                  prompts, decodes, long ones, longest, context
  profile->skew.add({0, 2, 0.40, 1024, 0}, 0.5);
  profile->skew.add({0, 4, 0.40, 1024, 0}, 0.1);
  profile->skew.add({0, 2, 0.70, 1024, 0}, -2);
  profile->skew.add({0, 2, 0.05, 4096, 0}, 0.9);
  profile->skew.add({64, 4, 0.70, 1024, 512}, 0.8);
  const auto towards = [](double alpha, double mean, double longest) { return mean + alpha * (longest - mean); };
  const auto decodes = [&](const Sequences& d) { return attention_s(profile, {}, d); };
  BOOST_TEST(decodes({{1, 300}, {1, 300}}) == decode_s(2, 300), kExact);  // equal ones have no skew
  BOOST_TEST(decodes({{1, 300}}) == decode_s(1, 300), kExact);
  // Two of different length have a skew rate of 0.5, three with one long one 1/3.
  BOOST_TEST(decodes({{1, 100}, {1, 100}, {1, 1024}}) == towards(0.1, decode_s(3, 408), decode_s(3, 1024)), kExact);
  BOOST_TEST(decodes({{1, 100}, {1, 300}}) == decode_s(2, 200), kExact);  // alpha below 0
  BOOST_TEST(decodes({{1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 900}}) == towards(0.1, decode_s(5, 180), decode_s(5, 900)),
             kExact);  // the last class has no edge
  BOOST_TEST(
      decodes({{1, 100}, {1, 100}, {1, 100}, {1, 1025}}) == towards(0.25, decode_s(4, 331.25), decode_s(4, 1025)),
      kExact);  // no such class
  const Sequences four{{1, 0}, {1, 0}, {1, 200}, {1, 200}};
  BOOST_TEST(
      attention_s(profile, {{64, 512}}, four) == towards(0.8, mixed_s(64, 512, 4, 100), mixed_s(64, 512, 4, 200)),
      kExact);
  BOOST_TEST(
      attention_s(profile, {{65, 512}}, four) == towards(0.25, mixed_s(65, 512, 4, 100), mixed_s(65, 512, 4, 200)),
      kExact);
}

// Without rows that mix both kinds, the rule of the formulas joins the measured times of each kind.
BOOST_AUTO_TEST_CASE(a_profile_of_single_kinds_follows_the_rule) {
  const auto profile = attention_profile(false);
  const gpu::GpuDatasheet sheet = gpu_datasheet("L40S");
  const Sequences prefills{{200, 100}}, decodes(8, {1, 600});
  const double mixed = attention_s(profile, prefills, decodes);
  gpu::MixedAttention parts = gpu::mixed_attention(sheet, {32, 8, 128, DataType::bf16}, prefills, decodes);
  const double row = gpu::mixed_attention(sheet, {32, 8, 128, DataType::bf16}, prefills, {{1, 600}}).rows.seconds;
  parts.rows = parts.rows.taking(parts.rows.seconds * prefill_s(16, 600) / row);
  parts.prefill = parts.prefill.taking(prefill_s(200, 100));
  parts.decode = parts.decode.taking(decode_s(8, 600));
  BOOST_TEST(mixed == parts.time(sheet).seconds, kExact);
  BOOST_TEST(mixed >= prefill_s(200, 100));
  BOOST_TEST(mixed >= decode_s(8, 600));
  BOOST_TEST(attention_s(profile, {}, decodes) == decode_s(8, 600), kExact);
}

// A mixed pass has one attention kernel. Its layer takes longer than that of either kind, and its other kernels are
// shared, so less than both together.
BOOST_AUTO_TEST_CASE(a_mixed_pass_shares_its_other_kernels) {
  for (const char* name : {"RTX-4090", "H100-SXM5-80GB"}) {
    gpu::KernelTimer timer(gpu_datasheet(name));
    LayerTimer layer(llama_8b(), 1, timer);
    const Sequences prefills{{500, 0}}, decodes(12, {1, 500});
    const auto part = [&](const Sequences& p, const Sequences& d) {
      return part_of(layer, LayerPart::attention, {p, d, 0});
    };
    const Segment mixed = part(prefills, decodes), prefill = part(prefills, {}), decode = part({}, decodes);
    BOOST_TEST(mixed.kernels.size() == prefill.kernels.size());
    BOOST_TEST(mixed.seconds > std::max(prefill.seconds, decode.seconds));
    BOOST_TEST(mixed.seconds < prefill.seconds + decode.seconds);
    BOOST_TEST(mixed.flops == prefill.flops + decode.flops, kExact);
  }
}
