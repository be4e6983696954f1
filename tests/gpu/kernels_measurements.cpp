// The kernel formulas against open measurements, where those are at hand: matrix products and attention of the ai-
// dynamo/aiconfigurator 095f58a tables (TensorRT-LLM and vLLM collections, CUDA graph, weights rotated to defeat L2), and decode
// attention of alibaba/InferSim.
#define BOOST_TEST_MODULE kernels_measurements
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/kernels/gemm.h"
#include "gpu/kernels/kernel_spec.h"
#include "tests/gpu/kernels_datasheets.h"

using namespace railyard;
using namespace railyard::gpu;
using railyard::test::gpu_datasheet;

namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

/// Empty, with a message, where the measurements are not at hand.
std::vector<Row> measurements(const std::string& file) {
  std::ifstream in(std::string(RAILYARD_SOURCE_DIR) + "/../shared/reference/measurements/" + file);
  std::vector<Row> rows;
  std::string line;
  if (!std::getline(in, line)) {
    BOOST_TEST_MESSAGE("skipped: " << file << " is not at hand");
    return rows;
  }
  const std::vector<std::string> names = fields_of(line);
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = fields_of(line);
    Row row;
    for (std::size_t i = 0; i < names.size() && i < fields.size(); ++i) row[names[i]] = fields[i];
    rows.push_back(row);
  }
  return rows;
}

/// Mean |ln(model / measured)| over the rows that `model` gives a time in seconds for; the file's times are in us.
void check(const std::string& file, std::size_t least_rows, double bound,
           const std::function<std::optional<double>(Row&)>& model) {
  std::vector<Row> rows = measurements(file);
  if (rows.empty()) return;
  double sum = 0;
  std::size_t count = 0;
  for (Row& row : rows) {
    const std::optional<double> seconds = model(row);
    if (!seconds) continue;
    sum += std::abs(std::log(*seconds * 1e6 / std::stod(row["value"])));
    ++count;
  }
  BOOST_TEST_MESSAGE(file << ": " << count << " rows, mean |ln| error " << sum / static_cast<double>(count));
  BOOST_TEST(count >= least_rows);
  BOOST_TEST(sum / static_cast<double>(count) < bound);
}

/// Five weights take turns in these tables; fp8 rows quantise their inputs first, the scale found in the same run.
void check_gemm(const std::string& system, const std::string& datasheet, std::size_t rows) {
  const GpuDatasheet gpu = gpu_datasheet(datasheet);
  check("3a_gemm.csv", rows, 0.07, [&](Row& row) -> std::optional<double> {
    if (row["system"] != system || row["metric"] != "time") return std::nullopt;
    KernelSpec gemm, quantize;
    gemm.op = KernelOp::gemm;
    gemm.m = std::stoull(row["M"]), gemm.n = std::stoull(row["N"]), gemm.k = std::stoull(row["K"]);
    gemm.dtype = row["dtype"] == "fp8" ? DataType::fp8 : DataType::bf16;
    gemm.weight_copies = 5;
    const double product = kernel_time(gpu, gemm).seconds;
    if (gemm.dtype == DataType::bf16) return product;
    quantize.op = KernelOp::quantize;
    quantize.tokens = gemm.m, quantize.width = gemm.k, quantize.dtype = DataType::fp8;
    quantize.dynamic = true;
    return product + kernel_time(gpu, quantize).seconds;
  });
}

/// Prefill and decode rows of all libraries; they include the rotary embedding and the KV write.
void check_attention(const std::string& system, const std::string& datasheet, std::size_t rows, double bound) {
  const GpuDatasheet gpu = gpu_datasheet(datasheet);
  check("3b_attention.csv", rows, bound, [&](Row& row) -> std::optional<double> {
    if (row["system"] != system || row["metric"] != "time") return std::nullopt;
    const std::uint32_t batch = std::stoul(row["batch"]);
    const std::uint64_t tokens = std::stoull(row["seq"]), context = std::stoull(row["kv_len"]);
    const bool decode = row["phase"] == "decode", vllm = row["library"].find("vllm") == 0;
    KernelSpec attention, rotary;
    attention.op = decode ? KernelOp::attention_decode : KernelOp::attention_prefill;
    attention.heads = {static_cast<std::uint32_t>(std::stoul(row["heads"])),
                       static_cast<std::uint32_t>(std::stoul(row["kv_heads"])),
                       static_cast<std::uint32_t>(std::stoul(row["head_dim"])), DataType::bf16};
    attention.sequences.assign(
        batch, decode ? AttentionSequence{1, context - 1} : AttentionSequence{tokens, context - tokens});
    // FlashAttention-2 splits the contexts of grouped heads only.
    attention.split_context = !(gpu.architecture == "ampere" && vllm && attention.heads.query == attention.heads.kv);
    if (row["library"].find("InferSim") !=
        std::string::npos) {  // PyTorch calls in a loop, without the rotary embedding
      attention.launch = KernelLaunch::host;
      attention.host_us = 28;
      return kernel_time(gpu, attention).seconds;
    }
    rotary.op = KernelOp::rotary;
    rotary.tokens = batch * tokens;
    rotary.heads = attention.heads;
    rotary.kv_cache = true;
    return kernel_time(gpu, rotary).seconds + kernel_time(gpu, attention).seconds;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(gemm_a100) { check_gemm("a100_sxm", "A100-SXM4-80GB", 286); }
BOOST_AUTO_TEST_CASE(gemm_h100) { check_gemm("h100_sxm", "H100-SXM5-80GB", 338); }
BOOST_AUTO_TEST_CASE(gemm_b200) { check_gemm("b200_sxm", "B200-SXM-180GB", 338); }
BOOST_AUTO_TEST_CASE(gemm_l40s) { check_gemm("l40s", "L40S", 277); }

BOOST_AUTO_TEST_CASE(attention_a100) { check_attention("a100_sxm", "A100-SXM4-80GB", 229, 0.10); }
BOOST_AUTO_TEST_CASE(attention_h100) { check_attention("h100_sxm", "H100-SXM5-80GB", 524, 0.11); }
BOOST_AUTO_TEST_CASE(attention_b200) { check_attention("b200_sxm", "B200-SXM-180GB", 286, 0.08); }
BOOST_AUTO_TEST_CASE(attention_l40s) { check_attention("l40s", "L40S", 244, 0.09); }
BOOST_AUTO_TEST_CASE(attention_h800) { check_attention("H800", "H800-SXM5-80GB", 287, 0.10); }

// The constants were fitted to the tables above; the profiles of microsoft/vidur were not used (but for the A40's
// tensor rate).
void check_vidur(const std::string& system, const std::string& datasheet, double bound) {
  const GpuDatasheet gpu = gpu_datasheet(datasheet);
  check("3c_membw_latency_launch.csv", 100, bound, [&](Row& row) -> std::optional<double> {
    unsigned tokens = 0, tp = 0;
    if (row["system"] != system || std::sscanf(row["config"].c_str(), "num_tokens=%u TP=%u", &tokens, &tp) != 2)
      return std::nullopt;
    struct Shape {
      std::uint64_t hidden, ffn, heads, kv_heads;
    };
    const std::string& kind = row["kind"];
    const Shape m = kind.find("70b") != std::string::npos  ? Shape{8192, 28672, 64, 8}
                    : kind.find("7b") != std::string::npos ? Shape{4096, 11008, 32, 32}
                                                           : Shape{4096, 14336, 32, 8};
    const auto gemm = [&](std::uint64_t n, std::uint64_t k) {
      return gemm_time(gpu, {tokens, n, k, DataType::bf16, 1}).seconds;
    };
    const auto is = [&](const char* op) { return kind.find(op) != std::string::npos; };
    if (is("attn_pre_proj")) return gemm((m.heads + 2 * m.kv_heads) * 128 / tp, m.hidden);
    if (is("attn_post_proj")) return gemm(m.hidden, m.heads * 128 / tp);
    if (is("mlp_up_proj")) return gemm(2 * m.ffn / tp, m.hidden);
    if (is("mlp_down_proj")) return gemm(m.hidden, m.ffn / tp);
    return std::nullopt;
  });
}

BOOST_AUTO_TEST_CASE(vidur_gemm_a100) { check_vidur("a100 (vidur)", "A100-SXM4-80GB", 0.10); }
BOOST_AUTO_TEST_CASE(vidur_gemm_h100) { check_vidur("h100 (vidur)", "H100-SXM5-80GB", 0.12); }
BOOST_AUTO_TEST_CASE(vidur_gemm_a40) { check_vidur("a40 (vidur)", "A40-48GB", 0.08); }
