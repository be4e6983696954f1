// Quantised weights: what a config's quantization_config says, the bytes that follow, and what is refused.
#define BOOST_TEST_MODULE scenario_weights
#include <boost/test/unit_test.hpp>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/model/config.h"
#include "tests/scenario/scenario_support.h"
#include "transformer/parameters.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::transformer;
using Json = nlohmann::json;

namespace {

Json published(const std::string& name) {
  for (const Json& model : Json::parse(text_of(kSource + "/tests/models/published.json")))
    if (model["name"] == name) return model["config"];
  throw std::out_of_range(name);
}

Json shipped(const std::string& name) { return Json::parse(text_of(kSource + "/scenarios/models/" + name + ".json")); }

ModelShape load(Json config, const std::string& quantization, const std::string& dtype = "") {
  if (!quantization.empty()) config["quantization_config"] = Json::parse(quantization);
  const Scratch scratch;
  scratch.write("m.json", config.dump());
  return scenario::load_model(scratch.path("m.json"), {"s.yaml", 1, 9}, dtype, "").shape;
}

std::string refusal(const std::string& quantization, const std::string& dtype = "") {
  try {
    load(shipped("llama-3.1-8b"), quantization, dtype);
    return "accepted";
  } catch (const InputError& e) {
    const std::string text = e.what();
    return text.substr(text.find("error: ") + 7);
  }
}

double gigabytes(const ModelShape& m) {
  return static_cast<double>(rank_weight_bytes(m, {m.layers, true, true}, 1)) * 1e-9;
}

const std::string kAwq =
    R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "version": "gemm"})";
const std::string kGptOss = R"({"quant_method": "mxfp4", "modules_to_not_convert":
  ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]})";

std::string compressed(const std::string& weights, const std::string& inputs = "null",
                       const std::string& ignore = R"(["lm_head"])") {
  return R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": )" +
         weights + R"(, "input_activations": )" + inputs + R"(}}, "ignore": )" + ignore + "}";
}

}  // namespace

// Sizes of published checkpoints: Llama-3.1-70B-Instruct-AWQ-INT4 (39.8 GB), Llama-3.1-8B-Instruct-FP8 (9.1 GB), gpt-oss model card,
// arXiv 2508.10925 (12.8 and 60.8 GiB).
BOOST_AUTO_TEST_CASE(checkpoints_have_their_published_sizes) {
  constexpr double kGbPerGib = 1.073741824;
  BOOST_TEST(gigabytes(load(shipped("llama-3.1-70b"), kAwq)) == 39.8, boost::test_tools::tolerance(0.005));
  BOOST_TEST(
      gigabytes(load(shipped("llama-3.1-8b"), R"({"quant_method": "fp8", "activation_scheme": "static"})")) == 9.1,
      boost::test_tools::tolerance(0.005));
  BOOST_TEST(gigabytes(load(published("gpt-oss-20b"), kGptOss)) == 12.8 * kGbPerGib,
             boost::test_tools::tolerance(0.005));
  BOOST_TEST(gigabytes(load(published("gpt-oss-120b"), kGptOss)) == 60.8 * kGbPerGib,
             boost::test_tools::tolerance(0.005));
}

BOOST_AUTO_TEST_CASE(methods_say_bytes_and_types) {
  const auto format = [](const std::string& text) { return *load(shipped("llama-3.1-8b"), text).layer(0).mlp; };
  BOOST_TEST(format(kAwq).bytes == (4 + 20.0 / 128) / 8);
  BOOST_TEST(format(kAwq).name == "int4 in groups of 128");
  BOOST_TEST(format(R"({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": true, "desc_act": false})").bytes ==
             1.0);
  BOOST_TEST(format(R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true})").bytes ==
             (4 + 16.0 / 32) / 8);
  BOOST_TEST(format(kAwq).dequantised);
  BOOST_TEST((format(kAwq).dtype == DataType::bf16));
  const WeightFormat block =
      format(R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})");
  BOOST_TEST((block.dtype == DataType::fp8 && block.dynamic && !block.dequantised));
  BOOST_TEST(block.bytes == 1 + 4.0 / 16384);
  BOOST_TEST(block.blocks_of_128);
  BOOST_TEST(!format(R"({"quant_method": "fp8", "weight_block_size": [128, 64]})").blocks_of_128);
  BOOST_TEST(!format(R"({"quant_method": "fp8", "activation_scheme": "static"})").dynamic);
  const std::string int8 = R"({"num_bits": 8, "type": "int", "symmetric": true, "dynamic": true})";
  BOOST_TEST((format(compressed(int8, int8)).dtype == DataType::int8 && format(compressed(int8, int8)).dynamic));
  BOOST_TEST(format(compressed(int8)).dequantised);
  const std::string fp4 = R"({"num_bits": 4, "type": "float", "group_size": 16, "dynamic": "local"})";
  BOOST_TEST((format(compressed(fp4, fp4)).dtype == DataType::nvfp4 && !format(compressed(fp4, fp4)).dynamic));
  BOOST_TEST(format(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})").bytes == 0.5625);
}

BOOST_AUTO_TEST_CASE(modules_that_stay_wide) {
  const auto layers = [](const std::string& ignore) {
    const ModelShape m =
        load(shipped("llama-3.1-8b"), R"({"quant_method": "fp8", "modules_to_not_convert": )" + ignore + "}");
    std::string text;
    for (const std::uint32_t l : {0u, 1u, 31u})
      text += std::string(m.layer(l).attention ? "a" : "-") + (m.layer(l).mlp ? "m " : "- ");
    return text;
  };
  BOOST_TEST(layers("[]") == "am am am ");
  BOOST_TEST(layers(R"(["model.layers.0", "model.layers.31.mlp"])") == "-- am a- ");
  BOOST_TEST(layers(R"(["self_attn"])") == "-m -m -m ");
  BOOST_TEST(layers(R"(["model.layers.*.self_attn", "lm_head"])") == "-m -m -m ");
  BOOST_TEST(layers(R"(["re:.*self_attn.*", "re:model\\.layers\\.1\\..*"])") == "-m -- -m ");
  BOOST_TEST(layers(R"(["gate", "re:.*mlp.gate$", "visual"])") == "am am am ");
  const std::string int8 = R"({"num_bits": 8, "type": "int"})";
  BOOST_TEST(!load(shipped("llama-3.1-8b"), compressed(int8)).head.has_value());
  BOOST_TEST(load(shipped("llama-3.1-8b"), compressed(int8, "null", "[]")).head.has_value());
  // Experts alone; routers never.
  const ModelShape moe = load(published("gpt-oss-20b"), kGptOss);
  BOOST_TEST((moe.layer(0).experts && !moe.layer(0).attention && !moe.layer(0).mlp));
  const ModelShape mixtral =
      load(shipped("mixtral-8x7b"),
           R"({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["gate"]})");
  BOOST_TEST((mixtral.layer(0).experts && mixtral.layer(0).attention));
}

BOOST_AUTO_TEST_CASE(a_config_says_how_its_cache_is_kept) {
  const std::string fp8 = R"({"num_bits": 8, "type": "float"})";
  Json scheme = Json::parse(compressed(fp8, fp8));
  BOOST_TEST((load(shipped("llama-3.1-8b"), scheme.dump()).kv_dtype == DataType::bf16));
  scheme["kv_cache_scheme"] = Json::parse(fp8);
  BOOST_TEST((load(shipped("llama-3.1-8b"), scheme.dump()).kv_dtype == DataType::fp8));
  BOOST_TEST((load(shipped("llama-3.1-8b"),
                   R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})")
                  .kv_dtype == DataType::fp8));
}

// nvidia/Llama-3.1-70B-Instruct-FP8: all but embeddings, head and norms in 8 bits, 72.7 GB.
BOOST_AUTO_TEST_CASE(a_file_beside_the_config_says_how_weights_are_kept) {
  const auto loaded = [](const std::string& beside, const std::string& own = "") {
    Json config = shipped("llama-3.1-70b");
    if (!own.empty()) config["quantization_config"] = Json::parse(own);
    const Scratch scratch;
    scratch.write("m.json", config.dump());
    scratch.write("hf_quant_config.json", beside);
    return scenario::load_model(scratch.path("m.json"), {"s.yaml", 1, 9}, "", "");
  };
  const std::string fp8 = R"({"producer": {"name": "modelopt"}, "quantization":
    {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}})";
  const scenario::LoadedModel model = loaded(fp8);
  BOOST_TEST(gigabytes(model.shape) == 72.7, boost::test_tools::tolerance(0.001));
  BOOST_TEST((model.shape.kv_dtype == DataType::fp8));
  BOOST_TEST(model.notes.front().find("hf_quant_config.json") != std::string::npos);
  // The config's own section counts first, as in vLLM.
  BOOST_TEST(gigabytes(loaded(fp8, kAwq).shape) == 39.8, boost::test_tools::tolerance(0.005));
  BOOST_CHECK_THROW(loaded("[]"), InputError);
  BOOST_CHECK_THROW(loaded("{}"), InputError);
  BOOST_CHECK_THROW(loaded(R"({"quantization": {"quant_algo": "W4A8_AWQ"}})"), InputError);
}

BOOST_AUTO_TEST_CASE(the_shipped_gpt_oss_has_its_published_size) {
  constexpr double kGbPerGib = 1.073741824;
  BOOST_TEST(gigabytes(load(shipped("gpt-oss-120b"), "")) == 60.8 * kGbPerGib, boost::test_tools::tolerance(0.005));
}

BOOST_AUTO_TEST_CASE(what_is_not_modelled_is_refused_by_name) {
  BOOST_TEST(refusal(kAwq) == "accepted");
  BOOST_TEST(refusal(R"({"quant_method": "bitsandbytes", "load_in_4bit": true})") ==
             "quantization_config.quant_method: 'bitsandbytes' is not modelled; accepted: awq, gptq, "
             "compressed-tensors, fp8, fbgemm_fp8, modelopt, mxfp4");
  BOOST_TEST(refusal(R"({"bits": 4})") ==
             "quantization_config.quant_method: is required; accepted: awq, gptq, compressed-tensors, fp8, fbgemm_fp8, "
             "modelopt, mxfp4");
  BOOST_TEST(refusal(R"({"quant_method": "gptq", "bits": 3, "group_size": 128})") ==
             "quantization_config.bits: 3 is not modelled; accepted: 4, 8");
  BOOST_TEST(refusal(R"({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.3.self_attn.q_proj"]})") ==
             "quantization_config: number formats that differ inside the attention of layer 3 are not modelled");
  BOOST_TEST(refusal(R"x({"quant_method": "fp8", "ignored_layers": ["re:(a|b)"]})x") ==
             "quantization_config.ignored_layers: 're:(a|b)' is not modelled; accepted in an expression: letters, '.', "
             "'.*', '\\.', '$'");
  BOOST_TEST(refusal(R"({"quant_method": "mxfp4"})") ==
             "quantization_config.quant_method: mxfp4 is a format of experts, but this model has no experts");
  BOOST_TEST(refusal("[]") == "quantization_config: expected an object, got a list");
  BOOST_TEST(refusal(kAwq, "fp8") ==
             "model.dtype: fp8, but the config has quantised weights; all other weights must be bf16 or fp16");
  BOOST_TEST((load(shipped("llama-3.1-8b"), kAwq, "fp16").layer(0).mlp->dtype == DataType::fp16));
}
