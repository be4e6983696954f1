#include "workload/inference/service/kv_exchange.h"

#include <fmt/format.h>
#include <algorithm>

#include "gpu/kernels/kernel_chain.h"
#include "gpu/kernels/memory_bound.h"
#include "workload/inference/engine/pipeline.h"
#include "workload/traffic.h"

namespace railyard::workload::inference {

KvExchange::Way& KvExchange::way(const Instance& from, const Instance& to) {
  const auto found = ways_.find({from.id(), to.id()});
  if (found != ways_.end()) return found->second;
  const auto next = [this, &from, &to] { return next_sent(from, to); };
  return ways_
      .try_emplace({from.id(), to.id()},
                   Way{HandoffPlan(from.grid(), to.grid()),
                       KvSends(fmt::format("KV from {} to {}", from.name(), to.name()), executor_.fabric(), next)})
      .first->second;
}

Time KvExchange::expected(const KvEnd& from, const KvEnd& to, std::uint64_t prompt_tokens) {
  std::vector<KvLoads::Piece> pieces;
  const HandoffPlan& plan = this->plan(*from, *to);
  for (std::uint32_t r = 0; r < from.ranks(); ++r)
    for (const HandoffPlan::Share& share : plan.shares(r))
      if (const Bytes bytes = plan.bytes(share, {0, prompt_tokens, prompt_tokens}); bytes > 0)
        pieces.push_back({*from.rank(r).memory, *to.rank(share.decode_rank).memory, bytes});
  return loads_->expected(pieces);
}

std::vector<JobRef> KvExchange::post(Rank& rank, Fields fields, std::uint64_t descriptors,
                                     const std::vector<JobRef>& after) {
  const Time time = posting(descriptors);
  if (time == Time()) return {};
  fields.what = kPost;
  ++part(fields.part).left;
  return {executor_.host(rank, rank.stream(Grid::kKv), time, JobLabel::of(*this, fields), *this, after)};
}

void KvExchange::follow_staging(const std::vector<Instance*>& instances) {
  for (Instance* const instance : instances) {
    std::vector<gpu::Stream*>& streams = staging_streams_.emplace_back();
    for (std::uint32_t r = 0; r < instance->grid().ranks(); ++r)
      streams.push_back(&instance->grid().rank(r).add_stream("kv_staging"));
  }
}

JobRef KvExchange::stage(const KvEnd& end, Fields fields, Bytes bytes, const std::vector<JobRef>& after) {
  ++part(fields.part).left;
  Rank& rank = end.rank(fields.rank);
  // Blocks and what came over the network are in HBM; what is sent next may be in L2.
  const auto moved = static_cast<double>(bytes);
  const bool gathers = fields.what == kGather;
  const gpu::KernelTime time =
      gpu::memory_bound_time(rank.gpu->datasheet(), gathers ? moved : 0, gathers ? moved : 2 * moved);
  return executor_.kernel(rank, *staging_streams_[end->id()][end.place(fields.rank)],
                          gpu::chain_of(time, gathers ? "kv_gather" : "kv_scatter"), JobLabel::of(*this, fields), *this,
                          after);
}

void KvExchange::fetch(const Transfer& transfer) {
  const std::uint32_t request = transfer.request;
  Prompt& prompt = prompts_[request];
  static_cast<Transfer&>(prompt) = transfer;
  prompt.is_computed = true;
  prompt.computed = prompt.moved.begun = executor_.fabric().now();
  forget();
  Part& whole = parts_.emplace_back();
  whole.request = request;
  whole.from = transfer.from;
  whole.to = transfer.to;
  whole.tokens = {transfer.begin, transfer.prompt, transfer.prompt};
  Fields fields{};
  fields.part = first_part_ + static_cast<std::uint32_t>(parts_.size()) - 1;
  const KvEnd &from = transfer.from, &to = transfer.to;
  const std::uint32_t layers = from->grid().model().layers;
  const HandoffPlan& plan = this->plan(*from, *to);
  std::vector<std::uint64_t> of_rank(to.ranks());
  for (std::uint32_t r = 0; r < from.ranks(); ++r)
    for (const HandoffPlan::Share& share : plan.shares(r))
      if (plan.bytes(share, 0, layers, whole.tokens) > 0)
        of_rank[share.decode_rank] += descriptors(whole, r, share, 0, layers);
  for (const std::uint64_t each : of_rank) prompt.moved.descriptors += each;
  const KvContacts::Handshake* handshake = nullptr;
  if (contacts_ && prompt.moved.descriptors > 0 && !contacts_->have_met(from, to)) {
    handshake = &contacts_->meet(from, to, handshakes(from, to));
    prompt.meets = true;
    client_.on_kv_meets(request);
  }
  std::vector<std::vector<JobRef>> posts(of_rank.size());
  for (std::uint32_t u = 0; u < of_rank.size(); ++u) {
    const std::vector<JobRef> met = handshake ? std::vector<JobRef>{handshake->jobs[u]} : std::vector<JobRef>();
    fields.rank = u;
    posts[u] = post(to.rank(u), fields, of_rank[u], met);
    prompt.posts += static_cast<std::uint32_t>(posts[u].size());
    if (posts[u].empty()) posts[u] = met;
  }
  whole.earliest.assign(from.ranks(), executor_.fabric().now());
  for (std::uint32_t r = 0; r < from.ranks(); ++r) {
    fields.rank = r;
    std::vector<JobRef> after;
    for (const HandoffPlan::Share& share : plan.shares(r)) {
      after.insert(after.end(), posts[share.decode_rank].begin(), posts[share.decode_rank].end());
      const std::uint32_t u = share.decode_rank;
      const Time met = handshake ? later(prompt.moved.begun, handshake->earliest[u]) : prompt.moved.begun;
      whole.earliest[r] = later(whole.earliest[r], met + posting(of_rank[u]));
    }
    emit(fields, 0, layers, after);
  }
  if (prompt.posts == 0 && !prompt.meets) on_posted(request);
  if (prompt.left > 0 || prompt.posts > 0) return;
  prompts_.erase(request);
  client_.on_kv_arrived(request);
}

void KvExchange::on_posted(std::uint32_t request) {
  Prompt& prompt = prompts_.at(request);
  prompt.moved.post = executor_.fabric().now() - prompt.moved.begun - prompt.moved.handshake;
  client_.on_kv_posted(request);
}

void KvExchange::expect(const Transfer& transfer) {
  Prompt& prompt = prompts_[transfer.request];
  static_cast<Transfer&>(prompt) = transfer;
  prompt.sent = transfer.begin;
  if (is_per_layer()) way(*prompt.from, *prompt.to).sends.opens();
  if (contacts_ && !contacts_->have_met(prompt.from, prompt.to))
    contacts_->announce(prompt.from, prompt.to, announcements(prompt.from, prompt.to));
}

void KvExchange::forget() {
  for (; !parts_.empty() && parts_.front().left == 0; ++first_part_) parts_.pop_front();
}

void KvExchange::composed(const Instance& instance, std::uint32_t pass, const ScheduledBatch& batch) {
  forget();
  for (const ScheduledBatch::Item& item : batch.items) {
    const auto found = prompts_.find(item.request);
    if (found == prompts_.end() || found->second.from.instance != &instance) continue;
    Prompt& prompt = found->second;
    Part chunk;
    chunk.request = item.request;
    chunk.from = prompt.from;
    chunk.to = prompt.to;
    chunk.chunk = prompt.chunks++;
    chunk.pass = pass;
    chunk.tokens = {prompt.sent, item.start + item.tokens, prompt.prompt};
    if (grain_ == HandoffGrain::at_end && chunk.tokens.end < prompt.prompt) continue;
    // After a preemption a chunk may compute tokens that have been sent.
    if (chunk.tokens.end <= prompt.sent) continue;
    prompt.sent = chunk.tokens.end;
    parts_.push_back(chunk);
  }
}

void KvExchange::on_attention_emitted(const Instance& instance, std::uint32_t pass, std::uint32_t stage,
                                      std::uint32_t t, std::uint32_t layer, JobRef job) {
  const Grid& grid = instance.grid();
  const std::uint32_t first = grid.first_layer(stage), last = first + grid.stage(stage).layers;
  const bool per_layer = is_per_layer();
  // The stage's last attention kernels complete its KV. MLPs and the LM head do not change KV.
  if (!per_layer && layer + 1 != last) return;
  Fields fields{};
  fields.rank = stage * grid.tp() + t % grid.tp();
  fields.per_layer = per_layer;
  fields.layer = per_layer ? layer : 0;
  const auto is_of_pass = [&](const Part& part) {
    return part.chunk != kWhole && part.pass == pass && part.from.instance == &instance;
  };
  for (std::size_t i = parts_.size(); i > 0 && is_of_pass(parts_[i - 1]); --i) {
    if (parts_[i - 1].from.replica != t / grid.tp()) continue;
    fields.part = first_part_ + static_cast<std::uint32_t>(i - 1);
    emit(fields, per_layer ? layer : first, per_layer ? layer + 1 : last, {job});
  }
}

void KvExchange::emit(Fields fields, std::uint32_t first_layer, std::uint32_t last_layer,
                      const std::vector<JobRef>& after) {
  Part& of = part(fields.part);
  std::vector<CopyTarget> transfers;
  const HandoffPlan& plan = this->plan(*of.from, *of.to);
  for (const HandoffPlan::Share& share : plan.shares(fields.rank)) {
    const Bytes bytes = plan.bytes(share, first_layer, last_layer, of.tokens);
    if (bytes > 0) transfers.push_back({*of.to.rank(share.decode_rank).memory, bytes});
  }
  if (transfers.empty()) return;  // a replica without decode ranks, or tokens that no window will contain
  Prompt& prompt = prompts_.at(of.request);
  ++of.left;
  ++prompt.left;
  Rank& rank = of.from.rank(fields.rank);
  if (!pushes()) way(*of.from, *of.to).sends.waits(of.earliest[fields.rank]);
  std::vector<JobRef> ready = after;
  if (pushes() && contacts_ && !contacts_->have_met(of.from, of.to)) {
    prompt.meets = true;
    ready.push_back(contacts_->meet(of.from, of.to, fields.rank, after, handshakes(of.from, of.to)));
  }
  const std::vector<HandoffPlan::Share> scattered = staged(of, fields.rank, first_layer, last_layer);
  if (!scattered.empty()) {
    Bytes bytes = 0;
    for (const HandoffPlan::Share& share : scattered) bytes += plan.bytes(share, first_layer, last_layer, of.tokens);
    Fields gather = fields;
    gather.what = kGather;
    ready = {stage(of.from, gather, bytes, ready)};
  }
  if (pushes()) {
    std::uint64_t posted = 0;
    for (const HandoffPlan::Share& share : plan.shares(fields.rank))
      if (plan.bytes(share, first_layer, last_layer, of.tokens) > 0)
        posted += descriptors(of, fields.rank, share, first_layer, last_layer);
    prompt.moved.descriptors += posted;
    prompt.posted.resize(of.from.ranks());
    prompt.posted[fields.rank] += Time::seconds(static_cast<double>(posted) * connector_.descriptor_us * 1e-6);
    if (const std::vector<JobRef> post = this->post(rank, fields, posted, ready); !post.empty()) ready = post;
  }
  for (const CopyTarget& transfer : transfers) prompt.moved.bytes += transfer.bytes;
  if (loads_) {
    std::vector<KvLoads::Piece> pieces;
    for (const CopyTarget& transfer : transfers) pieces.push_back({*rank.memory, transfer.destination, transfer.bytes});
    loads_->begun(JobLabel::of(*this, fields).arguments, pieces);
  }
  execution::Copy messages;
  messages.transfers = std::move(transfers);
  messages.traffic_class = number(TrafficClass::kv);
  messages.tells_waits = true;
  const JobRef copy =
      executor_.copy(rank, rank.stream(Grid::kKv), std::move(messages), JobLabel::of(*this, fields), *this, ready);
  Fields scatter = fields;
  scatter.what = kScatter;
  scatter.source = fields.rank;
  for (const HandoffPlan::Share& share : scattered) {
    scatter.rank = share.decode_rank;
    ++prompt.left;
    stage(of.to, scatter, plan.bytes(share, first_layer, last_layer, of.tokens), {copy});
  }
}

void KvExchange::computed(std::uint32_t request) {
  Prompt& prompt = prompts_.at(request);
  prompt.is_computed = true;
  prompt.computed = executor_.fabric().now();
  if (prompt.meets) client_.on_kv_meets(request);
  executor_.reached(this, request);
  check_arrived(request);
}

void KvExchange::on_job_begun(const Job& job) {
  const auto fields = job.label().as<Fields>();
  if (fields.what == kPost || fields.what == kScatter) return;
  const Part& begun = part(fields.part);
  if (fields.what == kCopy && !staged_of(fields).empty()) return;  // under way since the kernel before it
  KvSends& sends = way(*begun.from, *begun.to).sends;
  pushes() ? sends.begun() : sends.begun(begun.earliest[fields.rank]);
}

void KvExchange::on_copy_waited(const Job& job, const transport::PortCounters& port, std::uint8_t traffic_class,
                                Time time) {
  const Part& of = part(job.label().as<Fields>().part);
  if (!of.is_cancelled) prompts_.at(of.request).waits[{&port, traffic_class}] += time;
}

void KvExchange::on_job_done(const Job& job) {
  const auto fields = job.label().as<Fields>();
  Part& done = part(fields.part);
  --done.left;
  KvSends& sends = way(*done.from, *done.to).sends;
  const std::size_t scatters = fields.what == kCopy ? staged_of(fields).size() : 0;
  if (fields.what == kCopy && loads_) loads_->landed(job.label().arguments);
  // A copy is under way until the last kernel after it is done.
  for (std::size_t i = 1; i < scatters; ++i) sends.begun();
  if (fields.what == kScatter || (fields.what == kCopy && scatters == 0)) sends.arrived();
  if (done.is_cancelled) {
    if (is_per_layer() && done.left == 0) sends.closes();
    return;
  }
  Prompt& prompt = prompts_.at(done.request);
  if (fields.what == kGather) {
    if (prompt.moved.begun == Time()) prompt.moved.begun = job.begun_at();
    done.staged[fields.rank].gathered = executor_.fabric().now() - job.begun_at();
    return;
  }
  if (fields.what == kPost) {
    if (pushes()) {
      if (prompt.moved.begun == Time()) prompt.moved.begun = job.begun_at();
    } else if (--prompt.posts == 0) {
      on_posted(done.request);
    }
    return;
  }
  --prompt.left;
  KvMoved& moved = prompt.moved;
  if (moved.begun == Time()) moved.begun = job.begun_at();
  moved.landed = executor_.fabric().now();
  const Time took = moved.landed - job.begun_at();
  if (fields.what == kScatter) {
    const Part::Staged& before = done.staged[fields.source];
    moved.wire = before.wire;
    moved.alone = before.alone;
    moved.staging = before.gathered + took;
  } else {
    moved.wire = took;
    moved.alone = sooner(job.delivery().uncontended, took);
    if (scatters > 0) {
      done.staged[fields.rank].wire = moved.wire;
      done.staged[fields.rank].alone = moved.alone;
    } else {
      moved.staging = Time();
    }
    if (job.delivery().waited > moved.waited) {
      moved.waited = job.delivery().waited;
      moved.waited_at = job.delivery().waited_at;
    }
  }
  executor_.reached(this, done.request);
  check_arrived(done.request);
}

void KvExchange::cancel(std::uint32_t request) {
  const auto found = prompts_.find(request);
  if (found == prompts_.end()) return;
  KvSends& sends = way(*found->second.from, *found->second.to).sends;
  for (Part& part : parts_) {
    if (part.request != request || part.is_cancelled) continue;
    part.is_cancelled = true;
    if (is_per_layer() && part.left > 0) sends.opens();  // copies wait for kernels that run on
  }
  if (is_per_layer()) sends.closes();
  prompts_.erase(found);
}

void KvExchange::check_arrived(std::uint32_t request) {
  const Prompt& prompt = prompts_.at(request);
  if (!prompt.is_computed || prompt.left > 0) return;
  KvMoved moved = prompt.moved;
  moved.request = request;
  moved.from = prompt.from->id();
  moved.to = prompt.to->id();
  moved.from_replica = prompt.from.replica;
  moved.to_replica = prompt.to.replica;
  for (const Time time : prompt.posted) moved.post = later(moved.post, time);
  Time longest;
  for (const auto& [wait, time] : prompt.waits) {
    if (wait.first != moved.waited_at || time <= longest) continue;
    longest = time;
    moved.waited_for = static_cast<TrafficClass>(wait.second);
  }
  if (is_per_layer()) way(*prompt.from, *prompt.to).sends.closes();
  prompts_.erase(request);
  executor_.passed(this, request);
  if (moved.bytes > 0) client_.on_kv_moved(moved);
  client_.on_kv_arrived(request);
}

std::string KvExchange::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const Part& of = part(f.part);
  static constexpr const char* kNames[] = {"Handoff", "KvPost", "KvGather", "KvScatter"};
  const bool is_of_decode = f.what == kScatter || (f.what == kPost && !pushes());
  const KvEnd& end = is_of_decode ? of.to : of.from;
  std::string name = fmt::format("{}_PP[{}]_TP[{}]", kNames[f.what], end.stage(f.rank), end.in_stage(f.rank));
  if (f.what == kScatter)
    name += fmt::format("_FromPP[{}]_FromTP[{}]", of.from.stage(f.source), of.from.in_stage(f.source));
  if (of.chunk != kWhole) name += fmt::format("_Chunk[{}]", of.chunk);
  if (f.per_layer) name += fmt::format("_Layer[{}]", static_cast<std::uint32_t>(f.layer));
  if (names_requests_) name += fmt::format("_Req[{}]", of.request);
  if (!of.from->suffix().empty() || !of.to->suffix().empty())
    name += fmt::format("_FromInst[{}]_ToInst[{}]", of.from->name(), of.to->name());
  return name;
}

std::string KvExchange::task(std::uint64_t arguments) const {
  const Part& of = part(JobLabel::fields_of<Fields>(arguments).part);
  return of.chunk == kWhole ? work(arguments) : fmt::format("pass {}", of.pass);
}

std::string KvExchange::work(std::uint64_t arguments) const {
  const Part& of = part(JobLabel::fields_of<Fields>(arguments).part);
  if (of.chunk == kWhole) return fmt::format("Req[{}]", of.request);
  return Pipeline::unit(PassNames::prefill, of.chunk, names_requests_ ? of.request : Pass::kOnly);
}

Recorded KvExchange::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).per_layer ? Recorded::detail : Recorded::stage;
}

}  // namespace railyard::workload::inference
