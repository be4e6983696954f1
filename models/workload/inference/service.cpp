#include "workload/inference/service.h"

#include <fmt/format.h>
#include <algorithm>

#include "workload/inference/request_list.h"

namespace railyard::workload::inference {

namespace {

EngineSpec engine_spec(const PrefillSpec& spec, PassNames names) {
  EngineSpec engine;
  engine.names = names;
  engine.pp_send = spec.pp_send;
  engine.host = spec.host;
  engine.token_ids = names == PassNames::prefill ? TokenIds::stay : TokenIds::to_next_batch;
  engine.max_in_flight = names == PassNames::prefill ? spec.prefill.pp : spec.decode.pp;
  engine.names_requests = spec.requests.size() > 1;
  return engine;
}

std::unique_ptr<RequestSource> source_of(const PrefillSpec& spec) {
  return std::make_unique<RequestList>(std::make_shared<const std::vector<Request>>(spec.requests));
}

}  // namespace

Service::Service(const transformer::ModelShape& model, const PrefillSpec& spec,
                 const std::vector<gpu::Gpu*>& prefill_gpus, const std::vector<gpu::Gpu*>& decode_gpus,
                 Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      prefill_instance_("prefill", model, spec.prefill, spec.host, prefill_gpus, executor),
      decode_instance_("decode", model, spec.decode, spec.host, decode_gpus, executor),
      prompts_(spec.chunk_tokens),
      groups_(spec.decode.pp, spec.max_batch, spec.host.async),
      prefill_(prefill_instance_, prompts_, engine_spec(spec, PassNames::prefill), executor, prefill_side_),
      decode_(decode_instance_, groups_, engine_spec(spec, PassNames::decode), executor, decode_side_),
      handoff_(prefill_instance_, decode_instance_, spec_, chunks_, executor, *this),
      api_server_(source_of(spec), spec.host, spec.requests.size() > 1, executor, *this) {
  std::uint32_t longest = 0;
  for (const Request& r : spec_.requests) longest = std::max(longest, r.prompt_tokens);
  const std::uint32_t chunk = std::min(spec_.chunk_tokens, longest);
  prefill_instance_.load(spec_.memory_limit_ratio, chunk, 1, chunk);
  decode_instance_.load(spec_.memory_limit_ratio, spec_.max_batch, spec_.max_batch, 1);
}

double Service::handed_over(const HandoffPlan& plan, const HandoffPlan::Share& share) const {
  double bytes = 0;
  for (const Request& r : spec_.requests)
    bytes += static_cast<double>(plan.bytes(share, {0, r.prompt_tokens, r.prompt_tokens}));
  return bytes;
}

std::vector<transport::Traffic> Service::traffic() {
  std::vector<transport::Traffic> all;
  double prompt_tokens = 0, output_tokens = 0;
  for (const Request& r : spec_.requests) {
    prompt_tokens += r.prompt_tokens;
    output_tokens += r.output_tokens;
  }
  std::int64_t group = 0;
  for (Instance* instance : {&prefill_instance_, &decode_instance_}) {
    const double tokens = instance == &prefill_instance_ ? prompt_tokens : output_tokens;
    instance->add_traffic(all, tokens, executor_.replays() ? group : transport::Traffic::kNobody);
    group += instance->pp();
  }
  const HandoffPlan plan(prefill_instance_, decode_instance_);
  for (std::uint32_t r = 0; r < prefill_instance_.ranks(); ++r)
    for (const HandoffPlan::Share& share : plan.shares(r))
      all.push_back({prefill_instance_.rank(r).gpu->window(), decode_instance_.rank(share.decode_rank).gpu->window(),
                     number(TrafficClass::kv), handed_over(plan, share)});
  return all;
}

void Service::start() {
  if (executor_.replays()) allow_reuse({&prefill_instance_, &decode_instance_}, traffic(), fabric_);
  api_server_.start();
}

std::uint64_t Service::kv_tokens(std::uint32_t request) const {
  return spec_.requests[request].prompt_tokens + spec_.requests[request].output_tokens;
}

void Service::on_queued(std::uint32_t request, PromptContent) {
  queued_.push_back(request);
  admit();
}

void Service::admit() {
  while (!queued_.empty()) {
    const std::uint32_t request = queued_.front();
    if (!prefill_instance_.kv().hold(spec_.requests[request].prompt_tokens)) return;
    if (!decode_instance_.kv().hold(kv_tokens(request))) {
      prefill_instance_.kv().free(spec_.requests[request].prompt_tokens);
      return;
    }
    queued_.pop_front();
    tell_kv("prefill", prefill_instance_);
    tell_kv("decode", decode_instance_);
    api_server_.on_way(request).times.admitted = fabric_.now();
    if (in_prefill_ == 0) window_since_ = fabric_.now();
    count(in_prefill_, 1, kPrefill);
    prompts_.add(request, spec_.requests[request].prompt_tokens);
    prefill_.added(request);
  }
}

void Service::count(std::uint32_t& requests, int more, Phase phase) {
  const bool was_empty = requests == 0;
  requests += static_cast<std::uint32_t>(more);
  if (phases_ == nullptr || was_empty == (requests == 0)) return;
  was_empty ? phases_->on_phase_begun(phase) : phases_->on_phase_ended(phase);
}

void Service::tell_kv(const char* group, const Instance& instance) {
  for (std::uint32_t p = 0; p < instance.pp() && listener_ != nullptr; ++p)
    listener_->on_kv_promised(group, p, instance.kv().held(p), fabric_.now());
}

void Service::PrefillSide::on_composed(std::uint32_t, Iteration& iteration) {
  const ScheduledBatch::Item& chunk = iteration.batch.items.front();
  service.chunks_.push_back({chunk.request, chunk.chunk, chunk.start, chunk.tokens, chunk.samples});
}

void Service::PrefillSide::on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t,
                                                std::uint32_t layer, JobRef job) {
  service.handoff_.on_attention_emitted(pass, stage, t, layer, job);
}

void Service::PrefillSide::on_begun(std::uint32_t request) {
  service.api_server_.on_way(request).times.prefill_begun = service.fabric_.now();
  service.api_server_.tell(request, RequestPhase::prefill);
}

void Service::PrefillSide::on_token(std::uint32_t request) {
  service.executor_.reached(&service, request);
  service.api_server_.tell(request, RequestPhase::handoff);
  service.count(service.in_prefill_, -1, kPrefill);
  if (service.in_prefill_ == 0) service.window_ += service.fabric_.now() - service.window_since_;
  service.api_server_.deliver(request);
}

void Service::PrefillSide::on_finished(std::uint32_t request) { service.check_landed(request); }

void Service::on_handed_off(std::uint32_t request) {
  executor_.reached(this, request);
  check_landed(request);
}

void Service::check_landed(std::uint32_t request) {
  if (!api_server_.has_token(request) || !handoff_.done(request)) return;
  executor_.passed(this, request);
  on_kv_landed(request);
}

void Service::on_kv_landed(std::uint32_t request) {
  Served& served = api_server_.on_way(request);
  served.times.kv_landed = fabric_.now();
  prefill_instance_.kv().free(spec_.requests[request].prompt_tokens);
  tell_kv("prefill", prefill_instance_);
  if (spec_.requests[request].output_tokens > 1) {
    api_server_.tell(request, RequestPhase::decode_queued);
    groups_.add(request, spec_.requests[request].prompt_tokens, spec_.requests[request].output_tokens - 1);
    decode_.added(request);
  } else {
    served.times.decode_begun = fabric_.now();
    leave(request);
    return;
  }
  admit();
}

void Service::DecodeSide::on_begun(std::uint32_t request) {
  service.api_server_.on_way(request).times.decode_begun = service.fabric_.now();
  service.count(service.in_decode_, 1, kDecode);
  service.api_server_.tell(request, RequestPhase::decode);
}

void Service::DecodeSide::on_iteration(std::uint32_t, const Iteration& iteration) {
  const Time now = service.fabric_.now();
  service.step_seconds_ += (now - later(iteration.composed, service.step_done_)).seconds();
  service.step_done_ = now;
}

void Service::DecodeSide::on_finished(std::uint32_t request) {
  service.count(service.in_decode_, -1, kDecode);
  service.leave(request);
}

void Service::leave(std::uint32_t request) {
  decode_instance_.kv().free(kv_tokens(request));
  tell_kv("decode", decode_instance_);
  api_server_.leave(request);
  admit();
}

std::vector<std::string> Service::blocked() const {
  std::vector<std::string> lines;
  for (const std::uint32_t request : queued_)
    lines.push_back(fmt::format("request {} waits for KV memory ({} tokens)", request, kv_tokens(request)));
  return lines;
}

}  // namespace railyard::workload::inference
