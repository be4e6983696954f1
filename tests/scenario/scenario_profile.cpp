#define BOOST_TEST_MODULE scenario_profile
#include <boost/test/unit_test.hpp>

#include <memory>

#include "sc_main/scenario/model/profile.h"
#include "tests/scenario/scenario_support.h"

using namespace railyard;
using namespace railyard::scenario;
using namespace railyard::test;
using transformer::LayerProfile;
using transformer::ProfileUse;

namespace {

/// A bundle with few points of attention, for a model that has only its name.
class Bundle {
 public:
  Bundle() {
    std::filesystem::create_directories(scratch_.path("bundle/tp1"));
    std::string dense = "layer,tokens,time_us\n", per_sequence = "layer,sequences,time_us\n";
    for (const transformer::ProfileLayer& layer : transformer::kProfileLayers)
      (layer.per_sequence ? per_sequence : dense) += std::string(layer.layer) + ",1,3\n";
    write("tp1/dense.csv", dense);
    write("tp1/per_sequence.csv", per_sequence);
    write("tp1/attention.csv",
          "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"
          "64,0,0,0,5\n"
          "0,0,4,100,7\n"
          "0,0,4,300,9\n"
          "64,0,4,100,16\n"
          "64,0,4,300,24\n");
  }
  void write(const std::string& file, const std::string& text) const { scratch_.write("bundle/" + file, text); }
  std::shared_ptr<const LayerProfile> load() const {
    transformer::ModelShape model;
    model.name = "model";
    model.kinds.resize(1);
    return load_profile({scratch_.path("bundle")}, model, 1, {parse_yaml("compute: {profile: bundle}\n", "s.yaml")});
  }
  std::string refusal() const {
    try {
      load();
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }

 private:
  Scratch scratch_;
};

const std::vector<gpu::AttentionSequence> kPrompt{{64, 0}}, kDecodes{{1, 100}, {1, 100}, {1, 300}, {1, 300}};
const auto kExact = boost::test_tools::tolerance(1e-12);
const char* const kSkewHeader = "pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha,n_samples\n";

}  // namespace

BOOST_AUTO_TEST_CASE(rows_with_both_kinds_are_read) {
  ProfileUse use;
  const auto profile = Bundle().load();
  BOOST_TEST(profile->attention_seconds(kPrompt, kDecodes, use) == 20e-6, kExact);
  BOOST_TEST(profile->attention_seconds({}, kDecodes, use) == 8e-6, kExact);
  BOOST_TEST(profile->attention_seconds(kPrompt, {}, use) == 5e-6, kExact);
  BOOST_TEST(use.outside.empty());
}

// The table counts only if meta.yaml enables it; a batch without a class has the default.
BOOST_AUTO_TEST_CASE(skew_is_used_if_it_is_enabled) {
  const Bundle bundle;
  bundle.write("tp1/skew_fit.csv", std::string(kSkewHeader) +
                                       "64,n<=4,sr<=70%,kvB<=1k,kp=0,0.5,3\n"
                                       "64,n>4,sr>70%,kvB>1k,kp<=2k,0.7,3\n");
  const auto seconds = [&](const char* meta) {
    bundle.write("meta.yaml", meta);
    ProfileUse use;
    const auto profile = bundle.load();
    return std::pair(profile->attention_seconds(kPrompt, kDecodes, use), profile->attention_seconds({}, kDecodes, use));
  };
  const auto check = [&](const char* meta, double mixed, double decode) {
    const auto [both, alone] = seconds(meta);
    BOOST_TEST(both == mixed * 1e-6, kExact);
    BOOST_TEST(alone == decode * 1e-6, kExact);
  };
  check("skew_fit: {enabled: false, per_tp: {1: {alpha_default: 0.25}}}\n", 20, 8);
  check("skew_fit: {enabled: true, per_tp: {1: {alpha_default: 0.25}}}\n", 22, 8.25);
  check("skew_fit: {enabled: true, per_tp: {2: {alpha_default: 0.25}}}\n", 22, 8);
}

BOOST_AUTO_TEST_CASE(bad_skew_is_one_line) {
  const Bundle bundle;
  const auto refusal = [&](const std::string& row) {
    bundle.write("meta.yaml", "skew_fit: {enabled: true}\n");
    bundle.write("tp1/skew_fit.csv", kSkewHeader + row + "\n");
    return bundle.refusal();
  };
  const auto check = [](const std::string& text, const std::string& words) {
    BOOST_TEST(text.find(words) != std::string::npos, text);
  };
  BOOST_TEST(refusal("64,n<=4,sr<=70%,kvB<=1k,kp=0,0.5,3") == "");
  for (const char* label : {"m<=4", "n<4", "n<=", "n<=4x", "n", ""})
    check(refusal("64," + std::string(label) + ",sr<=70%,kvB<=1k,kp=0,0.5,3"),
          "skew_fit.csv:2:1: error: n_label: '" + std::string(label) + "' is not a class; accepted: n<=N or n>N");
  check(refusal("64,n<=4,sr<=70%,kvB<=1k,kp=0,x,3"), "alpha: expected a number from -1000 to 1000, got 'x'");
  check(refusal("64,n<=4,sr<=70%,kvB<=1k,kp=0,1,3\n64,n<=4,sr<=70%,kvB<=1k,kp=0,2,3"),
        "skew_fit.csv:3:1: error: a second row for the same point");
  bundle.write("meta.yaml", "skew_fit:\n  enabled: maybe\n");
  check(bundle.refusal(), "meta.yaml:2:12: error: skew_fit.enabled: expected true or false, got 'maybe'");
  bundle.write("meta.yaml", "skew_fit: {enabled: true, per_tp: {1: {alpha_default: high}}}\n");
  check(bundle.refusal(), "skew_fit.per_tp.1.alpha_default: expected a number");
}
