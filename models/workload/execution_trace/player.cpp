#include "workload/execution_trace/player.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>
#include <tuple>

#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_chain.h"

namespace railyard::workload::execution_trace {

namespace {

collective::CollectiveRequest request_of(TrafficClass traffic_class) {
  collective::CollectiveRequest request;
  request.traffic_class = number(traffic_class);
  return request;
}

}  // namespace

std::size_t TracePlayer::most_senders(const Trace& trace) {
  std::size_t most = 0;
  for (const Program& program : trace.programs)
    for (const TraceNode& n : program.nodes)
      if (n.kind == NodeKind::receive && !n.spec && !n.engine) most = std::max<std::size_t>(most, n.peer + 1);
  return most;
}

std::vector<std::string> TracePlayer::streams(const Trace& trace) {
  std::vector<std::string> names{"compute", "host", "send", "receive", "store"};
  std::size_t groups = 0;
  for (const RankTrace& rank : trace.ranks) groups = std::max(groups, rank.groups.size());
  for (std::size_t g = 0; g < groups; ++g) names.push_back(fmt::format("comm{}", g));
  for (std::size_t p = 0; p < most_senders(trace); ++p) names.push_back(fmt::format("receive{}", p));
  // An exported stream with the name of one of these is this stream.
  for (const ExportedStream& stream : trace.streams)
    if (std::find(names.begin(), names.end(), stream.name) == names.end()) names.push_back(stream.name);
  return names;
}

std::size_t TracePlayer::stream_of(const TraceNode& node, std::size_t usual) const {
  return node.stream == 0 ? usual : exported_streams_[node.stream - 1];
}

std::uint64_t TracePlayer::jobs_of(const Order& order) {
  std::uint64_t jobs = 0;
  for (const Emission& e : order.emissions)
    jobs += e.meeting == Emission::kAlone ? 1 : order.meetings[e.meeting].ranks.size();
  return jobs;
}

TracePlayer::TracePlayer(const TraceSpec& spec, std::vector<Rank*> ranks, std::vector<Rank*> hosts,
                         std::vector<gpu::Stream*> loads, Executor& executor)
    : spec_(spec),
      ranks_(std::move(ranks)),
      hosts_(std::move(hosts)),
      loads_(std::move(loads)),
      executor_(executor),
      communicators_(spec.trace->groups.size()),
      results_(ranks_.size()),
      jobs_(jobs_of(*spec.order)) {
  const Trace& trace = *spec_.trace;
  const std::vector<std::string> names = streams(trace);
  receive_streams_ = static_cast<std::size_t>(std::find(names.begin(), names.end(), "receive0") - names.begin());
  for (const ExportedStream& stream : trace.streams) {
    exported_streams_.push_back(
        static_cast<std::size_t>(std::find(names.begin(), names.end(), stream.name) - names.begin()));
    for (Rank* rank : ranks_) rank->stream(exported_streams_.back()).set_comm_priority(stream.comm_priority);
  }
  for (const Meeting& meeting : spec_.order->meetings) {
    if (meeting.is_exchange) pair(meeting);
    if (meeting.is_exchange || communicators_[meeting.group]) continue;
    const CommGroup& group = trace.groups[meeting.group];
    std::vector<Rank*> members;
    std::vector<std::uint64_t> windows;
    std::vector<std::size_t> streams;
    for (std::size_t m = 0; m < group.ranks.size(); ++m) {
      const std::uint32_t rank = group.ranks[m];
      const std::vector<std::uint32_t>& groups = trace.ranks[rank].groups;
      const auto slot = std::find(groups.begin(), groups.end(), meeting.group) - groups.begin();
      members.push_back(ranks_[rank]);
      windows.push_back(*ranks_[rank]->memory);
      streams.push_back(stream_of(node(rank, meeting.nodes[m]), kGroups + static_cast<std::size_t>(slot)));
    }
    collective::CollectiveRequest request = request_of(group.traffic_class);
    request.queue_pair_set =  // each group is a communicator, also one with the members of another group
        executor_.fabric().queue_pair_set(request.traffic_class, std::move(windows), meeting.group + 1);
    communicators_[meeting.group] = std::make_unique<Communicator>(members, streams, request, executor_.fabric());
  }
}

std::vector<collective::OtherTraffic> TracePlayer::other_traffic() const {
  std::set<std::tuple<transport::Window, transport::Window, std::uint8_t>> found;
  for (const Meeting& meeting : spec_.order->meetings)
    if (meeting.is_exchange)
      found.emplace(*ranks_[meeting.ranks[0]]->memory, *ranks_[meeting.ranks[1]]->memory, class_of(meeting));
  for (const Emission& e : spec_.order->emissions) {
    if (e.meeting != Emission::kAlone) continue;
    const transport::Window gpu = *ranks_[e.rank]->memory, host = *hosts_[e.rank]->memory;
    const TraceNode& n = node(e.rank, e.node);
    const std::uint8_t traffic_class = n.engine ? n.engine->traffic_class : number(TrafficClass::pp);
    if (n.kind == NodeKind::load) found.emplace(host, gpu, traffic_class);
    if (n.kind == NodeKind::store) found.emplace(gpu, host, traffic_class);
    for (const auto& [rank, bytes] : n.messages) found.emplace(gpu, *ranks_[rank]->memory, traffic_class);
  }
  std::vector<collective::OtherTraffic> others;
  for (const auto& [source, destination, traffic_class] : found) others.push_back({source, destination, traffic_class});
  return others;
}

void TracePlayer::start() {
  std::vector<Communicator*> communicators;
  for (const auto& communicator : communicators_)
    if (communicator) communicators.push_back(communicator.get());
  Communicator::allow_reuse(communicators, other_traffic(), executor_.fabric());
  if (spec_.trace->members_begin_together) executor_.members_begin_together();
  executor_.measure(kMetric, 0);
  refs_.resize(ranks_.size());
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) refs_[rank].resize(spec_.trace->nodes(rank).size());
  for (const Emission& e : spec_.order->emissions) {
    if (e.meeting == Emission::kAlone) {
      emit_alone(e.rank, e.node);
    } else if (spec_.order->meetings[e.meeting].is_exchange) {
      emit_exchange(e.meeting);
    } else {
      emit_collective(e.meeting);
    }
  }
  refs_.clear();
}

std::vector<JobRef> TracePlayer::after(std::uint32_t rank, std::uint32_t index) const {
  std::vector<JobRef> jobs;
  for (const std::uint32_t on : node(rank, index).after) {
    jobs.push_back(refs_[rank][on]);
    const TraceNode& other = node(rank, on);
    if (other.kind != NodeKind::receive || !spec_.order->is_eager(other)) continue;
    // Its job is the arrival of the bytes, and does not wait for the nodes before the receive.
    const std::vector<JobRef> more = after(rank, on);
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  return jobs;
}

gpu::SharedChain TracePlayer::roofline(std::uint32_t rank, const TraceNode& node) const {
  const gpu::GpuDatasheet& gpu = ranks_[rank]->gpu->datasheet();
  gpu::KernelTime time;
  time.flops = node.flops;
  time.bytes = node.hbm_bytes;
  time.sms = gpu.sm.count;
  time.ctas = gpu.sm.count;
  time.waves = 1;
  const double flop_per_s_of_sm = gpu.sm.flop_per_clock[static_cast<std::size_t>(spec_.dtype)] * gpu.sm.clock_mhz * 1e6;
  time.sm_seconds = node.flops / flop_per_s_of_sm;
  time.hbm_seconds = node.hbm_bytes / (gpu.hbm.gb_per_s * 1e9);
  const double tensor_seconds = time.sm_seconds / gpu.sm.count;
  time.seconds = std::max(tensor_seconds, time.hbm_seconds);
  time.limit = time.hbm_seconds > tensor_seconds ? gpu::KernelLimit::hbm : gpu::KernelLimit::tensor;
  return gpu::chain_of(time);
}

execution::Copy TracePlayer::copy_of(const TraceNode& node, std::uint32_t rank) const {
  execution::Copy copy;
  copy.traffic_class = number(TrafficClass::pp);
  copy.start = Time::seconds(ranks_[rank]->gpu->datasheet().copy.engine_us * 1e-6);
  if (node.engine) {
    copy.traffic_class = node.engine->traffic_class;
    copy.engine = node.engine->engine;
    copy.queue_pair = node.engine->queue_pair;
    copy.start = node.engine->start;
  }
  return copy;
}

void TracePlayer::emit_alone(std::uint32_t rank, std::uint32_t index) {
  const TraceNode& n = node(rank, index);
  Rank& owner = *ranks_[rank];
  const JobLabel label = JobLabel::of(*this, Fields{rank, index});
  const std::vector<JobRef> jobs = after(rank, index);
  const auto stream = [&](std::size_t usual) -> gpu::Stream& { return owner.stream(stream_of(n, usual)); };
  const auto copied = [&](Rank& from, gpu::Stream& in, std::vector<execution::CopyTarget> targets) {
    execution::Copy copy = copy_of(n, rank);
    copy.transfers = std::move(targets);
    return executor_.copy(from, in, std::move(copy), label, *this, jobs);
  };
  JobRef& ref = refs_[rank][index];
  switch (n.kind) {
    case NodeKind::compute:
      if (n.kernels || n.by_roofline) {
        ref = executor_.kernel(owner, stream(kCompute), n.kernels ? n.kernels : roofline(rank, n), label, *this, jobs);
      } else {
        ref = executor_.delay(owner, stream(kCompute), n.duration, label, *this, jobs);
      }
      break;
    case NodeKind::host: ref = executor_.host(owner, stream(kHost), n.duration, label, *this, jobs); break;
    case NodeKind::load: ref = copied(*hosts_[rank], *loads_[rank], {{*owner.memory, n.bytes}}); break;
    case NodeKind::store: ref = copied(owner, stream(kStore), {{*hosts_[rank]->memory, n.bytes}}); break;
    case NodeKind::copy: {
      std::vector<execution::CopyTarget> targets;
      for (const auto& [to, bytes] : n.messages) targets.push_back({*ranks_[to]->memory, bytes});
      ref = copied(owner, stream(kSend), std::move(targets));
      break;
    }
    default: break;  // the others meet, or take no time
  }
}

void TracePlayer::emit_collective(std::uint32_t number) {
  const Meeting& meeting = spec_.order->meetings[number];
  Communicator& communicator = *communicators_[meeting.group];
  const TraceNode& first = node(meeting.ranks[0], meeting.nodes[0]);
  emit_together(number, communicator, first.spec ? *first.spec : communicator.choose(first.operation, first.bytes));
}

void TracePlayer::emit_together(std::uint32_t number, Communicator& communicator,
                                const collective::CollectiveSpec& spec) {
  const Meeting& meeting = spec_.order->meetings[number];
  const std::size_t members = meeting.ranks.size();
  std::vector<JobRef> jobs, waits;
  for (std::size_t m = 0; m < members; ++m) {
    const std::vector<JobRef> mine = after(meeting.ranks[m], meeting.nodes[m]);
    if (waits.size() < mine.size() * members) waits.resize(mine.size() * members);
    for (std::size_t i = 0; i < mine.size(); ++i) waits[i * members + m] = mine[i];
  }
  executor_.collective(communicator, spec, JobLabel::of(*this, Fields{kIsMeeting | number, 0}), *this, jobs, waits);
  for (std::size_t m = 0; m < members; ++m) refs_[meeting.ranks[m]][meeting.nodes[m]] = jobs[m];
}

std::uint8_t TracePlayer::class_of(const Meeting& exchange) const {
  const TraceNode& n = node(exchange.ranks[0], exchange.nodes[0]);
  if (n.engine) return n.engine->traffic_class;
  return n.spec ? n.spec->traffic_class : number(TrafficClass::pp);
}

Communicator& TracePlayer::pair(const Meeting& exchange) {
  const std::uint32_t from = exchange.ranks[0], to = exchange.ranks[1];
  const TraceNode& receive = node(to, exchange.nodes[1]);
  const std::size_t usual = exchange.is_eager ? receive_streams_ + receive.peer : std::size_t{kReceive};
  const std::vector<std::size_t> streams{stream_of(node(from, exchange.nodes[0]), kSend), stream_of(receive, usual)};
  const std::uint8_t traffic_class = class_of(exchange);
  std::unique_ptr<Communicator>& pair = pairs_[{from, to, streams[0], streams[1], traffic_class}];
  if (!pair) {
    collective::CollectiveRequest request;
    request.traffic_class = traffic_class;
    pair = std::make_unique<Communicator>(std::vector<Rank*>{ranks_[from], ranks_[to]}, streams, request,
                                          executor_.fabric());
  }
  return *pair;
}

void TracePlayer::emit_exchange(std::uint32_t number) {
  const Meeting& meeting = spec_.order->meetings[number];
  const std::uint32_t from = meeting.ranks[0], to = meeting.ranks[1];
  Communicator& communicator = pair(meeting);
  const TraceNode& n = node(from, meeting.nodes[0]);
  if (n.spec) {
    emit_together(number, communicator, *n.spec);
    return;
  }
  execution::Exchange exchange;
  exchange.to = 1;
  exchange.bytes = n.bytes;
  if (n.engine) exchange.engine = n.engine->engine;
  const std::vector<JobRef> sends_after = after(from, meeting.nodes[0]);
  refs_[from][meeting.nodes[0]] =
      executor_.send(communicator, exchange, JobLabel::of(*this, Fields{kIsMeeting | number, 0}), *this, sends_after);
  refs_[to][meeting.nodes[1]] =
      executor_.receive(communicator, exchange, JobLabel::of(*this, Fields{kIsMeeting | number, 1}), *this,
                        meeting.is_eager ? sends_after : after(to, meeting.nodes[1]));
}

std::pair<std::uint32_t, std::uint32_t> TracePlayer::place_of(const Fields& fields) const {
  if ((fields.place & kIsMeeting) == 0) return {fields.place, fields.index};
  const Meeting& meeting = spec_.order->meetings[fields.place & ~kIsMeeting];
  return {meeting.ranks[fields.index], meeting.nodes[fields.index]};
}

void TracePlayer::on_job_done(const Job& job) {
  const auto [rank, index] = place_of(job.label().as<Fields>());
  RankResult& result = results_[rank];
  end_ = result.end = executor_.fabric().now();
  if (node(rank, index).kind == NodeKind::compute) result.compute += end_ - job.begun_at();
  ++result.nodes;
  if (++finished_ == jobs_) executor_.measured(kMetric, 0);
}

std::string TracePlayer::name(std::uint64_t arguments) const {
  const auto fields = JobLabel::fields_of<Fields>(arguments);
  const auto [rank, index] = place_of(fields);
  const TraceNode& n = node(rank, index);
  if (n.kind == NodeKind::collective)
    return fmt::format("{}_Node[{}]_Group[{}]", n.name, n.id,
                       spec_.trace->groups[spec_.trace->ranks[rank].groups[n.group]].name);
  return fmt::format("{}_Node[{}]_Rank[{}]", n.name, n.id, rank);
}

std::string TracePlayer::task(std::uint64_t arguments) const {
  const auto [rank, index] = place_of(JobLabel::fields_of<Fields>(arguments));
  return node(rank, index).name;
}

const char* TracePlayer::kind(std::uint64_t arguments) const {
  const auto [rank, index] = place_of(JobLabel::fields_of<Fields>(arguments));
  const TraceNode& n = node(rank, index);
  switch (n.kind) {
    case NodeKind::compute: return "compute";
    case NodeKind::collective:
      return railyard::name(spec_.trace->groups[spec_.trace->ranks[rank].groups[n.group]].traffic_class);
    case NodeKind::send:
    case NodeKind::receive: return railyard::name(TrafficClass::pp);
    case NodeKind::copy:
    case NodeKind::load:
    case NodeKind::store: return railyard::name(TrafficClass::pp);
    default: return "host";
  }
}

std::uint64_t TracePlayer::of_member(std::uint64_t arguments, std::uint32_t member) const {
  auto fields = JobLabel::fields_of<Fields>(arguments);
  if ((fields.place & kIsMeeting) != 0) fields.index = member;
  return JobLabel::of(*this, fields).arguments;
}

}  // namespace railyard::workload::execution_trace
