#include <fmt/format.h>
#include <algorithm>

#include "sc_main/kinds/disaggregated_prefill.h"
#include "transformer/memory.h"
#include "transformer/parameters.h"

namespace railyard {

namespace {

using workload::inference::Grid;

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

/// One row for each kind of layer.
Value layers_of(const transformer::ModelShape& model, const std::vector<const gpu::GpuDatasheet*>& gpus,
                std::uint64_t tokens) {
  Value rows = Value::empty_list();
  for (std::uint32_t kind = 0; kind < model.kinds.size(); ++kind) {
    const transformer::LayerShape& layer = model.kinds[kind];
    std::uint32_t layers = 0;
    for (std::uint32_t l = 0; l < model.layers; ++l) layers += model.kind(l) == kind ? 1 : 0;
    const bool routes = model.routes(layer);
    Value row{{"layers", layers},
              {"parameters", transformer::layer_parameters(model, kind).total()},
              {"window", layer.window},
              {"kv_tokens_of_first_request", transformer::kept_tokens(layer, tokens, 1)},
              {"gated", model.gated_mlp},
              {"width", routes || model.experts == 0 ? model.ffn : model.dense_ffn},
              {"experts", routes ? model.experts : 0},
              {"attention_weights", format_text(model, layer.attention, gpus)}};
    if (routes) row["expert_weights"] = format_text(model, layer.experts, gpus);
    if (!routes || model.shared_ffn > 0) row["mlp_weights"] = format_text(model, layer.mlp, gpus);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string layer_text(const Value& row) {
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

Value ranks_of(Grid& grid, std::uint64_t kv_tokens, std::uint64_t pass_tokens, std::uint64_t logit_rows) {
  Value stages = Value::empty_list();
  for (std::uint32_t p = 0; p < grid.pp(); ++p) {
    const transformer::RankMemory memory =
        transformer::rank_memory(grid.model(), grid.stage(p), grid.tp(), {kv_tokens, pass_tokens, logit_rows});
    stages.push_back({{"stage", p},
                      {"layers", grid.stage(p).layers},
                      {"parameters_per_rank", transformer::rank_parameters(grid.model(), grid.stage(p), grid.tp())},
                      {"kv_bytes_per_token_per_rank", grid.kv().bytes_per_token(p)},
                      {"weight_bytes", memory.weights},
                      {"kv_bytes", memory.kv},
                      {"activation_bytes", memory.activations},
                      {"total_bytes", memory.total()}});
  }
  return stages;
}

/// Ideal time: the bytes that each rank must send, at the rate of its path, without latency or contention.
double ideal_all_reduce_s(transport::Fabric& fabric, const std::vector<GpuId>& gpus, std::uint32_t tp, Bytes bytes) {
  if (tp == 1) return 0;
  const transport::Path path = fabric.path(gpus[0].value(), gpus[1].value(), number(TrafficClass::tp));
  const double rate =
      static_cast<double>(transport::payload_rate(path, fabric.transaction_bytes(path)).bytes_per_second());
  return 2.0 * (tp - 1) / tp * static_cast<double>(bytes) / rate;
}

}  // namespace

namespace {

const transformer::Segment& kernels_of_part(const std::vector<transformer::LayerStep>& plan,
                                            transformer::LayerPart part) {
  return std::find_if(plan.begin(), plan.end(),
                      [&](const transformer::LayerStep& step) { return !step.is_collective() && step.part == part; })
      ->kernels;
}

}  // namespace

Value DisaggregatedPrefill::pass_numbers(Grid& grid, const std::vector<GpuId>& gpus, const LayerPlans& plans,
                                         std::uint64_t tokens) {
  Value pass;
  const Bytes hidden = transformer::hidden_bytes(grid.model(), tokens);
  double stage0 = 0;
  for (std::uint32_t l = 0; l < grid.stage(0).layers; ++l) {
    double kernels = 0, collectives = 0;
    for (const transformer::LayerStep& step : plans[grid.model().kind(l)])
      step.is_collective() ? collectives += ideal_all_reduce_s(fabric_, gpus, grid.tp(), step.bytes)
                           : kernels += step.kernels.seconds;
    stage0 += kernels + collectives;
  }
  const auto& shown = plans[grid.model().kind(transformer::common_layer(grid.model()))];
  const transformer::Segment& attention = kernels_of_part(shown, transformer::LayerPart::attention);
  const transformer::Segment& mlp = kernels_of_part(shown, transformer::LayerPart::mlp);
  pass["tokens"] = tokens;
  pass["all_reduce_bytes"] = hidden;
  pass["all_reduce_ideal_s"] = ideal_all_reduce_s(fabric_, gpus, grid.tp(), hidden);
  pass["attention_s"] = attention.seconds;
  pass["mlp_s"] = mlp.seconds;
  pass["stage0_ideal_s"] = stage0;
  pass["attention_kernels"] = kernels_of(attention);
  pass["mlp_kernels"] = kernels_of(mlp);
  return pass;
}

Value DisaggregatedPrefill::explain() {
  const Scenario& scenario = scenario_;
  const workload::inference::PrefillSpec& w = spec();
  const workload::inference::Request& request = w.requests.front();
  Grid& prefill = service_->instance(0).grid();
  Grid& decode = service_->instance(1).grid();
  const std::uint32_t chunk = std::min(w.chunk_tokens, request.prompt_tokens);
  const std::uint64_t chunks = ceil_div(request.prompt_tokens, w.chunk_tokens);

  const transformer::Stage whole{scenario.model.layers, true, true};
  const std::vector<const gpu::GpuDatasheet*> gpus{&prefill.rank(0).gpu->datasheet(), &decode.rank(0).gpu->datasheet()};
  Value e;
  e["model"] = {{"name", scenario.model.name},
                {"total_parameters", transformer::total_parameters(scenario.model)},
                {"decoder_parameters", transformer::decoder_parameters(scenario.model)},
                {"dtype", name_of(scenario.model.dtype)},
                {"kv_dtype", name_of(scenario.model.kv_dtype)},
                {"weight_bytes", transformer::rank_weight_bytes(scenario.model, whole, 1)},
                {"kv_bytes_per_token", transformer::kv_bytes_per_token(scenario.model, whole, 1)},
                {"kv_bytes_of_first_request",
                 transformer::kv_bytes(scenario.model, whole, 1, request.prompt_tokens + request.output_tokens, 1)},
                {"layers", layers_of(scenario.model, gpus, request.prompt_tokens + request.output_tokens)}};
  e["first_request"] = {
      {"prompt_tokens", request.prompt_tokens},
      {"output_tokens", request.output_tokens},
      {"chunks", chunks},
      {"prefill_flops", transformer::prefill_flops(scenario.model, scenario.model.layers, request.prompt_tokens, 0) +
                            transformer::head_flops(scenario.model, 1)}};
  e["prefill"]["stages"] = ranks_of(prefill, request.prompt_tokens, chunk, 1);
  LayerPlans chunk_plans, step_plans;
  for (std::uint32_t kind = 0; kind < scenario.model.kinds.size(); ++kind) {
    chunk_plans.push_back(plan_layer(scenario.model, prefill.timer(), {{{chunk, 0}}, {}, kind}, prefill.split()));
    step_plans.push_back(
        plan_layer(scenario.model, decode.timer(), {{}, {{1, request.prompt_tokens}}, kind}, decode.split()));
  }
  e["prefill"]["first_chunk"] = pass_numbers(prefill, prefill_gpus_, chunk_plans, chunk);
  const double stage = e["prefill"]["first_chunk"]["stage0_ideal_s"].real();
  e["prefill"]["ideal_ttft_s"] = stage * static_cast<double>(chunks + prefill.pp() - 1);
  e["prefill"]["ideal_bubble_fraction"] =
      static_cast<double>(prefill.pp() - 1) / static_cast<double>(chunks + prefill.pp() - 1);
  e["decode"]["stages"] = ranks_of(decode, request.prompt_tokens + request.output_tokens, w.max_batch, w.max_batch);
  e["decode"]["first_step"] = pass_numbers(decode, decode_gpus_, step_plans, 1);

  const workload::inference::HandoffPlan& plan = service_->handoff_plan(0, 1);
  Value handoffs = Value::empty_list();
  for (std::uint32_t r = 0; r < prefill.ranks(); ++r) {
    for (const workload::inference::HandoffPlan::Share& share : plan.shares(r)) {
      const Bytes bytes = plan.bytes(share, {0, chunk, request.prompt_tokens});
      const Time alone = fabric_.uncontended(prefill_gpus_[r].value(), decode_gpus_[share.decode_rank].value(),
                                             number(TrafficClass::kv), bytes, transport::Engine::copy_engine);
      handoffs.push_back({{"prefill_rank", r},
                          {"decode_rank", share.decode_rank},
                          {"bytes_per_chunk", bytes},
                          {"uncontended_s", alone.seconds()}});
    }
  }
  e["handoffs"] = handoffs;
  return e;
}

std::string DisaggregatedPrefill::explain_text(const Value& e) const {
  const auto seconds = [](const Value& j) {
    const double s = j.real();
    return s >= 1e-3 ? fmt::format("{:.3f} ms", s * 1e3) : fmt::format("{:.3f} us", s * 1e6);
  };
  std::string text = fmt::format(
      "{}: {} parameters, {} in decoder layers, {:.2f} GB of weights; {} bytes of {} KV per token, {} for the first "
      "request\n",
      e["model"]["name"].text(), e["model"]["total_parameters"].integer(), e["model"]["decoder_parameters"].integer(),
      e["model"]["weight_bytes"].real() * 1e-9, e["model"]["kv_bytes_per_token"].integer(),
      e["model"]["kv_dtype"].text(), e["model"]["kv_bytes_of_first_request"].integer());
  for (const Value& row : e["model"]["layers"].items()) text += layer_text(row);
  text += fmt::format("first request: {} prompt tokens in {} chunks, {} output tokens, {:.3e} FLOP of prefill\n",
                      e["first_request"]["prompt_tokens"].integer(), e["first_request"]["chunks"].integer(),
                      e["first_request"]["output_tokens"].integer(), e["first_request"]["prefill_flops"].real());
  for (const char* side : {"prefill", "decode"}) {
    text += fmt::format("\n{}\n  {:<6} {:>7} {:>16} {:>14} {:>12} {:>12} {:>14} {:>12}\n", side, "stage", "layers",
                        "parameters/rank", "KV B/token/rank", "weights", "KV", "activations", "total");
    for (const Value& s : e[side]["stages"].items())
      text +=
          fmt::format("  {:<6} {:>7} {:>16} {:>14} {:>9.3f} GB {:>9.3f} GB {:>11.3f} GB {:>9.3f} GB\n",
                      s["stage"].integer(), s["layers"].integer(), s["parameters_per_rank"].integer(),
                      s["kv_bytes_per_token_per_rank"].integer(), s["weight_bytes"].real() * 1e-9,
                      s["kv_bytes"].real() * 1e-9, s["activation_bytes"].real() * 1e-9, s["total_bytes"].real() * 1e-9);
    const Value& pass = e[side][side[0] == 'p' ? "first_chunk" : "first_step"];
    text += fmt::format(
        "  pass of {} tokens: attention {}, MLP {}, all-reduce of {} bytes ideally {}; stage 0 ideally {}\n",
        pass["tokens"].integer(), seconds(pass["attention_s"]), seconds(pass["mlp_s"]),
        pass["all_reduce_bytes"].integer(), seconds(pass["all_reduce_ideal_s"]), seconds(pass["stage0_ideal_s"]));
    for (const char* segment : {"attention_kernels", "mlp_kernels"})
      for (const Value& k : pass[segment].items())
        text += fmt::format("    {:<20} {:>12}  {:>10.3f} GFLOP {:>10.3f} MB  {:>4} waves  {}\n", k["name"].text(),
                            seconds(k["time_s"]), k["flops"].real() * 1e-9, k["bytes"].real() * 1e-6,
                            k["waves"].integer(), k["limit"].text());
  }
  text += fmt::format("\nideal TTFT of the first request {} (no latency, no contention), ideal bubble {:.1f} %\n",
                      seconds(e["prefill"]["ideal_ttft_s"]), 100 * e["prefill"]["ideal_bubble_fraction"].real());
  text += "\nKV handoff of the first chunk\n";
  for (const Value& h : e["handoffs"].items())
    text +=
        fmt::format("  prefill rank {:>3} > decode rank {:>3}: {:>12} bytes, alone {}\n", h["prefill_rank"].integer(),
                    h["decode_rank"].integer(), h["bytes_per_chunk"].integer(), seconds(h["uncontended_s"]));
  return text;
}

}  // namespace railyard
