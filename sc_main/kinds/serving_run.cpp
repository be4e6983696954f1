#include "sc_main/kinds/serving_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>

#include "base/input_error.h"
#include "sc_main/kinds/serving_memory.h"
#include "transformer/layer_plan.h"
#include "workload/inference/scheduler/acceptance.h"

namespace railyard {

using workload::inference::StageMemory;

namespace {

Value scheduler_value(const workload::inference::SchedulerSpec& s) {
  static constexpr const char* kPolicies[] = {"fcfs", "priority"};
  static constexpr const char* kMixes[] = {"mixed", "prefill_first"};
  static constexpr const char* kReserves[] = {"chunk", "sequence", "expected_output", "full_output"};
  static constexpr const char* kPreemptions[] = {"recompute", "never"};
  Value value{{"policy", kPolicies[static_cast<std::size_t>(s.policy)]},
              {"max_batched_tokens", s.max_batched_tokens},
              {"max_seqs", s.max_seqs},
              {"max_model_len", s.max_model_len == 0 ? Value() : Value(s.max_model_len)},  // nothing: no limit
              {"long_prefill_threshold_tokens", s.long_prefill_threshold_tokens},
              {"chunked_prefill", s.chunked_prefill},
              {"mix", kMixes[static_cast<std::size_t>(s.mix)]},
              {"reserve", kReserves[static_cast<std::size_t>(s.reserve)]},
              {"preemption", kPreemptions[static_cast<std::size_t>(s.preemption)]},
              {"watermark_ratio", s.watermark_ratio},
              {"prefix_caching", s.prefix_caching},
              {"block_tokens", s.block_tokens},
              {"max_in_flight", s.max_in_flight}};
  if (s.receive_interval > 1) value["receive_interval"] = s.receive_interval;
  return value;
}

Value speculation_value(const workload::inference::InstanceSpec& instance) {
  const workload::inference::DraftSpec& drafts = instance.scheduler.drafts;
  const auto method = static_cast<std::size_t>(instance.speculation->method);
  return {{"method", workload::inference::kDraftMethodNames[method]},
          {"tokens", drafts.tokens},
          {"tokens_per_step", workload::inference::tokens_per_step(drafts.acceptance)}};
}

/// Lengths of the requests: {least, mean, most}.
Value length_range(const std::vector<std::uint32_t>& tokens) {
  const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
  return {{"least", *least}, {"mean", mean({tokens.begin(), tokens.end()})}, {"most", *most}};
}

}  // namespace

std::string ServingRun::gpus_text(const InstanceSpec& instance) const {
  const std::vector<std::uint32_t>& gpus = instance.mapping.placement;
  std::string text = scenario_.machine.groups[instance.group].name + " ";
  for (std::size_t begin = 0, end = 0; begin < gpus.size(); begin = end) {
    for (end = begin + 1; end < gpus.size() && gpus[end] == gpus[end - 1] + 1;) ++end;
    text += begin > 0 ? "," : "";
    text += end - begin > 1 ? fmt::format("{}-{}", gpus[begin], gpus[end - 1]) : fmt::format("{}", gpus[begin]);
  }
  return text;
}

namespace {

/// From the first event of the scenario to the last one; none without events.
std::optional<ServingPeriods::During> period_of_events(const Scenario& scenario) {
  std::vector<Time> instants;
  for (const MachineEvent& event : scenario.events) instants.push_back(event.at);
  for (const auto& change : scenario.spec<workload::inference::ServingSpec>().changes) instants.push_back(change.at);
  if (instants.empty()) return {};
  const auto [first, last] = std::minmax_element(instants.begin(), instants.end());
  return ServingPeriods::During{*first, *last};
}

}  // namespace

ServingRun::ServingRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  std::vector<workload::inference::Service::Placed> placed;
  const workload::inference::KvTiers& tiers = spec().kv_tiers;
  const auto host_blocks = tier_kv_blocks(scenario, {"host", tiers.host_bytes_per_server, tiers.where}, tiers.pools);
  const auto disk_blocks = tier_kv_blocks(scenario, {"disk", tiers.disk.bytes_per_server, tiers.disk_where}, {});
  for (const InstanceSpec& instance : spec().instances) {
    if (gpu(instance).sm.flop_per_clock[static_cast<std::size_t>(scenario.model.dtype)] == 0)
      throw InputError(scenario.model_origin,
                       fmt::format("model: {}{}",
                                   scenario.machine.groups.size() > 1
                                       ? fmt::format("in group {}, ", scenario.machine.groups[instance.group].name)
                                       : "",
                                   no_tensor_rate_text(gpu(instance), scenario.model.dtype)));
    std::vector<GpuId>& gpus = gpus_.emplace_back();
    for (const std::uint32_t index : instance.mapping.placement)
      gpus.push_back(machine_.gpu_in_group(instance.group, index));
    if (spec().nic_rule == workload::inference::NicRule::modulo) assign_nics(gpus);
    if (!is_paged()) check_whole_sequences(scenario, instance);
    blocks_.push_back(is_paged() ? railyard::kv_blocks(scenario, instance) : 0);
    auto& place = placed.emplace_back();
    place.gpus = machine_.gpus(gpus);
    place.blocks = blocks_.back();
    place.host_blocks = host_blocks[placed.size() - 1];
    place.disk_blocks = disk_blocks[placed.size() - 1];
    for (const GpuId id : gpus) {
      place.memories.push_back(machine_.host_of(id).window());
      place.queue_pairs.push_back(machine_.queue_pairs_beside(id));
      place.servers.push_back(machine_.place(id).server);
    }
  }
  service_ = std::make_unique<workload::inference::Service>(scenario_.model, spec(), placed, executor_);
  figures_ = std::make_unique<ServingFigures>(spec(), blocks_, period_of_events(scenario));
  service_->add_sink(*figures_);
}

void ServingRun::assign_nics(const std::vector<GpuId>& ranks) {
  // NIC (p*tp+t) mod NICs, among the NICs within reach.
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
    machine_.assign_nic(ranks[rank], machine_.nic_modulo(ranks[rank], rank));
}

std::string ServingRun::progress() const {
  const workload::inference::ApiServer& api_server = service_->api_server();
  return fmt::format("{} of {} requests done", api_server.served() + api_server.refused() + api_server.aborted(),
                     api_server.count());
}

double ServingRun::done_ratio() const {
  const workload::inference::ApiServer& api_server = service_->api_server();
  return (api_server.work_done() + api_server.refused()) / api_server.count();
}

std::uint64_t ServingRun::expected_jobs() const {
  if (!is_paged()) return expected_jobs_of_list();
  constexpr std::uint64_t kTokensOfAnAnswer = 250;
  std::uint64_t most = 0;
  for (const InstanceSpec& instance : spec().instances) most = std::max(most, jobs_of_pass(instance));
  return service_->api_server().count() * kTokensOfAnAnswer * most;
}

std::uint64_t ServingRun::jobs_of_pass(const InstanceSpec& instance) const {
  const std::uint64_t collectives =
      transformer::layer_collectives(scenario_.model, 1, {instance.mapping.tp, false}).size();
  return scenario_.model.layers * std::max<std::uint64_t>(1, collectives);
}

std::uint64_t ServingRun::expected_jobs_of_list() const {
  const workload::inference::WholeSequencesSpec &chunks = *spec().instances.front().whole,
                                                &steps = *spec().instances.back().whole;
  std::uint64_t passes = 0, tokens = 0, longest = 0;
  for (const workload::inference::Request& request : *spec().listed) {
    passes += ceil_div(request.prompt_tokens, chunks.max_batched_tokens);
    tokens += request.output_tokens;
    longest = std::max<std::uint64_t>(longest, request.output_tokens);
  }
  passes += std::max(longest, tokens / steps.max_seqs);
  return passes * jobs_of_pass(spec().instances.front()) +
         (spec().instances.back().host.token() == Time() ? 0 : tokens);
}

void ServingRun::prepare_log() {
  log_ = std::make_unique<ServingLog>();
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const InstanceSpec& instance = spec().instances[i];
    const std::vector<StageMemory> stages = stage_memory(scenario_, instance);
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

bool ServingRun::can_lose() const {
  return std::any_of(spec().changes.begin(), spec().changes.end(),
                     [](const auto& change) { return change.what == workload::inference::InstanceChange::What::fail; });
}

std::vector<RouteOfInterest> ServingRun::routes() {
  std::vector<RouteOfInterest> routes;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const InstanceSpec& instance = spec().instances[i];
    const std::uint32_t tp = instance.mapping.tp;
    const auto add = [&](const std::string& what, TrafficClass traffic_class, std::uint32_t from, std::uint32_t to) {
      const bool is_copied = traffic_class == TrafficClass::pp && !is_paged();
      routes.push_back({fmt::format("{} {}", instance.name, what), traffic_class, gpus_[i][from].value(),
                        gpus_[i][to].value(), is_copied ? transport::Engine::copy_engine : transport::Engine::sm});
    };
    if (tp > 1) add("all-reduce, t=0 to t=1", TrafficClass::tp, 0, 1);
    if (instance.mapping.dp > 1) add("experts, replica 0 to replica 1", TrafficClass::ep, 0, tp);
    if (tp > 2) add(fmt::format("all-reduce, t={} to t=0", tp - 1), TrafficClass::tp, tp - 1, 0);
    if (instance.mapping.pp > 1) add("activations, p=0 to p=1", TrafficClass::pp, 0, tp);
  }
  for (std::size_t from = 0; from < gpus_.size(); ++from) {
    for (std::size_t to = 0; to < gpus_.size(); ++to) {
      if (!hands_over(from, to)) continue;
      const workload::inference::HandoffPlan& plan = service_->handoff_plan(from, to);
      const auto &grid = service_->instance(from).grid(), &other = service_->instance(to).grid();
      for (std::uint32_t r = 0; r < grid.replica_ranks(); ++r)
        for (const auto& share : plan.shares(r)) {  // of attention replicas, the first ones
          const std::uint32_t a = grid.rank_of(0, r), b = other.rank_of(0, share.decode_rank);
          routes.push_back({fmt::format("KV handoff, {} rank {} to {} rank {}", spec().instances[from].name, a,
                                        spec().instances[to].name, b),
                            TrafficClass::kv, gpus_[from][a].value(), gpus_[to][b].value()});
        }
    }
  }
  return routes;
}

std::vector<std::string> ServingRun::engines() const {
  std::vector<std::string> names;
  if (is_paged())
    for (const InstanceSpec& instance : spec().instances) names.push_back(instance.name);
  return names;
}

std::vector<std::string> ServingRun::phases() const {
  return is_paged() ? std::vector<std::string>() : std::vector<std::string>{"prefill", "decode"};
}

std::vector<TrafficClass> ServingRun::classes() const {
  std::vector<TrafficClass> all = WorkloadRun::classes();
  const auto has_replicas = [](const InstanceSpec& i) { return i.mapping.dp > 1; };
  if (std::any_of(spec().instances.begin(), spec().instances.end(), has_replicas)) all.push_back(TrafficClass::ep);
  const auto joins = [](const workload::inference::InstanceChange& change) {
    return change.what == workload::inference::InstanceChange::What::join;
  };
  if (std::any_of(spec().changes.begin(), spec().changes.end(), joins)) all.push_back(TrafficClass::weights);
  return all;
}

bool ServingRun::hands_over(std::size_t from, std::size_t to) const {
  return workload::inference::hands_over(spec().instances[from].role, spec().instances[to].role);
}

Value ServingRun::compute() {
  std::vector<const transformer::LayerTimer*> timers;
  for (std::size_t i = 0; i < service_->instances(); ++i) timers.push_back(&service_->instance(i).grid().timer());
  return profile_use(timers);
}

Value ServingRun::instance_value(const InstanceSpec& instance) const {
  static constexpr const char* kRoles[] = {"colocated", "prefill", "decode"};
  Value value{{"name", instance.name},
              {"role", kRoles[static_cast<std::size_t>(instance.role)]},
              {"tp", instance.mapping.tp},
              {"pp", instance.mapping.pp}};
  if (instance.mapping.dp > 1) value["dp"] = instance.mapping.dp;
  if (instance.mapping.experts.ranks > 1) {
    value["ep"] = instance.mapping.experts.ranks;
    value["fullest_expert_rank"] = instance.mapping.experts.fullest;
  }
  if (instance.kv_dtype) value["kv_dtype"] = name_of(*instance.kv_dtype);
  value["gpus"] = gpus_text(instance);
  value["engine"] = instance.engine.name;
  value["scheduler"] = scheduler_value(instance.scheduler);
  if (instance.speculation) value["speculation"] = speculation_value(instance);
  return value;
}

std::string ServingRun::host_names() const {
  std::vector<std::string> names;
  for (const InstanceSpec& instance : spec().instances)
    if (std::find(names.begin(), names.end(), instance.host.name) == names.end()) names.push_back(instance.host.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void ServingRun::add_setup(Value& setup) const {
  for (const InstanceSpec& instance : spec().instances) {
    if (is_paged()) {
      setup["instances"].push_back(instance_value(instance));
      continue;
    }
    Value& mapping = setup[instance.name] = {{"tp", instance.mapping.tp}, {"pp", instance.mapping.pp}};
    if (instance.role == workload::inference::InstanceRole::decode)
      mapping["max_batch"] = instance.whole->max_seqs;
    else
      setup["chunk_tokens"] = instance.whole->max_batched_tokens;
  }
  setup["host"] = host_names();
  setup["requests"] = service_->api_server().count();
  if (!spec().listed) return;
  std::vector<std::uint32_t> prompts, outputs;
  for (const workload::inference::Request& request : *spec().listed) {
    prompts.push_back(request.prompt_tokens);
    outputs.push_back(request.output_tokens);
  }
  setup["prompt_tokens"] = length_range(prompts);
  setup["output_tokens"] = length_range(outputs);
}

const ServingFigures& ServingRun::figures() const {
  figures_->refused = service_->api_server().refused();
  figures_->aborted = service_->api_server().aborted();
  figures_->close(*service_, fabric_.now());
  return *figures_;
}

WorkDone ServingRun::work_done() const {
  WorkDone work;
  work.requests = static_cast<double>(figures_->requests);
  work.output_tokens = static_cast<double>(figures_->output_tokens);
  work.tokens = work.output_tokens + static_cast<double>(figures_->prompt_tokens);
  return work;
}

RunKind serving_run() { return run_kind<ServingRun>(); }

}  // namespace railyard
