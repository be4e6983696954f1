#include "sc_main/kinds/serving_run.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/input_error.h"

namespace railyard {

using workload::inference::InstanceSpec;
using workload::inference::StageMemory;

namespace {

std::string value_text(const Value& value) {
  std::string text = json_text(value);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

ServingRun::ServingRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  if (gpu().sm.flop_per_clock[static_cast<std::size_t>(scenario.model.dtype)] == 0)
    throw InputError(scenario.model_origin, "model: " + no_tensor_rate_text(gpu(), scenario.model.dtype));
  for (const std::uint32_t index : instance_spec().mapping.placement)
    gpus_.push_back(machine_.gpu_in_group(instance_spec().group, index));
  blocks_ = kv_blocks();
  check_longest(blocks_);
  serving_ =
      std::make_unique<workload::inference::Serving>(scenario_.model, spec(), machine_.gpus(gpus_), blocks_, executor_);
  figures_ = std::make_unique<ServingFigures>(spec().slo, blocks_);
  serving_->add_sink(*figures_);
}

std::vector<StageMemory> ServingRun::stage_memory() const {
  return workload::inference::stage_memory(scenario_.model, instance_spec(), spec().memory, gpu().hbm.visible_bytes());
}

std::uint32_t ServingRun::kv_blocks() const {
  const std::vector<StageMemory> stages = stage_memory();
  const auto least = std::min_element(
      stages.begin(), stages.end(), [](const StageMemory& a, const StageMemory& b) { return a.blocks() < b.blocks(); });
  if (least->blocks() < 2)
    throw InputError(
        scenario_.workload_origin,
        fmt::format("workload: a rank of stage {} on {} has no memory for KV cache: {:.2f} GB are missing for two "
                    "blocks, with {:.2f} GB of weights, {:.2f} GB of activations and {:.2f} GB reserved in {:.2f} GB; "
                    "set a larger tp or pp, or a smaller max_batched_tokens",
                    least - stages.begin(), gpu().name, (2 * static_cast<double>(least->block) - least->left) * 1e-9,
                    static_cast<double>(least->weights) * 1e-9, static_cast<double>(least->activations) * 1e-9,
                    static_cast<double>(spec().memory.engine_reserved_bytes) * 1e-9,
                    gpu().hbm.visible_bytes() * spec().memory.memory_limit_ratio * 1e-9));
  const std::uint32_t written = spec().memory.kv_blocks.value_or(least->blocks());
  if (written > least->blocks())
    throw InputError(
        spec().memory.kv_blocks_origin,
        fmt::format("workload.kv_blocks: {} is more than memory holds; accepted: up to {}", written, least->blocks()));
  return written;
}

void ServingRun::check_longest(std::uint32_t blocks) const {
  if (!spec().longest) return;
  const auto& [tokens, where] = *spec().longest;
  const std::uint64_t needed = ceil_div(tokens, instance_spec().scheduler.block_tokens);
  if (needed < blocks) return;
  throw InputError(where,
                   fmt::format("workload.requests: a request of {} tokens, prompt and answer, needs {} KV blocks; "
                               "accepted: up to {}, all that a request can have",
                               tokens, needed, blocks - 1));
}

std::string ServingRun::progress() const {
  return fmt::format("{} of {} requests done", serving_->served(), serving_->count());
}

double ServingRun::done_ratio() const { return done_of(serving_->served(), serving_->count()); }

std::uint64_t ServingRun::expected_jobs() const {
  constexpr std::uint64_t kTokensOfAnAnswer = 250;
  return serving_->count() * kTokensOfAnAnswer;
}

std::vector<std::string> ServingRun::blocked() {
  std::vector<std::string> lines = WorkloadRun::blocked();
  for (const std::string& line : serving_->blocked()) lines.push_back(line);
  return lines;
}

std::vector<RouteOfInterest> ServingRun::routes() {
  std::vector<RouteOfInterest> routes;
  const std::uint32_t tp = instance_spec().mapping.tp;
  const auto add = [&](const std::string& what, TrafficClass traffic_class, std::uint32_t from, std::uint32_t to) {
    routes.push_back(
        {fmt::format("{} {}", instance_spec().name, what), traffic_class, gpus_[from].value(), gpus_[to].value()});
  };
  if (tp > 1) add("all-reduce, t=0 to t=1", TrafficClass::tp, 0, 1);
  if (tp > 2) add(fmt::format("all-reduce, t={} to t=0", tp - 1), TrafficClass::tp, tp - 1, 0);
  if (instance_spec().mapping.pp > 1) add("activations, p=0 to p=1", TrafficClass::pp, 0, tp);
  return routes;
}

Value ServingRun::explain() {
  Value stages = Value::empty_list();
  for (const StageMemory& memory : stage_memory())
    stages.push_back({{"weight_bytes", memory.weights},
                      {"activation_bytes", memory.activations},
                      {"block_bytes", memory.block},
                      {"blocks", memory.blocks()}});
  Value numbers{{"model", scenario_.model.name},
                {"visible_bytes", static_cast<std::uint64_t>(gpu().hbm.visible_bytes())},
                {"memory_limit_ratio", spec().memory.memory_limit_ratio},
                {"engine_reserved_bytes", spec().memory.engine_reserved_bytes},
                {"stages", stages},
                {"kv_blocks", blocks_},
                {"kv_tokens", (blocks_ - 1ull) * instance_spec().scheduler.block_tokens}};
  add_setup(numbers);
  return numbers;
}

std::string ServingRun::explain_text(const Value& n) const {
  const auto gb = [](const Value& bytes) { return static_cast<double>(bytes.integer()) * 1e-9; };
  const InstanceSpec& instance = instance_spec();
  std::string text =
      fmt::format("{} on {}: tp {}, pp {}\n\nmemory of a rank: {:.2f} GB x {:g} = {:.2f} GB\n", n["model"].text(),
                  machine_text(scenario_), instance.mapping.tp, instance.mapping.pp, gb(n["visible_bytes"]),
                  n["memory_limit_ratio"].real(), gb(n["visible_bytes"]) * n["memory_limit_ratio"].real());
  std::size_t p = 0;
  for (const Value& stage : n["stages"].items())
    text += fmt::format(
        "  stage {}: - {:.2f} GB weights - {:.2f} GB activations of {} tokens - {:.2f} GB reserved = {} blocks of "
        "{:.3f} MB\n",
        p++, gb(stage["weight_bytes"]), gb(stage["activation_bytes"]), instance.scheduler.max_batched_tokens,
        gb(n["engine_reserved_bytes"]), stage["blocks"].integer(),
        static_cast<double>(stage["block_bytes"].integer()) * 1e-6);
  text += fmt::format("KV cache: {} blocks, one of them reserved: {} tokens\n\nscheduler, preset {}:\n",
                      n["kv_blocks"].integer(), n["kv_tokens"].integer(), instance.scheduler_preset);
  for (const Value::Member& setting : n["scheduler"].members())
    text += fmt::format("  {:<30} {}\n", setting.name, value_text(setting.value));
  return text;
}

const ServingFigures& ServingRun::figures() const {
  figures_->close(serving_->engine(), fabric_.now());
  return *figures_;
}

}  // namespace railyard
