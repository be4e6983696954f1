#include "workload/prefill/system.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::prefill {

System::System(const transformer::ModelShape& model, const PrefillSpec& spec,
               const std::vector<gpu::Gpu*>& prefill_gpus, const std::vector<gpu::Gpu*>& decode_gpus,
               Executor& executor)
    : spec_(spec),
      fabric_(executor.fabric()),
      executor_(executor),
      prefill_grid_("prefill", model, spec.prefill, spec.host, prefill_gpus, executor),
      decode_grid_("decode", model, spec.decode, spec.host, decode_gpus, executor),
      prefill_(prefill_grid_, decode_grid_, spec_, executor, *this),
      decode_(decode_grid_, spec_, executor, *this),
      requests_(spec.requests.size()),
      api_server_(executor.add_host("api_server", 0)) {
  std::uint32_t longest = 0;
  for (const Request& r : spec_.requests) {
    longest = std::max(longest, r.prompt_tokens);
    api_server_.add_stream("");
  }
  const std::uint32_t chunk = std::min(spec_.chunk_tokens, longest);
  prefill_grid_.load(spec_.memory_limit_ratio, chunk, 1, chunk);
  decode_grid_.load(spec_.memory_limit_ratio, spec_.max_batch, spec_.max_batch, 1);
}

double System::handed_over(const HandoffPlan& plan, const HandoffPlan::Share& share) const {
  double bytes = 0;
  for (const Request& r : spec_.requests)
    bytes += static_cast<double>(plan.bytes(share, {0, r.prompt_tokens, r.prompt_tokens}));
  return bytes;
}

std::vector<transport::Traffic> System::traffic() {
  std::vector<transport::Traffic> all;
  double prompt_tokens = 0, output_tokens = 0;
  for (const Request& r : spec_.requests) {
    prompt_tokens += r.prompt_tokens;
    output_tokens += r.output_tokens;
  }
  const auto window = [](Grid& grid, std::uint32_t rank) { return grid.rank(rank).gpu->window(); };
  std::int64_t group = 0;
  for (Grid* grid : {&prefill_grid_, &decode_grid_}) {
    const double tokens = grid == &prefill_grid_ ? prompt_tokens : output_tokens;
    const double hidden = static_cast<double>(hidden_bytes(grid->model(), 1)) * tokens;
    for (std::uint32_t p = 0; p < grid->pp(); ++p, ++group) {
      // Each member sends nearly twice the vector of every all-reduce, here to all others alike.
      const std::vector<transport::Window>& members = grid->tp_communicator(p).group().members;
      double bytes = 0;
      for (const transformer::LayerStep& step : layer_collectives(grid->model(), 1, grid->split()))
        bytes +=
            2 * static_cast<double>(step.bytes) * tokens * grid->stage(p).layers / static_cast<double>(members.size());
      for (const transport::Window a : members)
        for (const transport::Window b : members)
          if (a != b)
            all.push_back({a, b, number(TrafficClass::tp), bytes, reuse_ ? group : transport::Traffic::kNobody});
    }
    for (std::uint32_t r = 0; r < grid->ranks() && grid->pp() > 1; ++r)  // to the next stage; tokens back to the first
      all.push_back({window(*grid, r), window(*grid, (r + grid->tp()) % grid->ranks()), number(TrafficClass::pp),
                     hidden / grid->tp()});
  }
  const HandoffPlan plan(prefill_grid_, decode_grid_);
  for (std::uint32_t r = 0; r < prefill_grid_.ranks(); ++r)
    for (const HandoffPlan::Share& share : plan.shares(r))
      all.push_back({window(prefill_grid_, r), window(decode_grid_, share.decode_rank), number(TrafficClass::kv),
                     handed_over(plan, share)});
  return all;
}

void System::isolate_groups() {
  std::vector<collective::ReuseGroup> groups;
  for (Grid* grid : {&prefill_grid_, &decode_grid_})
    for (std::uint32_t p = 0; p < grid->pp(); ++p)
      groups.push_back({grid->tp_communicator(p).group().members, grid->tp_communicator(p).least_launch()});
  std::vector<std::tuple<transport::Window, transport::Window, std::uint8_t>> others;
  for (const transport::Traffic& t : traffic())
    if (t.traffic_class != number(TrafficClass::tp)) others.emplace_back(t.source, t.destination, t.traffic_class);
  auto tables = collective::isolate(fabric_, groups, number(TrafficClass::tp), others);
  auto table = tables.begin();
  for (Grid* grid : {&prefill_grid_, &decode_grid_})
    for (std::uint32_t p = 0; p < grid->pp(); ++p) grid->tp_communicator(p).set_reuse(std::move(*table++));
}

void System::start() {
  if (reuse_) isolate_groups();
  for (std::uint32_t r = 0; r < spec_.requests.size(); ++r)
    fabric_.calendar().at(spec_.requests[r].arrival, *this, 0, r);
}

std::uint64_t System::kv_tokens(std::uint32_t request) const {
  return spec_.requests[request].prompt_tokens + spec_.requests[request].output_tokens;
}

void System::on_event(std::uint32_t, std::uint64_t number) {
  const auto request = static_cast<std::uint32_t>(number);
  executor_.arrived();
  executor_.measure("ttft_s", request);
  if (spec_.host.request() == Time()) {
    enter(request);
    return;
  }
  tell(request, RequestPhase::host);
  executor_.host(api_server_, api_server_.stream(request), spec_.host.request(), label(request, kReceive), *this);
}

void System::enter(std::uint32_t request) {
  requests_[request].queued = fabric_.now();
  arrived_.push_back(request);
  tell(request, RequestPhase::queued);
  admit();
}

JobLabel System::label(std::uint32_t request, What what) const {
  Fields fields{};
  fields.request = request;
  fields.what = what;
  return JobLabel::of(*this, fields);
}

std::string System::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  std::string name =
      f.what == kReceive ? "Host_Request" : fmt::format("Host_Token[{}]", requests_[f.request].tokens.size());
  if (spec_.requests.size() > 1) name += fmt::format("_Req[{}]", f.request);
  return name;
}

Recorded System::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).what == kReceive ? Recorded::stage : Recorded::detail;
}

void System::on_job_done(const Job& job) {
  const auto f = job.label().as<Fields>();
  f.what == kReceive ? enter(f.request) : delivered(f.request);
}

void System::admit() {
  while (!arrived_.empty()) {
    const std::uint32_t request = arrived_.front();
    if (!prefill_grid_.hold_kv(spec_.requests[request].prompt_tokens)) return;
    if (!decode_grid_.hold_kv(kv_tokens(request))) {
      prefill_grid_.free_kv(spec_.requests[request].prompt_tokens);
      return;
    }
    arrived_.pop_front();
    tell_kv("prefill", prefill_grid_);
    tell_kv("decode", decode_grid_);
    requests_[request].admitted = fabric_.now();
    requests_[request].admitted_yet = true;
    if (in_prefill_ == 0) window_since_ = fabric_.now();
    count(in_prefill_, 1, kPrefill);
    prefill_.admit(request);
  }
}

void System::tell(std::uint32_t request, RequestPhase phase) {
  if (listener_ != nullptr) listener_->on_phase(request, phase, fabric_.now());
}

void System::count(std::uint32_t& requests, int more, Phase phase) {
  const bool was_empty = requests == 0;
  requests += static_cast<std::uint32_t>(more);
  if (phases_ == nullptr || was_empty == (requests == 0)) return;
  was_empty ? phases_->on_phase_begun(phase) : phases_->on_phase_ended(phase);
}

void System::tell_kv(const char* group, const Grid& grid) {
  for (std::uint32_t p = 0; p < grid.pp() && listener_ != nullptr; ++p)
    listener_->on_kv_promised(group, p, grid.held_kv(p), fabric_.now());
}

void System::on_prefill_begun(std::uint32_t request) {
  requests_[request].prefill_begun = fabric_.now();
  tell(request, RequestPhase::prefill);
}

void System::on_first_token(std::uint32_t request) {
  requests_[request].prefilled = fabric_.now();
  tell(request, RequestPhase::handoff);
  count(in_prefill_, -1, kPrefill);
  if (in_prefill_ == 0) window_ += fabric_.now() - window_since_;
  deliver(request);
}

void System::on_kv_landed(std::uint32_t request) {
  requests_[request].kv_landed = fabric_.now();
  prefill_grid_.free_kv(spec_.requests[request].prompt_tokens);
  tell_kv("prefill", prefill_grid_);
  if (spec_.requests[request].output_tokens > 1) {
    tell(request, RequestPhase::decode_queued);
    decode_.ready(request);
  } else {
    requests_[request].decode_begun = fabric_.now();
    leave(request);
    return;
  }
  admit();
}

void System::on_decode_begun(std::uint32_t request) {
  requests_[request].decode_begun = fabric_.now();
  count(in_decode_, 1, kDecode);
  tell(request, RequestPhase::decode);
}

void System::on_token(std::uint32_t request) { deliver(request); }

void System::deliver(std::uint32_t request) {
  if (spec_.host.token() == Time()) {
    delivered(request);
    return;
  }
  executor_.host(api_server_, api_server_.stream(request), spec_.host.token(), label(request, kDeliver), *this);
}

void System::delivered(std::uint32_t request) {
  RequestTimes& times = requests_[request];
  const std::size_t all = spec_.requests[request].output_tokens;
  times.tokens.push_back(fabric_.now());
  if (times.tokens.size() == 1) {
    times.first_token = fabric_.now();
    executor_.measured("ttft_s", request);
    executor_.measure("tpot_s", request);
  } else if (times.tokens.size() == all) {
    executor_.measured("tpot_s", request, static_cast<std::uint32_t>(all - 1));
  }
  check_done(request);
}

void System::on_decoded(std::uint32_t request) {
  count(in_decode_, -1, kDecode);
  leave(request);
}

void System::leave(std::uint32_t request) {
  requests_[request].decoded = true;
  decode_grid_.free_kv(kv_tokens(request));
  tell_kv("decode", decode_grid_);
  check_done(request);
  admit();
}

void System::check_done(std::uint32_t request) {
  RequestTimes& times = requests_[request];
  if (!times.decoded || times.tokens.size() != spec_.requests[request].output_tokens) return;
  times.done = true;
  finished_.push_back(request);
  tell(request, RequestPhase::done);
}

std::vector<std::string> System::blocked() const {
  std::vector<std::string> lines;
  for (const std::uint32_t request : arrived_)
    lines.push_back(fmt::format("request {} waits for KV memory ({} tokens)", request, kv_tokens(request)));
  return lines;
}

}  // namespace railyard::workload::prefill
