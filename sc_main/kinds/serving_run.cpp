#include "sc_main/kinds/serving_run.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/input_error.h"
#include "sc_main/kinds/model_arithmetic.h"
#include "transformer/memory.h"
#include "transformer/parameters.h"

namespace railyard {

using workload::inference::StageMemory;

namespace {

Value scheduler_value(const workload::inference::SchedulerSpec& s) {
  static constexpr const char* kPolicies[] = {"fcfs", "priority"};
  static constexpr const char* kMixes[] = {"mixed", "prefill_first"};
  static constexpr const char* kReserves[] = {"chunk", "sequence", "expected_output", "full_output"};
  static constexpr const char* kPreemptions[] = {"recompute", "never"};
  return {{"policy", kPolicies[static_cast<std::size_t>(s.policy)]},
          {"max_batched_tokens", s.max_batched_tokens},
          {"max_seqs", s.max_seqs},
          {"max_model_len", s.max_model_len},
          {"long_prefill_threshold_tokens", s.long_prefill_threshold_tokens},
          {"chunked_prefill", s.chunked_prefill},
          {"mix", kMixes[static_cast<std::size_t>(s.mix)]},
          {"reserve", kReserves[static_cast<std::size_t>(s.reserve)]},
          {"preemption", kPreemptions[static_cast<std::size_t>(s.preemption)]},
          {"watermark_ratio", s.watermark_ratio},
          {"prefix_caching", s.prefix_caching},
          {"block_tokens", s.block_tokens},
          {"max_in_flight", s.max_in_flight}};
}

/// A word without quotes, or a number.
std::string setting_text(const Value& value) {
  std::string text = json_text(value);
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == '"' || c == '\n'; }), text.end());
  return text;
}

}  // namespace

ServingRun::ServingRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  std::vector<workload::inference::Service::Placed> placed;
  for (const InstanceSpec& instance : spec().instances) {
    if (gpu(instance).sm.flop_per_clock[static_cast<std::size_t>(scenario.model.dtype)] == 0)
      throw InputError(scenario.model_origin, "model: " + no_tensor_rate_text(gpu(instance), scenario.model.dtype));
    std::vector<GpuId>& gpus = gpus_.emplace_back();
    for (const std::uint32_t index : instance.mapping.placement)
      gpus.push_back(machine_.gpu_in_group(instance.group, index));
    blocks_.push_back(kv_blocks(instance));
    check_longest(instance, blocks_.back());
    placed.push_back({machine_.gpus(gpus), blocks_.back()});
  }
  service_ = std::make_unique<workload::inference::Service>(scenario_.model, spec(), placed, executor_);
  figures_ = std::make_unique<ServingFigures>(spec(), blocks_);
  service_->add_sink(*figures_);
}

std::vector<StageMemory> ServingRun::stage_memory(const InstanceSpec& instance) const {
  return workload::inference::stage_memory(scenario_.model, instance, spec().memory, gpu(instance).hbm.visible_bytes());
}

std::uint32_t ServingRun::kv_blocks(const InstanceSpec& instance) const {
  const std::vector<StageMemory> stages = stage_memory(instance);
  const auto least = std::min_element(
      stages.begin(), stages.end(), [](const StageMemory& a, const StageMemory& b) { return a.blocks() < b.blocks(); });
  if (least->blocks() < 2)
    throw InputError(
        scenario_.workload_origin,
        fmt::format("workload: a rank of stage {} on {} has no memory for KV cache: {:.2f} GB are missing for two "
                    "blocks, with {:.2f} GB of weights, {:.2f} GB of activations and {:.2f} GB reserved in {:.2f} GB; "
                    "set a larger tp or pp, or a smaller max_batched_tokens",
                    least - stages.begin(), gpu(instance).name,
                    (2 * static_cast<double>(least->block) - least->left) * 1e-9,
                    static_cast<double>(least->weights) * 1e-9, static_cast<double>(least->activations) * 1e-9,
                    static_cast<double>(spec().memory.engine_reserved_bytes) * 1e-9,
                    gpu(instance).hbm.visible_bytes() * spec().memory.memory_limit_ratio * 1e-9));
  if (!instance.kv_blocks) return least->blocks();
  const auto& [written, key, where] = *instance.kv_blocks;
  if (written > least->blocks())
    throw InputError(
        where, fmt::format("{}: {} is more than memory holds; accepted: up to {}", key, written, least->blocks()));
  return written;
}

void ServingRun::check_longest(const InstanceSpec& instance, std::uint32_t blocks) const {
  if (!spec().longest) return;
  const auto& [tokens, where] = *spec().longest;
  const std::uint64_t needed = ceil_div(tokens, instance.scheduler.block_tokens);
  if (needed < blocks) return;
  throw InputError(where,
                   fmt::format("workload.requests: a request of {} tokens, prompt and answer, needs {} KV blocks; "
                               "accepted: up to {}, all that a request can have",
                               tokens, needed, blocks - 1));
}

std::string ServingRun::progress() const {
  const workload::inference::ApiServer& api_server = service_->api_server();
  return fmt::format("{} of {} requests done", api_server.served() + api_server.refused(), api_server.count());
}

double ServingRun::done_ratio() const {
  const workload::inference::ApiServer& api_server = service_->api_server();
  return (api_server.work_done() + api_server.refused()) / api_server.count();
}

std::uint64_t ServingRun::expected_jobs() const {
  constexpr std::uint64_t kTokensOfAnAnswer = 250;
  return service_->api_server().count() * kTokensOfAnAnswer;
}

void ServingRun::prepare_log() {
  log_ = std::make_unique<ServingLog>();
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const InstanceSpec& instance = spec().instances[i];
    const std::vector<StageMemory> stages = stage_memory(instance);
    const auto fixed = [](const StageMemory& s) { return static_cast<double>(s.weights + s.activations); };
    const auto full = [&](const StageMemory& s) { return fixed(s) + static_cast<double>(blocks_[i] * s.block); };
    const auto most = std::max_element(stages.begin(), stages.end(),
                                       [&](const StageMemory& a, const StageMemory& b) { return full(a) < full(b); });
    log_->add({static_cast<std::uint32_t>(gpus_[i].size()), fixed(*most), static_cast<double>(most->block),
               gpu(instance).hbm.visible_bytes()});
  }
  service_->add_sink(*log_);
}

std::vector<std::string> ServingRun::blocked() {
  std::vector<std::string> lines = WorkloadRun::blocked();
  for (const std::string& line : service_->blocked()) lines.push_back(line);
  return lines;
}

std::vector<RouteOfInterest> ServingRun::routes() {
  std::vector<RouteOfInterest> routes;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const InstanceSpec& instance = spec().instances[i];
    const std::uint32_t tp = instance.mapping.tp;
    const auto add = [&](const std::string& what, TrafficClass traffic_class, std::uint32_t from, std::uint32_t to) {
      routes.push_back({fmt::format("{} {}", instance.name, what), traffic_class, gpus_[i][from].value(),
                        gpus_[i][to].value(), transport::Engine::sm});
    };
    if (tp > 1) add("all-reduce, t=0 to t=1", TrafficClass::tp, 0, 1);
    if (tp > 2) add(fmt::format("all-reduce, t={} to t=0", tp - 1), TrafficClass::tp, tp - 1, 0);
    if (instance.mapping.pp > 1) add("activations, p=0 to p=1", TrafficClass::pp, 0, tp);
  }
  using workload::inference::RequestPart;
  const std::vector<InstanceSpec>& all = spec().instances;
  for (std::size_t from = 0; from < all.size(); ++from) {
    for (std::size_t to = 0; to < all.size(); ++to) {
      if (all[from].part != RequestPart::prompt || all[to].part != RequestPart::answer) continue;
      const std::string pair = all.size() > 2 ? fmt::format("{} to {}, ", all[from].name, all[to].name) : "";
      routes.push_back({"KV handoff, " + pair + "first rank to first rank", TrafficClass::kv, gpus_[from][0].value(),
                        gpus_[to][0].value()});
    }
  }
  return routes;
}

std::vector<std::string> ServingRun::engines() const {
  std::vector<std::string> names;
  for (const InstanceSpec& instance : spec().instances) names.push_back(instance.name);
  return names;
}

Value ServingRun::compute() {
  std::vector<const transformer::LayerTimer*> timers;
  for (std::size_t i = 0; i < service_->instances(); ++i) timers.push_back(&service_->instance(i).grid().timer());
  return profile_use(timers);
}

Value ServingRun::explain() {
  Value numbers{{"model", scenario_.model.name},
                {"memory_limit_ratio", spec().memory.memory_limit_ratio},
                {"engine_reserved_bytes", spec().memory.engine_reserved_bytes}};
  std::vector<const gpu::GpuDatasheet*> gpus;
  for (const InstanceSpec& instance : spec().instances) gpus.push_back(&gpu(instance));
  const transformer::ModelShape& model = scenario_.model;
  const transformer::Stage whole{model.layers, true, true};
  numbers["parameters"] = {{"total", transformer::total_parameters(model)},
                           {"decoder", transformer::decoder_parameters(model)},
                           {"weight_bytes", transformer::rank_weight_bytes(model, whole, 1)},
                           {"kv_dtype", name_of(model.kv_dtype)},
                           {"kv_bytes_per_token", transformer::kv_bytes_per_token(model, whole, 1)},
                           {"layers", layer_arithmetic(model, gpus, std::nullopt)}};
  Value instances = Value::empty_list();
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const InstanceSpec& instance = spec().instances[i];
    workload::inference::Grid& grid = service_->instance(i).grid();
    Value stages = Value::empty_list();
    const std::vector<StageMemory> memories = stage_memory(instance);
    for (std::size_t p = 0; p < memories.size(); ++p)
      stages.push_back({{"layers", instance.mapping.stage_layers[p]},
                        {"parameters_per_rank", transformer::rank_parameters(model, grid.stage(p), grid.tp())},
                        {"weight_bytes", memories[p].weights},
                        {"activation_bytes", memories[p].activations},
                        {"block_bytes", memories[p].block},
                        {"blocks", memories[p].blocks()}});
    Value numbers_of = instance_value(instance);
    numbers_of["visible_bytes"] = static_cast<std::uint64_t>(gpu(instance).hbm.visible_bytes());
    numbers_of["stages"] = stages;
    numbers_of["kv_blocks"] = blocks_[i];
    numbers_of["kv_tokens"] = (blocks_[i] - 1ull) * instance.scheduler.block_tokens;
    const std::uint64_t tokens = instance.scheduler.max_batched_tokens;
    if (instance.part != workload::inference::RequestPart::answer) {
      numbers_of["full_prompt"] = pass_arithmetic(fabric_, grid, gpus_[i], {{{tokens, 0}}, {}});
      numbers_of["full_prompt_flops"] =
          transformer::prefill_flops(model, model.layers, tokens, 0) + transformer::head_flops(model, 1);
    }
    if (instance.part != workload::inference::RequestPart::prompt)
      numbers_of["lone_decode"] = pass_arithmetic(fabric_, grid, gpus_[i], {{}, {{1, tokens}}});
    instances.push_back(std::move(numbers_of));
  }
  numbers["instances"] = instances;
  return numbers;
}

std::string ServingRun::explain_text(const Value& n) const {
  const auto gb = [](const Value& bytes) { return static_cast<double>(bytes.integer()) * 1e-9; };
  std::string text = fmt::format("{} on {}\n", n["model"].text(), machine_text(scenario_));
  const Value& parameters = n["parameters"];
  text += fmt::format("{} parameters, {} in decoder layers, {:.2f} GB of weights; {} bytes of {} KV per token\n",
                      parameters["total"].integer(), parameters["decoder"].integer(), gb(parameters["weight_bytes"]),
                      parameters["kv_bytes_per_token"].integer(), parameters["kv_dtype"].text());
  for (const Value& row : parameters["layers"].items()) text += layer_arithmetic_text(row);
  for (const Value& i : n["instances"].items()) {
    text += fmt::format("\n{}: tp {}, pp {}\n  memory of a rank: {:.2f} GB x {:g} = {:.2f} GB\n", i["name"].text(),
                        i["tp"].integer(), i["pp"].integer(), gb(i["visible_bytes"]), n["memory_limit_ratio"].real(),
                        gb(i["visible_bytes"]) * n["memory_limit_ratio"].real());
    std::size_t p = 0;
    for (const Value& stage : i["stages"].items())
      text += fmt::format(
          "  stage {}, {} layers: - {:.2f} GB weights - {:.2f} GB activations of {} tokens - {:.2f} GB reserved = {} "
          "blocks of {:.3f} MB\n",
          p++, stage["layers"].integer(), gb(stage["weight_bytes"]), gb(stage["activation_bytes"]),
          i["scheduler"]["max_batched_tokens"].integer(), gb(n["engine_reserved_bytes"]), stage["blocks"].integer(),
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
  }
  return text;
}

Value ServingRun::instance_value(const InstanceSpec& instance) const {
  static constexpr const char* kRoles[] = {"colocated", "prefill", "decode"};
  return {{"name", instance.name},          {"role", kRoles[static_cast<std::size_t>(instance.part)]},
          {"tp", instance.mapping.tp},      {"pp", instance.mapping.pp},
          {"engine", instance.engine.name}, {"scheduler", scheduler_value(instance.scheduler)}};
}

void ServingRun::add_setup(Value& setup) const {
  setup["instances"] = Value::empty_list();
  for (const InstanceSpec& instance : spec().instances) setup["instances"].push_back(instance_value(instance));
  setup["host"] = spec().host.name;
  setup["requests"] = service_->api_server().count();
}

const ServingFigures& ServingRun::figures() const {
  figures_->refused = service_->api_server().refused();
  figures_->close(*service_, fabric_.now());
  return *figures_;
}

RunKind serving_run() { return run_kind<ServingRun>(); }

}  // namespace railyard
