#include <algorithm>
#include <fmt/format.h>

#include "sc_main/kinds/disaggregated_prefill.h"
#include "workload/transformer/memory.h"
#include "workload/transformer/parameters.h"

namespace railyard {

namespace {

using Json = nlohmann::ordered_json;
using workload::prefill::Grid;

Json kernels_of(const workload::Segment& segment) {
  Json rows = Json::array();
  for (const workload::NamedKernel& k : segment.kernels)
    rows.push_back({{"name", k.name}, {"time_s", k.time.seconds}, {"flops", k.time.flops}, {"bytes", k.time.bytes}, {"waves", k.time.waves},
                    {"tail_efficiency", k.time.tail_efficiency}, {"limit", gpu::name_of(k.time.limit)}});
  return rows;
}

Json ranks_of(Grid& grid, std::uint64_t kv_tokens, std::uint64_t pass_tokens, std::uint64_t logit_rows) {
  Json stages = Json::array();
  for (std::uint32_t p = 0; p < grid.pp(); ++p) {
    const workload::RankMemory memory = workload::rank_memory(grid.model(), grid.stage(p), grid.tp(), {kv_tokens, pass_tokens, logit_rows});
    stages.push_back({{"stage", p},
                      {"layers", grid.stage(p).layers},
                      {"parameters_per_rank", workload::rank_parameters(grid.model(), grid.stage(p), grid.tp())},
                      {"kv_bytes_per_token_per_rank", grid.kv_bytes_per_token(p)},
                      {"weight_bytes", memory.weights},
                      {"kv_bytes", memory.kv},
                      {"activation_bytes", memory.activations},
                      {"total_bytes", memory.total()}});
  }
  return stages;
}

/// Ideal: the bytes each rank must send at the rate of its path, no latency, no contention.
double ideal_all_reduce_s(transport::Fabric& fabric, const std::vector<GpuId>& gpus, std::uint32_t tp, Bytes bytes) {
  if (tp == 1) return 0;
  const transport::Path path = fabric.path(gpus[0].value(), gpus[1].value(), number(TrafficClass::tp));
  const double rate = static_cast<double>(transport::payload_rate(path, fabric.transaction_bytes(path)).bytes_per_second());
  return 2.0 * (tp - 1) / tp * static_cast<double>(bytes) / rate;
}

}  // namespace

Json DisaggregatedPrefill::pass_numbers(Grid& grid, const std::vector<GpuId>& gpus, const workload::Segment& attention, const workload::Segment& mlp,
                                       std::uint64_t tokens) {
  Json pass;
  const Bytes hidden = workload::hidden_bytes(grid.model(), tokens);
  const double all_reduce = ideal_all_reduce_s(fabric_, gpus, grid.tp(), hidden);
  const double stage_layers = grid.stage(0).layers;
  pass["tokens"] = tokens;
  pass["all_reduce_bytes"] = hidden;
  pass["all_reduce_ideal_s"] = all_reduce;
  pass["attention_s"] = attention.seconds;
  pass["mlp_s"] = mlp.seconds;
  pass["stage0_ideal_s"] = stage_layers * (attention.seconds + mlp.seconds + 2 * all_reduce);
  pass["attention_kernels"] = kernels_of(attention);
  pass["mlp_kernels"] = kernels_of(mlp);
  return pass;
}

Json DisaggregatedPrefill::explain() {
  const Scenario& scenario = scenario_;
  const workload::prefill::PrefillSpec& w = spec();
  const workload::prefill::Request& request = w.requests.front();
  Grid& prefill = system_->prefill_grid();
  Grid& decode = system_->decode_grid();
  const std::uint32_t chunk = std::min(w.chunk_tokens, request.prompt_tokens);
  const std::uint64_t chunks = ceil_div(request.prompt_tokens, w.chunk_tokens);

  Json e;
  e["model"] = {{"name", scenario.model.name},
                {"total_parameters", workload::total_parameters(scenario.model)},
                {"decoder_parameters", workload::decoder_parameters(scenario.model)},
                {"kv_bytes_per_token", stored_bytes(Bytes(scenario.model.layers) * 2 * scenario.model.kv_heads * scenario.model.head_dim, scenario.model.kv_dtype)}};
  e["first_request"] = {{"prompt_tokens", request.prompt_tokens}, {"output_tokens", request.output_tokens}, {"chunks", chunks},
                        {"prefill_flops", workload::prefill_flops(scenario.model, scenario.model.layers, request.prompt_tokens, 0) + workload::head_flops(scenario.model, 1)}};
  e["prefill"]["stages"] = ranks_of(prefill, request.prompt_tokens, chunk, 1);
  e["prefill"]["first_chunk"] = pass_numbers(prefill, prefill_gpus_, prefill.timer().prefill_attention(chunk, 0), prefill.timer().mlp(chunk), chunk);
  const double stage = e["prefill"]["first_chunk"]["stage0_ideal_s"].get<double>();
  e["prefill"]["ideal_ttft_s"] = stage * static_cast<double>(chunks + prefill.pp() - 1);
  e["prefill"]["ideal_bubble_fraction"] = static_cast<double>(prefill.pp() - 1) / static_cast<double>(chunks + prefill.pp() - 1);
  e["decode"]["stages"] = ranks_of(decode, request.prompt_tokens + request.output_tokens, w.max_batch, w.max_batch);
  const std::vector<std::uint64_t> context{request.prompt_tokens + 1ull};
  e["decode"]["first_step"] = pass_numbers(decode, decode_gpus_, decode.timer().decode_attention(context), decode.timer().mlp(1), 1);

  const workload::prefill::HandoffPlan plan(prefill, decode);
  Json handoffs = Json::array();
  for (std::uint32_t r = 0; r < prefill.ranks(); ++r) {
    for (const workload::prefill::HandoffPlan::Share& share : plan.shares(r)) {
      const Bytes bytes = plan.bytes(share, {0, chunk, request.prompt_tokens});
      const Time alone = fabric_.uncontended(prefill_gpus_[r].value(), decode_gpus_[share.decode_rank].value(), number(TrafficClass::kv), bytes);
      handoffs.push_back({{"prefill_rank", r}, {"decode_rank", share.decode_rank}, {"bytes_per_chunk", bytes}, {"uncontended_s", alone.seconds()}});
    }
  }
  e["handoffs"] = handoffs;
  return e;
}

std::string DisaggregatedPrefill::explain_text(const Json& e) const {
  const auto seconds = [](const Json& j) {
    const double s = j.get<double>();
    return s >= 1e-3 ? fmt::format("{:.3f} ms", s * 1e3) : fmt::format("{:.3f} us", s * 1e6);
  };
  std::string text = fmt::format("{}: {} parameters, {} in decoder layers, {} bytes of KV per token\n", e["model"]["name"].get<std::string>(),
                                 e["model"]["total_parameters"].get<std::uint64_t>(), e["model"]["decoder_parameters"].get<std::uint64_t>(),
                                 e["model"]["kv_bytes_per_token"].get<std::uint64_t>());
  text += fmt::format("first request: {} prompt tokens in {} chunks, {} output tokens, {:.3e} FLOP of prefill\n", e["first_request"]["prompt_tokens"].get<int>(),
                      e["first_request"]["chunks"].get<int>(), e["first_request"]["output_tokens"].get<int>(), e["first_request"]["prefill_flops"].get<double>());
  for (const char* side : {"prefill", "decode"}) {
    text += fmt::format("\n{}\n  {:<6} {:>7} {:>16} {:>14} {:>12} {:>12} {:>14} {:>12}\n", side, "stage", "layers", "parameters/rank", "KV B/token/rank", "weights", "KV",
                        "activations", "total");
    for (const Json& s : e[side]["stages"])
      text += fmt::format("  {:<6} {:>7} {:>16} {:>14} {:>9.3f} GB {:>9.3f} GB {:>11.3f} GB {:>9.3f} GB\n", s["stage"].get<int>(), s["layers"].get<int>(),
                          s["parameters_per_rank"].get<std::uint64_t>(), s["kv_bytes_per_token_per_rank"].get<std::uint64_t>(), s["weight_bytes"].get<double>() * 1e-9,
                          s["kv_bytes"].get<double>() * 1e-9, s["activation_bytes"].get<double>() * 1e-9, s["total_bytes"].get<double>() * 1e-9);
    const Json& pass = e[side][side[0] == 'p' ? "first_chunk" : "first_step"];
    text += fmt::format("  pass of {} tokens: attention {}, MLP {}, all-reduce of {} bytes ideally {}; stage 0 ideally {}\n", pass["tokens"].get<int>(), seconds(pass["attention_s"]),
                        seconds(pass["mlp_s"]), pass["all_reduce_bytes"].get<std::uint64_t>(), seconds(pass["all_reduce_ideal_s"]), seconds(pass["stage0_ideal_s"]));
    for (const char* segment : {"attention_kernels", "mlp_kernels"})
      for (const Json& k : pass[segment])
        text += fmt::format("    {:<20} {:>12}  {:>10.3f} GFLOP {:>10.3f} MB  {:>4} waves  {}\n", k["name"].get<std::string>(), seconds(k["time_s"]), k["flops"].get<double>() * 1e-9,
                            k["bytes"].get<double>() * 1e-6, k["waves"].get<int>(), k["limit"].get<std::string>());
  }
  text += fmt::format("\nideal TTFT of the first request {} (no latency, no contention), ideal bubble {:.1f} %\n", seconds(e["prefill"]["ideal_ttft_s"]),
                      100 * e["prefill"]["ideal_bubble_fraction"].get<double>());
  text += "\nKV handoff of the first chunk\n";
  for (const Json& h : e["handoffs"])
    text += fmt::format("  prefill rank {:>3} > decode rank {:>3}: {:>12} bytes, alone {}\n", h["prefill_rank"].get<int>(), h["decode_rank"].get<int>(),
                        h["bytes_per_chunk"].get<std::uint64_t>(), seconds(h["uncontended_s"]));
  return text;
}

}  // namespace railyard
