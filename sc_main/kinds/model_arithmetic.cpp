#include "sc_main/kinds/model_arithmetic.h"

#include <fmt/format.h>
#include <algorithm>

#include "transformer/memory.h"
#include "transformer/parameters.h"
#include "workload/traffic.h"

namespace railyard {

namespace {

Value kernels_of(const transformer::Segment& segment) {
  Value rows = Value::empty_list();
  for (const transformer::NamedKernel& k : segment.kernels)
    rows.push_back({{"name", k.name},
                    {"time_s", k.time.seconds},
                    {"flops", k.time.flops},
                    {"bytes", k.time.bytes},
                    {"waves", k.time.waves},
                    {"tail_efficiency", k.time.tail_efficiency},
                    {"limit", gpu::name_of(k.time.limit)}});
  return rows;
}

/// The storage format of weights, and its use in products on the GPUs of both instances.
std::string format_text(const transformer::ModelShape& model, const std::optional<transformer::WeightFormat>& format,
                        const std::vector<const gpu::GpuDatasheet*>& gpus) {
  if (!format) return std::string(name_of(model.dtype));
  std::string text = format->name;
  if (format->dequantised) return text + ", widened to " + std::string(name_of(model.dtype)) + " in products";
  if (format->dynamic) text += ", activations narrowed in front of products";
  for (const gpu::GpuDatasheet* gpu : gpus)
    if (!transformer::multiplies_narrow(*format, *gpu))
      return text + "; " + gpu->name + " widens them to " + std::string(name_of(model.dtype));
  return text;
}

/// Ideal time: the bytes that each rank must send, at the rate of its path, without latency or contention.
double ideal_all_reduce_s(transport::Fabric& fabric, const std::vector<GpuId>& gpus, std::uint32_t tp, Bytes bytes) {
  if (tp == 1) return 0;
  const transport::Path path = fabric.path(gpus[0].value(), gpus[1].value(), number(TrafficClass::tp));
  const double rate =
      static_cast<double>(transport::payload_rate(path, fabric.transaction_bytes(path)).bytes_per_second());
  return 2.0 * (tp - 1) / tp * static_cast<double>(bytes) / rate;
}

/// The same of a collective of tensor parallelism; experts that replicas share exchange tokens over other paths.
double ideal_s(transport::Fabric& fabric, const std::vector<GpuId>& gpus, std::uint32_t tp,
               const transformer::LayerStep& step) {
  if (step.group != transformer::RankGroup::tp) return 0;
  const double all_reduce = ideal_all_reduce_s(fabric, gpus, tp, step.bytes);
  return step.operation == collective::Operation::all_reduce ? all_reduce : all_reduce / 2;
}

transformer::Segment kernels_of_part(const std::vector<transformer::LayerStep>& plan, transformer::LayerPart part) {
  transformer::Segment all;
  for (const transformer::LayerStep& step : plan)
    if (step.part == part) all.append(step.kernels);
  return all;
}

}  // namespace

Value layer_arithmetic(const transformer::ModelShape& model, const std::vector<const gpu::GpuDatasheet*>& gpus,
                       std::optional<std::uint64_t> kv_tokens) {
  Value rows = Value::empty_list();
  for (std::uint32_t kind = 0; kind < model.kinds.size(); ++kind) {
    const transformer::LayerShape& layer = model.kinds[kind];
    std::uint32_t layers = 0;
    for (std::uint32_t l = 0; l < model.layers; ++l) layers += model.kind(l) == kind ? 1 : 0;
    const bool routes = model.routes(layer);
    Value row{{"layers", layers},
              {"parameters", transformer::layer_parameters(model, kind).total()},
              {"window", layer.window}};
    if (kv_tokens) row["kv_tokens_of_first_request"] = transformer::kept_tokens(layer, *kv_tokens, 1);
    row["gated"] = model.gated_mlp;
    row["width"] = routes || model.experts == 0 ? model.ffn : model.dense_ffn;
    row["experts"] = routes ? model.experts : 0;
    row["attention_weights"] = format_text(model, layer.attention, gpus);
    if (routes) row["expert_weights"] = format_text(model, layer.experts, gpus);
    if (!routes || model.shared_ffn > 0) row["mlp_weights"] = format_text(model, layer.mlp, gpus);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string layer_arithmetic_text(const Value& row) {
  const auto text = [&](const char* key) { return row[key].text(); };
  const std::uint32_t window = row["window"].integer(), experts = row["experts"].integer();
  std::string line = fmt::format(
      "  {} layers: {} parameters, {}, {}{} of {}", row["layers"].integer(), row["parameters"].integer(),
      window ? fmt::format("window of {} tokens", window) : "full attention", row["gated"].is_true() ? "gated " : "",
      experts ? fmt::format("MLPs, {} experts", experts) : "MLP", row["width"].integer());
  line += fmt::format("; weights: attention {}", text("attention_weights"));
  if (row.contains("mlp_weights")) line += fmt::format(", MLP {}", text("mlp_weights"));
  if (row.contains("expert_weights")) line += fmt::format(", experts {}", text("expert_weights"));
  return line + "\n";
}

Value pass_arithmetic(transport::Fabric& fabric, workload::inference::Grid& grid, const std::vector<GpuId>& gpus,
                      transformer::LayerPass layer) {
  const std::uint64_t tokens = layer.tokens();
  if (grid.replicas() > 1) layer.group_tokens = grid.split().group_tokens(tokens);
  std::vector<std::vector<transformer::LayerStep>> plans;  // by the model's kinds of layers
  for (layer.kind = 0; layer.kind < grid.model().kinds.size(); ++layer.kind)
    plans.push_back(plan_layer(grid.model(), grid.timer(), layer, grid.split()));
  Value pass;
  const Bytes hidden = transformer::hidden_bytes(grid.model(), tokens);
  double stage0 = 0;
  for (std::uint32_t l = 0; l < grid.stage(0).layers; ++l) {
    double kernels = 0, collectives = 0;
    for (const transformer::LayerStep& step : plans[grid.model().kind(l)])
      step.is_collective() ? collectives += ideal_s(fabric, gpus, grid.tp(), step) : kernels += step.kernels.seconds;
    stage0 += kernels + collectives;
  }
  const auto& shown = plans[grid.model().kind(transformer::common_layer(grid.model()))];
  const transformer::Segment attention = kernels_of_part(shown, transformer::LayerPart::attention);
  const transformer::Segment mlp = kernels_of_part(shown, transformer::LayerPart::mlp);
  pass["tokens"] = tokens;
  pass["all_reduce_bytes"] = hidden;
  pass["all_reduce_ideal_s"] = ideal_all_reduce_s(fabric, gpus, grid.tp(), hidden);
  pass["attention_s"] = attention.seconds;
  pass["mlp_s"] = mlp.seconds;
  pass["stage0_ideal_s"] = stage0;
  pass["attention_kernels"] = kernels_of(attention);
  pass["mlp_kernels"] = kernels_of(mlp);
  return pass;
}

std::string pass_arithmetic_text(const Value& pass) {
  const auto seconds = [](const Value& j) {
    const double s = j.real();
    return s >= 1e-3 ? fmt::format("{:.3f} ms", s * 1e3) : fmt::format("{:.3f} us", s * 1e6);
  };
  std::string text = fmt::format(
      "  pass of {} tokens: attention {}, MLP {}, all-reduce of {} bytes ideally {}; stage 0 ideally {}\n",
      pass["tokens"].integer(), seconds(pass["attention_s"]), seconds(pass["mlp_s"]),
      pass["all_reduce_bytes"].integer(), seconds(pass["all_reduce_ideal_s"]), seconds(pass["stage0_ideal_s"]));
  for (const char* segment : {"attention_kernels", "mlp_kernels"})
    for (const Value& k : pass[segment].items())
      text += fmt::format("    {:<20} {:>12}  {:>10.3f} GFLOP {:>10.3f} MB  {:>4} waves  {}\n", k["name"].text(),
                          seconds(k["time_s"]), k["flops"].real() * 1e-9, k["bytes"].real() * 1e-6,
                          k["waves"].integer(), k["limit"].text());
  return text;
}

}  // namespace railyard
