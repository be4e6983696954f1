#include <fmt/format.h>
#include <algorithm>

#include "sc_main/kinds/disaggregated_prefill.h"
#include "sc_main/kinds/model_arithmetic.h"
#include "transformer/memory.h"
#include "transformer/parameters.h"

namespace railyard {

namespace {

using workload::inference::Grid;

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

}  // namespace

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
                {"layers", layer_arithmetic(scenario.model, gpus, request.prompt_tokens + request.output_tokens)}};
  e["first_request"] = {
      {"prompt_tokens", request.prompt_tokens},
      {"output_tokens", request.output_tokens},
      {"chunks", chunks},
      {"prefill_flops", transformer::prefill_flops(scenario.model, scenario.model.layers, request.prompt_tokens, 0) +
                            transformer::head_flops(scenario.model, 1)}};
  e["prefill"]["stages"] = ranks_of(prefill, request.prompt_tokens, chunk, 1);
  e["prefill"]["first_chunk"] = pass_arithmetic(fabric_, prefill, prefill_gpus_, {{{chunk, 0}}, {}});
  const double stage = e["prefill"]["first_chunk"]["stage0_ideal_s"].real();
  e["prefill"]["ideal_ttft_s"] = stage * static_cast<double>(chunks + prefill.pp() - 1);
  e["prefill"]["ideal_bubble_fraction"] =
      static_cast<double>(prefill.pp() - 1) / static_cast<double>(chunks + prefill.pp() - 1);
  e["decode"]["stages"] = ranks_of(decode, request.prompt_tokens + request.output_tokens, w.max_batch, w.max_batch);
  e["decode"]["first_step"] = pass_arithmetic(fabric_, decode, decode_gpus_, {{}, {{1, request.prompt_tokens}}});

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
  for (const Value& row : e["model"]["layers"].items()) text += layer_arithmetic_text(row);
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
    text += pass_arithmetic_text(e[side][side[0] == 'p' ? "first_chunk" : "first_step"]);
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
