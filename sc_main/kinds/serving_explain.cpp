#include <fmt/format.h>
#include <algorithm>

#include "sc_main/kinds/model_arithmetic.h"
#include "sc_main/kinds/serving_memory.h"
#include "sc_main/kinds/serving_run.h"
#include "transformer/parameters.h"

namespace railyard {

using workload::inference::Grid;
using workload::inference::InstanceRole;
using workload::inference::Request;
using workload::inference::StageMemory;

namespace {

/// A word without quotes, or a number.
std::string setting_text(const Value& value) {
  std::string text = json_text(value);
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == '"' || c == '\n'; }), text.end());
  return text;
}

std::string seconds_text(const Value& value) {
  const double s = value.real();
  return s >= 1e-3 ? fmt::format("{:.3f} ms", s * 1e3) : fmt::format("{:.3f} us", s * 1e6);
}

double gb(const Value& bytes) { return bytes.real() * 1e-9; }

/// Tokens of a chunk of the prompt of the first request, and the number of its chunks.
std::uint32_t chunk_of(const Request& request, const workload::inference::InstanceSpec& prefill) {
  return std::min(prefill.whole->max_batched_tokens, request.prompt_tokens);
}
std::uint64_t chunks_of(const Request& request, const workload::inference::InstanceSpec& prefill) {
  return ceil_div(request.prompt_tokens, prefill.whole->max_batched_tokens);
}

void add_memory(Value& numbers, const workload::inference::KvMemory& memory) {
  numbers["memory_limit_ratio"] = memory.memory_limit_ratio;
  numbers["engine_reserved_bytes"] = memory.engine_reserved_bytes;
}

std::string paged_text(const Value& i) {
  std::string text = fmt::format(
      "\n{}: tp {}, {}pp {}{}\n  memory of a rank: {:.2f} GB x {:g} = {:.2f} GB\n", i["name"].text(), i["tp"].integer(),
      i.contains("dp") ? fmt::format("dp {}, ", i["dp"].integer()) : "", i["pp"].integer(),
      i.contains("kv_dtype") ? fmt::format(", {} KV", i["kv_dtype"].text()) : "", gb(i["visible_bytes"]),
      i["memory_limit_ratio"].real(), gb(i["visible_bytes"]) * i["memory_limit_ratio"].real());
  std::size_t p = 0;
  for (const Value& stage : i["stages"].items())
    text += fmt::format(
        "  stage {}, {} layers: - {:.2f} GB weights - {:.2f} GB activations of {} tokens - {:.2f} GB reserved = {} "
        "blocks of {:.3f} MB\n",
        p++, stage["layers"].integer(), gb(stage["weight_bytes"]), gb(stage["activation_bytes"]),
        i["scheduler"]["max_batched_tokens"].integer(), gb(i["engine_reserved_bytes"]), stage["blocks"].integer(),
        static_cast<double>(stage["block_bytes"].integer()) * 1e-6);
  text += fmt::format("  KV cache: {} blocks, one of them reserved: {} tokens\n", i["kv_blocks"].integer(),
                      i["kv_tokens"].integer());
  if (i.contains("full_prompt"))
    text += fmt::format("  prompts that fill a batch, {:.3e} FLOP:\n", i["full_prompt_flops"].real()) +
            pass_arithmetic_text(i["full_prompt"]);
  if (i.contains("lone_decode"))
    text += fmt::format("  a decode after {} tokens:\n", i["scheduler"]["max_batched_tokens"].integer()) +
            pass_arithmetic_text(i["lone_decode"]);
  text += fmt::format("  scheduler of {}:\n", i["engine"].text());
  for (const Value::Member& setting : i["scheduler"].members())
    text += fmt::format("    {:<30} {}\n", setting.name, setting_text(setting.value));
  if (!i.contains("speculation")) return text;
  text += "  speculation:\n";
  for (const Value::Member& setting : i["speculation"].members())
    text += fmt::format("    {:<30} {}\n", setting.name, setting_text(setting.value));
  return text;
}

std::string whole_text(const Value& i) {
  std::string text =
      fmt::format("\n{}\n  {:<6} {:>7} {:>16} {:>14} {:>12} {:>12} {:>14} {:>12}\n", i["name"].text(), "stage",
                  "layers", "parameters/rank", "KV B/token/rank", "weights", "KV", "activations", "total");
  std::size_t p = 0;
  for (const Value& s : i["stages"].items())
    text += fmt::format("  {:<6} {:>7} {:>16} {:>14} {:>9.3f} GB {:>9.3f} GB {:>11.3f} GB {:>9.3f} GB\n", p++,
                        s["layers"].integer(), s["parameters_per_rank"].integer(),
                        s["kv_bytes_per_token_per_rank"].integer(), gb(s["weight_bytes"]), gb(s["kv_bytes"]),
                        gb(s["activation_bytes"]), gb(s["total_bytes"]));
  return text + pass_arithmetic_text(i[i.contains("first_chunk") ? "first_chunk" : "first_step"]);
}

/// Shared experts are whole where replicas share the others.
std::uint64_t parameters_per_rank(const transformer::ModelShape& model, const Grid& grid, std::uint32_t p) {
  const std::uint64_t shared = grid.replicas() > 1 ? transformer::shared_expert_parameters(model, grid.stage(p)) : 0;
  return transformer::rank_parameters(model, grid.stage(p), grid.tp(), grid.replicas()).total() + shared -
         shared / grid.tp();
}

}  // namespace

Value ServingRun::paged_arithmetic(std::size_t id) {
  const InstanceSpec& instance = spec().instances[id];
  const transformer::ModelShape& model = scenario_.model;
  Grid& grid = service_->instance(id).grid();
  const std::vector<StageMemory> memories = stage_memory(scenario_, instance);
  Value stages = Value::empty_list();
  for (std::uint32_t p = 0; p < memories.size(); ++p)
    stages.push_back({{"layers", instance.mapping.stage_layers[p]},
                      {"parameters_per_rank", parameters_per_rank(model, grid, p)},
                      {"weight_bytes", memories[p].weights},
                      {"activation_bytes", memories[p].activations},
                      {"block_bytes", memories[p].block},
                      {"blocks", memories[p].blocks()}});
  Value numbers = instance_value(instance);
  add_memory(numbers, instance.memory);
  numbers["visible_bytes"] = static_cast<std::uint64_t>(gpu(instance).hbm.visible_bytes());
  numbers["stages"] = stages;
  numbers["kv_blocks"] = blocks_[id];
  numbers["kv_tokens"] = (blocks_[id] - 1ull) * instance.scheduler.block_tokens;
  const std::uint64_t tokens = instance.scheduler.max_batched_tokens;
  if (takes_prompts(instance.role)) {
    numbers["full_prompt"] = pass_arithmetic(fabric_, grid, gpus_[id], {{{tokens, 0}}, {}});
    numbers["full_prompt_flops"] =
        transformer::prefill_flops(model, model.layers, tokens, 0) + transformer::head_flops(model, 1);
  }
  if (takes_answers(instance.role))
    numbers["lone_decode"] = pass_arithmetic(fabric_, grid, gpus_[id], {{}, {{1, tokens}}});
  return numbers;
}

Value ServingRun::whole_arithmetic(std::size_t id) {
  const InstanceSpec& instance = spec().instances[id];
  const Request& first = spec().listed->front();
  Grid& grid = service_->instance(id).grid();
  const bool is_answer = instance.role == InstanceRole::decode;
  transformer::MemoryLoad load = whole_sequence_load(spec(), instance);
  load.kv_tokens = first.prompt_tokens + (is_answer ? first.output_tokens : 0);
  if (!is_answer) load.pass_tokens = chunk_of(first, instance);
  load.new_tokens = 1;
  Value numbers{{"name", instance.name}, {"tp", grid.tp()}, {"pp", grid.pp()}, {"engine", instance.engine.name}};
  add_memory(numbers, instance.memory);
  numbers["stages"] = Value::empty_list();
  for (std::uint32_t p = 0; p < grid.pp(); ++p) {
    const transformer::RankMemory memory = transformer::rank_memory(grid.model(), grid.stage(p), grid.tp(), load);
    numbers["stages"].push_back(
        {{"layers", grid.stage(p).layers},
         {"parameters_per_rank", transformer::rank_parameters(grid.model(), grid.stage(p), grid.tp())},
         {"kv_bytes_per_token_per_rank", grid.kv().bytes_per_token(p)},
         {"weight_bytes", memory.weights},
         {"kv_bytes", memory.kv},
         {"activation_bytes", memory.activations},
         {"total_bytes", memory.total()}});
  }
  if (is_answer)
    numbers["first_step"] = pass_arithmetic(fabric_, grid, gpus_[id], {{}, {{1, first.prompt_tokens}}});
  else
    numbers["first_chunk"] = pass_arithmetic(fabric_, grid, gpus_[id], {{{chunk_of(first, instance), 0}}, {}});
  return numbers;
}

Value ServingRun::first_request_arithmetic(const Value& instances) const {
  const Request& request = spec().listed->front();
  const InstanceSpec& prefill = spec().instances.front();
  const transformer::ModelShape& model = scenario_.model;
  const std::uint64_t tokens = std::uint64_t{request.prompt_tokens} + request.output_tokens;
  const std::uint64_t chunks = chunks_of(request, prefill), stages = prefill.mapping.pp;
  const double stage_s = instances.items().front()["first_chunk"]["stage0_ideal_s"].real();
  return {{"prompt_tokens", request.prompt_tokens},
          {"output_tokens", request.output_tokens},
          {"chunks", chunks},
          {"kv_bytes", transformer::kv_bytes(model, {model.layers, true, true}, 1, tokens, 1)},
          {"prefill_flops", transformer::prefill_flops(model, model.layers, request.prompt_tokens, 0) +
                                transformer::head_flops(model, 1)},
          {"ideal_ttft_s", stage_s * static_cast<double>(chunks + stages - 1)},
          {"ideal_bubble_fraction", static_cast<double>(stages - 1) / static_cast<double>(chunks + stages - 1)}};
}

Value ServingRun::handoff_arithmetic() {
  const Request& request = spec().listed->front();
  const std::uint32_t chunk = chunk_of(request, spec().instances.front());
  const workload::inference::HandoffPlan& plan = service_->handoff_plan(0, 1);
  Value handoffs = Value::empty_list();
  for (std::uint32_t r = 0; r < gpus_[0].size(); ++r) {
    for (const workload::inference::HandoffPlan::Share& share : plan.shares(r)) {
      const Bytes bytes = plan.bytes(share, {0, chunk, request.prompt_tokens});
      const Time alone = fabric_.uncontended(gpus_[0][r].value(), gpus_[1][share.decode_rank].value(),
                                             number(TrafficClass::kv), bytes, transport::Engine::copy_engine);
      handoffs.push_back({{"prefill_rank", r},
                          {"decode_rank", share.decode_rank},
                          {"bytes_per_chunk", bytes},
                          {"uncontended_s", alone.seconds()}});
    }
  }
  return handoffs;
}

Value ServingRun::explain() {
  Value numbers{{"model", scenario_.model.name}};
  std::vector<const gpu::GpuDatasheet*> gpus;
  for (const InstanceSpec& instance : spec().instances) gpus.push_back(&gpu(instance));
  const transformer::ModelShape& model = scenario_.model;
  const transformer::Stage whole{model.layers, true, true};
  std::optional<std::uint64_t> kv_tokens;
  if (!is_paged()) kv_tokens = spec().listed->front().prompt_tokens + spec().listed->front().output_tokens;
  numbers["parameters"] = {{"total", transformer::total_parameters(model)},
                           {"decoder", transformer::decoder_parameters(model)},
                           {"weight_bytes", transformer::rank_weight_bytes(model, whole, 1)},
                           {"kv_dtype", name_of(model.kv_dtype)},
                           {"kv_bytes_per_token", transformer::kv_bytes_per_token(model, whole, 1)},
                           {"layers", layer_arithmetic(model, gpus, kv_tokens)}};
  Value instances = Value::empty_list();
  for (std::size_t i = 0; i < gpus_.size(); ++i)
    instances.push_back(is_paged() ? paged_arithmetic(i) : whole_arithmetic(i));
  if (!is_paged()) {
    numbers["first_request"] = first_request_arithmetic(instances);
    numbers["handoffs"] = handoff_arithmetic();
  }
  numbers["instances"] = std::move(instances);
  return numbers;
}

std::string ServingRun::explain_text(const Value& n) const {
  std::string text = fmt::format("{} on {}\n", n["model"].text(), machine_text(scenario_));
  const Value& parameters = n["parameters"];
  text += fmt::format("{} parameters, {} in decoder layers, {:.2f} GB of weights; {} bytes of {} KV per token\n",
                      parameters["total"].integer(), parameters["decoder"].integer(), gb(parameters["weight_bytes"]),
                      parameters["kv_bytes_per_token"].integer(), parameters["kv_dtype"].text());
  for (const Value& row : parameters["layers"].items()) text += layer_arithmetic_text(row);
  if (is_paged()) {
    for (const Value& instance : n["instances"].items()) text += paged_text(instance);
    return text;
  }
  const Value& first = n["first_request"];
  text += fmt::format(
      "first request: {} prompt tokens in {} chunks, {} output tokens, {} bytes of KV, {:.3e} FLOP of prefill\n",
      first["prompt_tokens"].integer(), first["chunks"].integer(), first["output_tokens"].integer(),
      first["kv_bytes"].integer(), first["prefill_flops"].real());
  for (const Value& instance : n["instances"].items()) text += whole_text(instance);
  text += fmt::format("\nideal TTFT of the first request {} (no latency, no contention), ideal bubble {:.1f} %\n",
                      seconds_text(first["ideal_ttft_s"]), 100 * first["ideal_bubble_fraction"].real());
  text += "\nKV handoff of the first chunk\n";
  for (const Value& h : n["handoffs"].items())
    text +=
        fmt::format("  prefill rank {:>3} > decode rank {:>3}: {:>12} bytes, alone {}\n", h["prefill_rank"].integer(),
                    h["decode_rank"].integer(), h["bytes_per_chunk"].integer(), seconds_text(h["uncontended_s"]));
  return text;
}

}  // namespace railyard
