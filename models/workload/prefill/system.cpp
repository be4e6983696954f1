#include "workload/prefill/system.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::prefill {

System::System(const ModelShape& model, const PrefillSpec& spec, const std::vector<gpu::Gpu*>& prefill_gpus,
               const std::vector<gpu::Gpu*>& decode_gpus, transport::Fabric& fabric, JobSink& sink)
    : spec_(spec),
      fabric_(fabric),
      sink_(sink),
      dispatcher_(fabric),
      prefill_grid_(model, spec.prefill, prefill_gpus),
      decode_grid_(model, spec.decode, decode_gpus),
      prefill_(prefill_grid_, decode_grid_, spec_, dispatcher_, sink, *this),
      decode_(decode_grid_, spec_, dispatcher_, sink, *this),
      requests_(spec.requests.size()),
      frontends_(spec.requests.size()) {
  std::uint32_t longest = 0;
  for (const Request& r : spec_.requests) longest = std::max(longest, r.prompt_tokens);
  const std::uint32_t chunk = std::min(spec_.chunk_tokens, longest);
  prefill_grid_.add_multicast_groups(fabric_);
  decode_grid_.add_multicast_groups(fabric_);
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
    const double hidden =
        static_cast<double>(hidden_bytes(grid->model(), 1)) * (grid == &prefill_grid_ ? prompt_tokens : output_tokens);
    for (std::uint32_t p = 0; p < grid->pp(); ++p, ++group) {
      // Two all-reduces a layer: each member sends nearly twice the vector, here to all others alike.
      const std::vector<transport::Window>& members = grid->tp_group(p).members;
      const double bytes = 4 * hidden * grid->stage(p).layers / static_cast<double>(members.size());
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
      groups.push_back(
          {grid->tp_group(p).members, collective::least_launch(Passes::request(), grid->tp_site(p, fabric_))});
  std::vector<std::tuple<transport::Window, transport::Window, std::uint8_t>> others;
  for (const transport::Traffic& t : traffic())
    if (t.traffic_class != number(TrafficClass::tp)) others.emplace_back(t.source, t.destination, t.traffic_class);
  auto tables = collective::isolate(fabric_, groups, number(TrafficClass::tp), others);
  const auto second = tables.begin() + prefill_grid_.pp();
  decode_grid_.set_reuse({std::make_move_iterator(second), std::make_move_iterator(tables.end())});
  tables.erase(second, tables.end());
  prefill_grid_.set_reuse(std::move(tables));
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
  dispatcher_.arrived();
  dispatcher_.measure("ttft_s", request);
  if (spec_.host.request() == Time()) {
    enter(request);
    return;
  }
  tell(request, RequestPhase::host);
  JobTag tag;
  tag.run = request;
  tag.what = kReceive;
  dispatcher_.host(api_server_, frontends_[request], spec_.host.request(), tag, *this);
}

void System::enter(std::uint32_t request) {
  requests_[request].queued = fabric_.now();
  arrived_.push_back(request);
  tell(request, RequestPhase::queued);
  admit();
}

JobRecord System::record(const JobTag& tag) const {
  JobRecord r;
  r.kind = tag.what == kReceive ? JobRecord::Kind::host_request : JobRecord::Kind::host_token;
  if (tag.what == kDeliver) r.index = static_cast<std::uint32_t>(requests_[tag.run].tokens.size());
  if (spec_.requests.size() > 1) r.request = tag.run;
  return r;
}

void System::on_job_done(const Job& job) {
  JobRecord r = record(job.tag());
  r.start = job.begun_at();
  r.end = fabric_.now();
  r.queued = job.begun_at() - job.ready_at();
  sink_.on_job(r);
  if (job.tag().what == kReceive) {
    enter(job.tag().run);
  } else {
    delivered(job.tag().run);
  }
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
  JobTag tag;
  tag.run = request;
  tag.what = kDeliver;
  dispatcher_.host(api_server_, frontends_[request], spec_.host.token(), tag, *this);
}

void System::delivered(std::uint32_t request) {
  RequestTimes& times = requests_[request];
  const std::size_t all = spec_.requests[request].output_tokens;
  times.tokens.push_back(fabric_.now());
  if (times.tokens.size() == 1) {
    times.first_token = fabric_.now();
    dispatcher_.measured("ttft_s", request);
    dispatcher_.measure("tpot_s", request);
  } else if (times.tokens.size() == all) {
    dispatcher_.measured("tpot_s", request, static_cast<std::uint32_t>(all - 1));
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

namespace {

/// What the front job of a stream waits for.
std::string waits_for(const Job& job) {
  if (!job.begun()) return "waits for jobs of other streams";
  if (job.kind() == Job::Kind::kernel || job.kind() == Job::Kind::host) return "runs";
  const collective::Collective& c = *job.collective();  // a send has left its stream when it has begun
  std::string absent;
  for (std::uint32_t m = 0; m < c.size(); ++m)
    if (!c.has_entered(m)) absent += fmt::format("{}t={}", absent.empty() ? "" : ", ", m);
  return absent.empty() ? "waits for bytes of its peers" : "waits for " + absent + " to enter";
}

}  // namespace

std::vector<std::string> System::blocked() {
  std::vector<std::string> lines;
  const auto look = [&](const char* group, Grid& grid) {
    for (std::uint32_t r = 0; r < grid.ranks(); ++r) {
      RankDevice& device = grid.rank(r);
      for (const auto& [name, stream] :
           {std::pair{"compute", &device.compute}, {"pp", &device.pp}, {"kv", &device.kv}, {"host", &device.host}}) {
        if (stream->empty()) continue;
        const auto& job = static_cast<const Job&>(*stream->front());
        lines.push_back(fmt::format("{} rank {} ({}), stream {}: {} of pass {} {}", group, r, device.gpu->name(), name,
                                    Passes::label(job), job.tag().run, waits_for(job)));
      }
    }
  };
  look("prefill", prefill_grid_);
  look("decode", decode_grid_);
  for (const std::string& line : dispatcher_.sm_waits()) lines.push_back(line);
  for (const std::uint32_t request : arrived_)
    lines.push_back(fmt::format("request {} waits for KV memory ({} tokens)", request, kv_tokens(request)));
  return lines;
}

}  // namespace railyard::workload::prefill
