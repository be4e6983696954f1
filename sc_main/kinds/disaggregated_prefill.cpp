#include "sc_main/kinds/disaggregated_prefill.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/input_error.h"
#include "transformer/memory.h"

namespace railyard {

using workload::inference::HandoffPlan;
using workload::inference::Mapping;
using workload::inference::PrefillSpec;
using workload::inference::Request;

namespace {

std::uint32_t group_named(const Scenario& scenario, const std::string& name) {
  const auto& groups = scenario.machine.groups;
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const platforms::GroupSpec& g) { return g.name == name; });
  return static_cast<std::uint32_t>(found - groups.begin());
}

void check_grid(const Scenario& scenario, const char* name, const Mapping& mapping, const Origin& origin,
                const transformer::MemoryLoad& load) {
  const gpu::GpuDatasheet& gpu = scenario.machine.groups[group_named(scenario, name)].gpu;
  if (gpu.sm.flop_per_clock[static_cast<std::size_t>(scenario.model.dtype)] == 0)
    throw InputError(scenario.model_origin,
                     fmt::format("model: in group {}, {}", name, no_tensor_rate_text(gpu, scenario.model.dtype)));
  const transformer::MemoryCheck check =
      transformer::check_memory(scenario.model, mapping.stage_layers, mapping.tp, load, gpu.hbm.capacity_gb * 1e9,
                                scenario.spec<PrefillSpec>().memory_limit_ratio);
  if (!check.fits) throw InputError(origin, fmt::format("workload.{} on {}: {}", name, gpu.name, check.sentence));
}

void check(const Scenario& scenario) {
  const PrefillSpec& w = scenario.spec<PrefillSpec>();
  transformer::MemoryLoad prefill, decode;
  for (const Request& r : w.requests) {
    prefill.kv_tokens = std::max<std::uint64_t>(prefill.kv_tokens, r.prompt_tokens);
    decode.kv_tokens = std::max<std::uint64_t>(decode.kv_tokens, r.prompt_tokens + r.output_tokens);
  }
  prefill.pass_tokens = std::min<std::uint64_t>(w.chunk_tokens, prefill.kv_tokens);
  prefill.new_tokens = prefill.pass_tokens;
  decode.pass_tokens = decode.logit_rows = w.max_batch;
  check_grid(scenario, "prefill", w.prefill, scenario.prefill_origin, prefill);
  check_grid(scenario, "decode", w.decode, scenario.decode_origin, decode);
}

/// One route for each traffic class and instance; the pattern repeats over ranks.
void add_grid_routes(std::vector<RouteOfInterest>& routes, const char* name, const Mapping& mapping,
                     const std::vector<GpuId>& gpus) {
  const auto add = [&](const std::string& what, TrafficClass traffic_class, GpuId from, GpuId to) {
    const auto engine = traffic_class == TrafficClass::tp ? transport::Engine::sm : transport::Engine::copy_engine;
    routes.push_back({fmt::format("{} {}", name, what), traffic_class, from.value(), to.value(), engine});
  };
  if (mapping.tp > 1) add("all-reduce, t=0 to t=1", TrafficClass::tp, gpus[0], gpus[1]);
  if (mapping.tp > 2)
    add(fmt::format("all-reduce, t={} to t=0", mapping.tp - 1), TrafficClass::tp, gpus[mapping.tp - 1], gpus[0]);
  if (mapping.pp > 1) add("activations, p=0 to p=1", TrafficClass::pp, gpus[0], gpus[mapping.tp]);
}

}  // namespace

DisaggregatedPrefill::DisaggregatedPrefill(const Scenario& scenario, platforms::Machine& machine,
                                           execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  check(scenario_);
  prefill_gpus_ = place(spec().prefill, "prefill");
  decode_gpus_ = place(spec().decode, "decode");
  if (spec().nic_rule == workload::inference::NicRule::modulo) {
    assign_nics(prefill_gpus_);
    assign_nics(decode_gpus_);
  }
  const std::vector<workload::inference::Service::Placed> placed{{machine_.gpus(prefill_gpus_)},
                                                                 {machine_.gpus(decode_gpus_)}};
  workload::inference::ServingSpec serving = as_serving(spec());
  serving.instances[0].group = group_named(scenario_, "prefill");
  serving.instances[1].group = group_named(scenario_, "decode");
  service_ = std::make_unique<workload::inference::Service>(scenario_.model, serving, placed, executor_);
  figures_ = std::make_unique<PrefillFigures>();
  service_->add_sink(*figures_);
}

std::vector<GpuId> DisaggregatedPrefill::place(const Mapping& mapping, const char* group) const {
  std::vector<GpuId> ranks;
  for (const std::uint32_t index : mapping.placement)
    ranks.push_back(machine_.gpu_in_group(group_named(scenario_, group), index));
  return ranks;
}

void DisaggregatedPrefill::assign_nics(const std::vector<GpuId>& ranks) {
  // NIC (p*tp+t) mod NICs, among the NICs within reach.
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
    machine_.assign_nic(ranks[rank], machine_.nic_modulo(ranks[rank], rank));
}

std::uint64_t DisaggregatedPrefill::expected_passes(const PrefillSpec& w) {
  std::uint64_t passes = 0, tokens = 0, longest = 0;
  for (const Request& r : w.requests) {
    passes += ceil_div(r.prompt_tokens, w.chunk_tokens);
    tokens += r.output_tokens;
    longest = std::max<std::uint64_t>(longest, r.output_tokens);
  }
  return passes + std::max(longest, tokens / w.max_batch);
}

std::uint64_t DisaggregatedPrefill::expected_jobs() const {
  const PrefillSpec& w = spec();
  const std::uint64_t collectives = layer_collectives(scenario_.model, 1, {w.prefill.tp, false}).size();
  std::uint64_t jobs = expected_passes(w) * scenario_.model.layers * std::max<std::uint64_t>(1, collectives);
  if (w.host.token() == Time()) return jobs;
  for (const Request& r : w.requests) jobs += r.output_tokens;
  return jobs;
}

std::string DisaggregatedPrefill::progress() const {
  return fmt::format("{} of {} requests done", service_->api_server().served(), service_->api_server().count());
}

double DisaggregatedPrefill::done_ratio() const {
  const std::uint64_t chunks = service_->instance(0).engine().tokens_done() / spec().chunk_tokens;
  return std::min(1.0, done_of(chunks + service_->instance(1).engine().composed(), expected_passes(spec())));
}

std::vector<std::string> DisaggregatedPrefill::blocked() {
  std::vector<std::string> lines = WorkloadRun::blocked();
  for (const std::string& line : service_->blocked()) lines.push_back(line);
  return lines;
}

std::vector<RouteOfInterest> DisaggregatedPrefill::routes() {
  std::vector<RouteOfInterest> routes;
  add_grid_routes(routes, "prefill", spec().prefill, prefill_gpus_);
  add_grid_routes(routes, "decode", spec().decode, decode_gpus_);
  const HandoffPlan& plan = service_->handoff_plan(0, 1);
  for (std::uint32_t r = 0; r < spec().prefill.ranks(); ++r)
    for (const HandoffPlan::Share& share : plan.shares(r))
      routes.push_back({fmt::format("KV handoff, prefill rank {} to decode rank {}", r, share.decode_rank),
                        TrafficClass::kv, prefill_gpus_[r].value(), decode_gpus_[share.decode_rank].value()});
  return routes;
}

RunKind disaggregated_prefill_run() { return run_kind<DisaggregatedPrefill>(); }

}  // namespace railyard
