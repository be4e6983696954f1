// The files a scenario names: model configs and request traces.
#define BOOST_TEST_MODULE scenario_inputs
#include <boost/test/unit_test.hpp>

#include "sc_main/scenario/model/config.h"
#include "tests/scenario/scenario_support.h"
#include "workload/inference/service/serving_spec.h"

using namespace railyard;
using namespace railyard::test;
using transformer::ModelShape;
using workload::inference::ServingSpec;

namespace {

ModelShape shipped(const std::string& name) {
  const Scratch scratch;
  return scratch.load_with({"model.config=" + kSource + "/scenarios/models/" + name + ".json", "workload.prefill.tp=1"})
      .model;
}

struct Config {
  Scratch scratch;
  std::string fields = R"("hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 1000)";

  ModelShape load(const std::string& more, const std::vector<std::string>& sets = {}) {
    scratch.write("m.json", "{" + fields + more + "}");
    std::vector<std::string> all{"model.config=m.json"};
    all.insert(all.end(), sets.begin(), sets.end());
    return scratch.load_with(all).model;
  }
  std::string refusal(const std::string& text) {
    scratch.write("m.json", text);
    return scratch.refusal_of_set("model.config=m.json");
  }
};

struct Trace {
  Scratch scratch;

  std::vector<workload::inference::Request> load(const std::string& format, const std::string& text,
                                                 const std::string& more = "") {
    scratch.write("trace", text);
    return *scratch.load_with({"workload.requests={format: " + format + ", file: trace" + more + "}"})
                .spec<ServingSpec>()
                .listed;
  }
  std::string refusal(const std::string& format, const std::string& text, const std::string& more = "") {
    scratch.write("trace", text);
    return scratch.refusal_of_set("workload.requests={format: " + format + ", file: trace" + more + "}");
  }
};

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const std::string kFirst = "2023-11-16 18:15:46.6805900,374,44\n";

}  // namespace

BOOST_AUTO_TEST_CASE(shipped_models) {
  struct Expected {
    const char* name;
    std::uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, experts, experts_per_token, vocab;
    bool qkv_bias;
  };
  // Published shapes (HuggingFace model cards).
  for (const Expected& e : {Expected{"llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 0, 0, 128256, false},
                            Expected{"llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 0, 0, 128256, false},
                            Expected{"llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 0, 0, 128256, false},
                            Expected{"qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 0, 0, 152064, true},
                            Expected{"mistral-nemo-12b", 40, 5120, 32, 8, 128, 14336, 0, 0, 131072, false},
                            Expected{"yi-34b", 60, 7168, 56, 8, 128, 20480, 0, 0, 64000, false},
                            Expected{"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 0, 0, 152064, true},
                            Expected{"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 8, 2, 32000, false}}) {
    const ModelShape m = shipped(e.name);
    BOOST_TEST_CONTEXT(e.name) {
      BOOST_TEST(m.name == e.name);
      BOOST_TEST(m.layers == e.layers);
      BOOST_TEST(m.hidden == e.hidden);
      BOOST_TEST(m.heads == e.heads);
      BOOST_TEST(m.kv_heads == e.kv_heads);
      BOOST_TEST(m.head_dim == e.head_dim);
      BOOST_TEST(m.ffn == e.ffn);
      BOOST_TEST(m.experts == e.experts);
      BOOST_TEST(m.experts_per_token == e.experts_per_token);
      BOOST_TEST(m.vocab == e.vocab);
      BOOST_TEST(m.gated_mlp);
      BOOST_TEST(!m.tied_embeddings);
      BOOST_TEST(m.qkv_bias == e.qkv_bias);
      BOOST_TEST((m.dtype == DataType::bf16));
      BOOST_TEST((m.kv_dtype == DataType::bf16));
    }
  }
}

BOOST_AUTO_TEST_CASE(config_defaults) {
  Config config;
  const ModelShape m = config.load(R"(, "intermediate_size": 2048)");
  BOOST_TEST(m.kv_heads == 8u);
  BOOST_TEST(m.head_dim == 64u);
  BOOST_TEST(m.gated_mlp);
  BOOST_TEST(!m.tied_embeddings);
  BOOST_TEST(!m.qkv_bias);
  BOOST_TEST(m.experts == 0u);
  BOOST_TEST((m.dtype == DataType::bf16));
  const ModelShape nulls = config.load(R"(, "intermediate_size": 2048, "head_dim": null, "num_key_value_heads": null)");
  BOOST_TEST(nulls.head_dim == 64u);
  BOOST_TEST(nulls.kv_heads == 8u);
}

BOOST_AUTO_TEST_CASE(config_variants) {
  Config config;
  const std::string ffn = R"(, "intermediate_size": 2048)";
  BOOST_TEST(!config.load(ffn + R"(, "hidden_act": "gelu_new")").gated_mlp);
  BOOST_TEST(config.load(ffn + R"(, "hidden_act": "silu")").gated_mlp);
  BOOST_TEST(config.load(ffn + R"(, "model_type": "qwen2")").qkv_bias);
  BOOST_TEST(config.load(ffn + R"(, "attention_bias": true)").qkv_bias);
  BOOST_TEST(!config.load(ffn + R"(, "model_type": "qwen2", "attention_bias": false)").qkv_bias);
  BOOST_TEST(config.load(ffn + R"(, "tie_word_embeddings": true)").tied_embeddings);
  BOOST_TEST(config.load(ffn + R"(, "head_dim": 128)").head_dim == 128u);
  BOOST_TEST((config.load(ffn + R"(, "torch_dtype": "float16")").dtype == DataType::fp16));
  BOOST_TEST((config.load(ffn + R"(, "dtype": "float16")").kv_dtype == DataType::fp16));
  const ModelShape mixed = config.load(ffn + R"(, "torch_dtype": "float16")", {"model.kv_dtype=fp8"});
  BOOST_TEST((mixed.dtype == DataType::fp16));
  BOOST_TEST((mixed.kv_dtype == DataType::fp8));
  // An unknown torch_dtype does not matter once the scenario says which.
  BOOST_TEST((config.load(ffn + R"(, "torch_dtype": "float32")", {"model.dtype=bf16"}).dtype == DataType::bf16));
  for (const std::string experts : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    const ModelShape moe =
        config.load(ffn + ", \"" + experts + R"(": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 96)");
    BOOST_TEST(moe.experts == 16u);
    BOOST_TEST(moe.experts_per_token == 4u);
    BOOST_TEST(moe.ffn == 96u);
  }
  config.fields =
      R"("architectures": ["Some"], "text_config": {"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8,
                     "vocab_size": 1000, "intermediate_size": 2048}, "torch_dtype": "float16")";
  BOOST_TEST(config.load("").layers == 6u);
  BOOST_TEST((config.load("").dtype == DataType::fp16));
}

// What a family's class in transformers does, whatever the activation is called.
BOOST_AUTO_TEST_CASE(config_families) {
  Config config;
  const auto load = [&](const std::string& type, const std::string& more = "") {
    return config.load(R"(, "intermediate_size": 2048, "model_type": ")" + type + '"' + more);
  };
  BOOST_TEST(load("gemma2", R"(, "hidden_activation": "gelu_pytorch_tanh")").gated_mlp);
  BOOST_TEST(config.load(R"(, "intermediate_size": 2048, "hidden_activation": "gelu_pytorch_tanh")").gated_mlp);
  BOOST_TEST(!load("starcoder2", R"(, "hidden_act": "gelu_pytorch_tanh")").gated_mlp);
  BOOST_TEST(!load("falcon", R"(, "activation": "gelu")").gated_mlp);
  BOOST_TEST(!load("nemotron", R"(, "hidden_act": "relu2")").gated_mlp);
  BOOST_TEST(load("gemma").tied_embeddings);
  BOOST_TEST(!load("gemma", R"(, "tie_word_embeddings": false)").tied_embeddings);
  BOOST_TEST(!load("llama").tied_embeddings);
  BOOST_TEST(load("gemma").head_dim == 256u);
  BOOST_TEST(load("gemma2").norms == 4u);
  BOOST_TEST(load("cohere").norms == 1u);
  BOOST_TEST(load("qwen3").qk_norm == 2 * 128u);
  BOOST_TEST(load("olmo2").qk_norm == 16 * 64u);
  BOOST_TEST(load("opt", R"(, "max_position_embeddings": 2048)").positions == 2050u);
  BOOST_TEST(!load("bloom").rotary);
  // MQA and GQA, as Falcon spells them.
  BOOST_TEST(load("falcon").kv_heads == 1u);
  BOOST_TEST(load("falcon", R"(, "multi_query": false)").kv_heads == 8u);
  BOOST_TEST(load("falcon", R"(, "new_decoder_architecture": true, "num_kv_heads": 2)").kv_heads == 2u);
  // Shared experts, and layers without experts.
  const std::string experts = R"(, "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 96)";
  const ModelShape qwen =
      load("qwen2_moe", experts + R"(, "shared_expert_intermediate_size": 300, "mlp_only_layers": [1])");
  BOOST_TEST(qwen.shared_ffn == 300u);
  BOOST_TEST(qwen.shared_gate);
  BOOST_TEST((qwen.routes(qwen.layer(0)) && !qwen.routes(qwen.layer(1)) && qwen.routes(qwen.layer(3))));
  const ModelShape deepseek = load("deepseek", experts + R"(, "n_shared_experts": 2, "first_k_dense_replace": 1)");
  BOOST_TEST(deepseek.shared_ffn == 192u);
  BOOST_TEST((!deepseek.routes(deepseek.layer(0)) && deepseek.routes(deepseek.layer(1))));
  BOOST_TEST(deepseek.dense_ffn == 2048u);
}

BOOST_AUTO_TEST_CASE(config_windows) {
  Config config;
  const auto windows = [&](const std::string& more) {
    const ModelShape m = config.load(R"(, "intermediate_size": 2048)" + more);
    std::string text;
    for (std::uint32_t l = 0; l < m.layers; ++l) text += (l ? " " : "") + std::to_string(m.layer(l).window);
    return text;
  };
  BOOST_TEST(windows(R"(, "model_type": "mistral", "sliding_window": 64)") == "64 64 64 64");
  BOOST_TEST(windows(R"(, "model_type": "mistral", "sliding_window": null)") == "0 0 0 0");
  BOOST_TEST(windows(R"(, "model_type": "mistral")") == "4096 4096 4096 4096");
  BOOST_TEST(windows(R"(, "model_type": "gemma2", "sliding_window": 64)") == "64 0 64 0");
  BOOST_TEST(windows(R"(, "model_type": "gemma3_text", "sliding_window": 64, "sliding_window_pattern": 3)") ==
             "64 64 0 64");
  BOOST_TEST(
      windows(
          R"(, "model_type": "qwen2", "sliding_window": 64, "use_sliding_window": false, "max_window_layers": 2)") ==
      "0 0 0 0");
  BOOST_TEST(
      windows(R"(, "model_type": "qwen2", "sliding_window": 64, "use_sliding_window": true, "max_window_layers": 3)") ==
      "0 0 0 64");
  BOOST_TEST(windows(R"(, "model_type": "qwen3", "sliding_window": 64, "use_sliding_window": true,
                         "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])") ==
             "0 64 0 64");
}

// Keys that are not modelled: named if they change no time, refused by name if they do.
BOOST_AUTO_TEST_CASE(config_keys_that_nothing_reads) {
  Config config;
  const auto notes = [&](const std::string& more) {
    config.load(R"(, "intermediate_size": 2048)" + more);
    std::string text;
    for (const std::string& line : scenario::load_model(config.scratch.path("m.json"), {}, "", "").notes)
      text += (text.empty() ? "" : "; ") + line.substr(line.find("m.json"));
    return text;
  };
  BOOST_TEST(
      notes(R"(, "bos_token_id": 1, "initializer_range": 0.02, "attention_dropout": 0.0, "rope_scaling": null)") == "");
  BOOST_TEST(notes(R"(, "rope_scaling": {"factor": 8.0}, "attention_dropout": 0.1)") ==
             "m.json: assumed to have no effect on time: rope_scaling, attention_dropout");
  BOOST_TEST(notes(R"(, "flux_capacitance": 1.21, "off": false)") ==
             "m.json: unknown keys, assumed to have no effect on time and memory: flux_capacitance");
  const std::string good = "{" + config.fields + ",\n\"intermediate_size\": 2048";
  BOOST_TEST(config.refusal(good + ",\n \"attention_chunk_size\": 8192}") ==
             "m.json:3:26: error: attention_chunk_size: chunked attention is not modelled");
  BOOST_TEST(config.refusal(good + ",\n \"model_type\": \"lama\"}") ==
             "m.json:3:16: error: model_type: 'lama' is not modelled (did you mean 'llama'?)");
  // Python's json module writes words for numbers that JSON does not have.
  BOOST_TEST(notes(R"(, "time_step_limit": [0.0, Infinity, -Infinity, NaN, "NaN \" Infinity"])") ==
             "m.json: unknown keys, assumed to have no effect on time and memory: time_step_limit");
  BOOST_TEST(config.refusal(good + ",\n \"num_key_value_heads\": Infinity}")
                 .find("m.json:3:25: error: num_key_value_heads: ") == 0u);
  // The name of another architecture is no misspelling, and what it needs is said first.
  for (const std::string other : {"nemotron_h", "deepseek_v4", "llama4_text", "qwen4"})
    BOOST_TEST(config.refusal(good + ",\n \"model_type\": \"" + other + "\"}").find("did you mean") ==
               std::string::npos);
  BOOST_TEST(config.refusal(good + ",\n \"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M*\"}") ==
             "m.json:3:57: error: hybrid_override_pattern: state-space layers (Mamba) are not modelled");
  BOOST_TEST(config.refusal(good + ",\n \"layer_types\": [\"linear_attention\", \"a\", \"a\", \"a\"]}") ==
             "m.json:3:18: error: layer_types: 'linear_attention' is not modelled; accepted: full_attention, "
             "sliding_attention");
  BOOST_TEST(config.refusal(good + ",\n \"layer_types\": []}") ==
             "m.json:3:17: error: layer_types: has 0 items for 4 layers");
}

BOOST_AUTO_TEST_CASE(config_errors) {
  Config c;
  const std::string good = c.fields + ",\n\"intermediate_size\": 2048";
  BOOST_TEST(c.refusal("{" + good + "}") == "accepted");
  BOOST_TEST(c.refusal("") == "m.json:1:1: error: the file is empty");
  BOOST_TEST(c.refusal("[1]") == "m.json:1:1: error: expected an object, got a list");
  BOOST_TEST(c.refusal("{\n  \"hidden_size\": 512,\n}")
                 .find("m.json:3:1: error: not valid JSON: syntax error while parsing object key") == 0u);
  BOOST_TEST(c.refusal("{" + c.fields + "}") ==
             "m.json:1:1: error: intermediate_size: is required in a model's config.json");
  BOOST_TEST(c.refusal("{\"vocab_size\": 10}") ==
             "m.json:1:1: error: num_hidden_layers: is required in a model's config.json");
  BOOST_TEST(c.refusal("{" + good + ",\n \"head_dim\": \"big\"}") ==
             "m.json:3:14: error: head_dim: expected an integer, got the quoted text 'big'");
  BOOST_TEST(c.refusal("{" + good + ",\n \"head_dim\": 64.0}") ==
             "m.json:3:14: error: head_dim: expected an integer, got '64.0'");
  BOOST_TEST(c.refusal("{" + good + ",\n \"head_dim\": -1}") ==
             "m.json:3:14: error: head_dim: '-1' is out of range; accepted: 1 to 16777216");
  BOOST_TEST(c.refusal("{" + good + ",\n \"a\": 1, \"a\": 2}") == "m.json:3:10: error: duplicate key 'a'");
  BOOST_TEST(c.refusal("{" + good + ",\n \"kv_lora_rank\": 512}") ==
             "m.json:1:1: error: qk_nope_head_dim: is required in a model's config.json");
  BOOST_TEST(c.refusal("{" + good + ",\n \"num_key_value_heads\": 3}") ==
             "m.json:3:25: error: num_key_value_heads: 3 does not divide num_attention_heads, 8");
  BOOST_TEST(c.refusal("{" + good + ",\n \"hidden_act\": \"silo\"}") ==
             "m.json:3:16: error: hidden_act: unknown activation 'silo' (did you mean 'silu'?)");
  BOOST_TEST(c.refusal("{" + good + ",\n \"torch_dtype\": \"float32\"}") ==
             "m.json:3:17: error: torch_dtype: 'float32' is not modelled; set model.dtype in the scenario to one of "
             "fp16, bf16, tf32, fp8, int8, fp4, mxfp8, nvfp4");
  BOOST_TEST(c.refusal("{" + good + ",\n \"num_experts\": 8}") ==
             "m.json:1:1: error: num_experts_per_tok: is required in a model's config.json");
  BOOST_TEST(c.refusal("{" + good + ",\n \"num_experts\": 8, \"num_experts_per_tok\": 9}") ==
             "m.json:3:43: error: num_experts_per_tok: 9 is more than the 8 experts");
  BOOST_TEST(c.refusal(std::string(100000, '[')).find("error: values nested more than 64 deep") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(azure_trace) {
  Trace trace;
  const auto r =
      trace.load("azure", kHeader + kFirst + "2023-11-16 18:15:50.9951690,396,109\r\n\n2023-11-16 18:16:00,1,1\n");
  BOOST_TEST(r.size() == 3u);
  BOOST_TEST(r[0].arrival.fs() == 0u);
  BOOST_TEST(r[0].prompt_tokens == 374u);
  BOOST_TEST(r[0].output_tokens == 44u);
  BOOST_TEST(r[1].arrival.fs() == 4'314'579'000'000'000ull);  // exactly, at rate 1
  BOOST_TEST(r[2].arrival.fs() == 13'319'410'000'000'000ull);
}

BOOST_AUTO_TEST_CASE(azure_columns_go_by_name) {
  Trace trace;
  const auto r = trace.load("azure",
                            "\xef\xbb\xbfNumImages,GeneratedTokens,TIMESTAMP,ContextTokens\r\n0,5,2024-02-28 "
                            "23:59:59.5+00:00,7\r\n2,6,2024-02-29 00:00:00+00:00,8\r\n");
  BOOST_TEST(r.size() == 2u);
  BOOST_TEST(r[0].prompt_tokens == 7u);
  BOOST_TEST(r[1].output_tokens == 6u);
  BOOST_TEST(r[1].arrival.fs() == 500'000'000'000'000ull);  // into a leap day
}

BOOST_AUTO_TEST_CASE(mooncake_trace) {
  Trace trace;
  const auto r =
      trace.load("mooncake",
                 "{\"timestamp\": 1000, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n"
                 "{\"timestamp\": 1003, \"input_length\": 7, \"output_length\": 1}\n");
  BOOST_TEST(r.size() == 2u);
  BOOST_TEST(r[0].arrival.fs() == 0u);
  BOOST_TEST(r[0].prompt_tokens == 6758u);
  BOOST_TEST(r[0].output_tokens == 500u);
  BOOST_TEST((r[1].arrival == Time::ms(3)));
}

BOOST_AUTO_TEST_CASE(max_count_and_rate_scale) {
  Trace trace;
  const std::string rows =
      "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n"
      "{\"timestamp\": 300, \"input_length\": 2, \"output_length\": 1}\n"
      "{\"timestamp\": 100, \"input_length\": 3, \"output_length\": 1}\n"
      "{\"timestamp\": 300, \"input_length\": 4, \"output_length\": 1}\nnot read\n";
  const auto r = trace.load("mooncake", rows, ", max_count: 4, rate_scale: 3");
  BOOST_TEST(r.size() == 4u);
  const std::vector<std::uint32_t> order{1, 3, 2, 4};  // by arrival, equal ones as in the file
  for (std::size_t i = 0; i < order.size(); ++i) BOOST_TEST(r[i].prompt_tokens == order[i]);
  BOOST_TEST(r[1].arrival.fs() == 33'333'333'333'333ull);
  BOOST_TEST((r[2].arrival == Time::ms(100)));
}

BOOST_AUTO_TEST_CASE(trace_errors_cite_the_line) {
  Trace t;
  BOOST_TEST(t.refusal("azure", "") == "trace:1:1: error: the trace is empty");
  BOOST_TEST(t.refusal("azure", kHeader) == "trace:1:1: error: the trace has no rows");
  BOOST_TEST(t.refusal("azure", "TIMESTAMP,Context,GeneratedTokens\n") ==
             "trace:1:1: error: no column ContextTokens; the header is 'TIMESTAMP,Context,GeneratedTokens'");
  BOOST_TEST(t.refusal("azure", kHeader + kFirst + "2023-11-16 18:15:50,0,5\n") ==
             "trace:3:1: error: ContextTokens: '0' is out of range; accepted: 1 to 16777216");
  BOOST_TEST(t.refusal("azure", kHeader + kFirst + "\n2023-11-16 18:15:50,5,0\n") ==
             "trace:4:1: error: GeneratedTokens: '0' is out of range; accepted: 1 to 16777216");
  BOOST_TEST(t.refusal("azure", kHeader + "2023-11-16 18:15:50,5,-1\n") ==
             "trace:2:1: error: GeneratedTokens: expected an integer, got '-1'");
  BOOST_TEST(t.refusal("azure", kHeader + "2023-11-16 18:15:50,5\n") ==
             "trace:2:1: error: expected 3 columns as in the header, got 2");
  for (const std::string time :
       {"16/11/2023 18:15", "2023-13-16 18:15:50", "2023-11-16 24:15:50", "2023-11-16 18:15:50.",
        "2023-11-16 18:15:50.12x", "9023-11-16 18:15:50", "0000-11-16 18:15:50"}) {
    BOOST_TEST(t.refusal("azure", kHeader + time + ",5,5\n") ==
               "trace:2:1: error: TIMESTAMP: expected 'YYYY-MM-DD HH:MM:SS.fffffff', got '" + time + "'");
  }
  const std::string row = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n";
  BOOST_TEST(t.refusal("mooncake", row + "{\"timestamp\": 0,\n") ==
             "trace:2:1: error: expected a JSON object on each line, got '{\"timestamp\": 0,'");
  BOOST_TEST(t.refusal("mooncake", row + "{\"timestamp\": 0, \"input_length\": 1}\n") ==
             "trace:2:1: error: output_length: is required on each line");
  BOOST_TEST(t.refusal("mooncake", row + "{\"timestamp\": \"x\", \"input_length\": 1, \"output_length\": 1}\n") ==
             "trace:2:1: error: timestamp: expected milliseconds, got '\"x\"'");
  BOOST_TEST(t.refusal("mooncake", row + "{\"timestamp\": 1e13, \"input_length\": 1, \"output_length\": 1}\n") ==
             "trace:2:1: error: timestamp: expected milliseconds, got '10000000000000.0'");
  BOOST_TEST(t.refusal("mooncake", "{\"timestamp\": 0, \"input_length\": 1.5, \"output_length\": 1}\n") ==
             "trace:1:1: error: input_length: expected an integer, got '1.5'");
  BOOST_TEST(t.refusal("mooncake", row + "{\"timestamp\": 18000001, \"input_length\": 1, \"output_length\": 1}\n") ==
             "trace:2:1: error: the arrivals span more than 5 hours, the limit of a run; set a smaller max_count or a "
             "larger rate_scale");
  BOOST_TEST(t.refusal("mooncake", row + "{\"timestamp\": 17999000, \"input_length\": 1, \"output_length\": 1}\n") ==
             "accepted");
}
