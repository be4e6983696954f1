#include "sc_main/export_trace.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "chakra.pb.h"
#include "collective/collective.h"
#include "sc_main/output_directory.h"
#include "sc_main/scenario/execution_traces/chakra.h"
#include "sc_main/scenario/execution_traces/own_attributes.h"

namespace railyard {

using execution::Job;
using execution::JobKind;
namespace own = scenario::own;

namespace {

chakra::AttributeProto& add(chakra::Node& node, const char* name) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  return attribute;
}
void add(chakra::Node& node, const char* name, std::int64_t value) { add(node, name).set_int64_val(value); }
void add_flag(chakra::Node& node, const char* name, bool value) { add(node, name).set_bool_val(value); }
void add_numbers(chakra::Node& node, const char* name, const std::vector<std::int64_t>& values) {
  auto& list = *add(node, name).mutable_int64_list()->mutable_values();
  list.Add(values.begin(), values.end());
}

std::uint64_t micros(Time time) { return static_cast<std::uint64_t>(std::llround(time.seconds() * 1e6)); }

/// CollectiveCommType.
std::int64_t comm_type(collective::Operation operation) {
  using collective::Operation;
  switch (operation) {
    case Operation::all_reduce: return 0;
    case Operation::reduce: return 1;
    case Operation::all_gather: return 2;
    case Operation::broadcast: return 5;
    case Operation::reduce_scatter: return 7;
    case Operation::all_to_all:
    case Operation::send_recv: break;
  }
  return 6;
}

bool is_exchange(const Job& job) {
  if (job.kind() != JobKind::collective) return false;
  const collective::CollectiveSpec& spec = job.collective()->spec();
  return spec.operation == collective::Operation::send_recv && spec.one_way;
}

/// The first numbers of own::kCopy.
std::vector<std::int64_t> numbers_of(const execution::Copy& copy) {
  return {static_cast<std::int64_t>(copy.engine), static_cast<std::int64_t>(copy.queue_pair),
          static_cast<std::int64_t>(copy.start.fs()), static_cast<std::int64_t>(copy.traffic_class)};
}

void append_length(std::string& bytes, std::size_t length) {
  constexpr std::size_t kMore = 0x80;
  while (length >= kMore) {
    bytes += static_cast<char>((length & (kMore - 1)) | kMore);
    length >>= 7;
  }
  bytes += static_cast<char>(length);
}

}  // namespace

TraceExport::TraceExport(Simulation& simulation) : simulation_(simulation) {
  execution::Executor& executor = simulation.workload().executor();
  if (simulation.fold().copies > 1)
    throw InputError({"--export-et", 0, 0},
                     "a folded machine has no jobs of the other replicas; set simulation.fold: off");
  for (const execution::Rank& rank : executor.ranks()) {
    if (rank.gpu == nullptr) continue;
    const auto number = static_cast<std::uint32_t>(ranks_.size());
    ranks_[&rank] = number;
    rank_of_gpu_[*rank.memory] = number;
  }
  files_.resize(ranks_.size());
  executor.follow(*this, *this);
}

std::uint32_t TraceExport::file_of(const execution::Rank& rank) const {
  const auto found = ranks_.find(&rank);
  return found == ranks_.end() ? 0 : found->second;
}

std::string TraceExport::stream_name(const Job& job) const {
  const execution::Rank& rank = job.rank();
  std::size_t place = 0;
  while (&rank.streams[place].stream != &job.stream()) ++place;
  const std::string& name = rank.streams[place].name;
  const std::string own_name = name.empty() ? fmt::format("stream{}", place) : name;
  return rank.gpu != nullptr ? own_name : fmt::format("{}{}:{}:{}", rank.group, rank.number, place, own_name);
}

void TraceExport::add_cause(Live& live, const NodeRef& cause) {
  if (cause.file == live.node.file) {
    live.after.push_back(cause.id);
  } else {
    wait_until_now(live);
  }
}

void TraceExport::wait_until_now(Live& live) {
  const Time now = simulation_.fabric().now();
  if (now == Time()) return;
  File& file = files_[live.node.file];
  if (file.timer == 0 || file.timer_end != now) {
    chakra::Node timer;
    timer.set_id(++last_id_);
    timer.set_name("timer");
    timer.set_type(chakra::COMP_NODE);
    if (file.timer != 0) timer.add_ctrl_deps(file.timer);
    timer.set_duration_micros(micros(now) - micros(file.timer_end));
    add_flag(timer, "is_cpu_op", true);
    add(timer, own::kDuration, (now - file.timer_end).fs());
    add(timer, own::kStream).set_string_val("timer");
    append(file, timer);
    file.timer = last_id_;
    file.timer_end = now;
  }
  live.after.push_back(file.timer);
}

void TraceExport::on_emitted(const Job& job) {
  Live& live = live_[&job];
  live = {};
  live.node.file = file_of(job.rank());
  const Time now = simulation_.fabric().now();
  if (caused_at_ == now && !causes_.empty()) {
    const std::vector<NodeRef> causes = causes_;
    for (const NodeRef& cause : causes) add_cause(live, cause);
  } else {
    wait_until_now(live);
  }
  live.node.id = ++last_id_;
  // A stream runs its jobs in order. A copy leaves its stream before its end.
  std::uint64_t& before = latest_[&job.stream()];
  if (before != 0) live.after.push_back(before);
  before = job.kind() == JobKind::copy || job.kind() == JobKind::send ? 0 : live.node.id;
  if (job.kind() != JobKind::collective) return;
  Running& running = running_[job.collective()];
  const std::size_t size = job.collective()->size();
  if (running.ranks.size() != size || running.ranks[job.member()] != kNotEmitted) {  // the object's next collective
    running.ranks.assign(size, kNotEmitted);
    running.streams.assign(size, {});
    running.tag = live.node.id;
  }
  running.ranks[job.member()] = live.node.file;
  running.streams[job.member()] = stream_name(job);
}

void TraceExport::on_waited(const Job& job, const Job& done) {
  Live& live = live_[&job];
  const NodeRef cause = live_[&done].node;
  const bool meets = (job.kind() == JobKind::receive && done.kind() == JobKind::send) ||
                     (job.kind() == JobKind::send && done.kind() == JobKind::receive);
  if (meets) {
    live.send = job.kind() == JobKind::receive ? cause.id : 0;
  } else {
    add_cause(live, cause);
  }
}

void TraceExport::on_reached(const void* owner, std::uint32_t gate) {
  std::vector<NodeRef>& reached = gates_[{owner, gate}];
  reached.insert(reached.end(), causes_.begin(), causes_.end());
}

void TraceExport::on_passed(const void* owner, std::uint32_t gate) {
  // Causes on other ranks, and earlier ones, end in a timer.
  std::vector<NodeRef> reached = std::move(gates_[{owner, gate}]);
  gates_.erase({owner, gate});
  if (!reached.empty()) causes_ = std::move(reached);
}

void TraceExport::append(File& file, const chakra::Node& node) {
  const std::string bytes = node.SerializeAsString();
  append_length(file.bytes, bytes.size());
  file.bytes += bytes;
}

std::string TraceExport::group_of(const Running& running) {
  const auto [found, fresh] = groups_.try_emplace({running.ranks, running.streams});
  if (fresh) found->second = std::to_string(groups_.size() - 1);
  return found->second;
}

void TraceExport::describe_collective(chakra::Node& node, const Job& job) {
  const collective::CollectiveSpec& spec = job.collective()->spec();
  const Running& running = running_[job.collective()];
  if (is_exchange(job)) {
    const bool sends = job.member() == 0;
    node.set_type(sends ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
    add(node, "comm_src", running.ranks[0]);
    add(node, "comm_dst", running.ranks[1]);
    add(node, "comm_tag", static_cast<std::int64_t>(running.tag));
    add(node, "comm_size", static_cast<std::int64_t>(spec.bytes));
  } else {
    const Bytes input =
        spec.operation == collective::Operation::all_gather ? spec.bytes / running.ranks.size() : spec.bytes;
    node.set_type(chakra::COMM_COLL_NODE);
    add(node, "comm_type", comm_type(spec.operation));
    add(node, "comm_size", static_cast<std::int64_t>(input));
    add(node, "pg_name").set_string_val(group_of(running));
  }
  add_numbers(node, own::kCollective, own::numbers_of(spec));
}

void TraceExport::describe_copy(chakra::Node& node, const Job& job) {
  const execution::Copy& copy = job.copied();
  std::vector<std::int64_t> numbers = numbers_of(copy);
  const std::uint32_t from = live_[&job].node.file;
  std::vector<chakra::Node> others;
  for (const execution::CopyTarget& target : copy.transfers) {
    const auto to = rank_of_gpu_.find(target.destination);
    if (to == rank_of_gpu_.end() || job.rank().gpu == nullptr) {  // from or to the memory of a host
      node.set_type(to == rank_of_gpu_.end() ? chakra::MEM_STORE_NODE : chakra::MEM_LOAD_NODE);
      add(node, "tensor_size", static_cast<std::int64_t>(target.bytes));
      continue;
    }
    numbers.push_back(to->second);
    numbers.push_back(static_cast<std::int64_t>(target.bytes));
    const std::int64_t tag = static_cast<std::int64_t>(++last_id_);
    const bool is_first = node.type() != chakra::COMM_SEND_NODE;
    chakra::Node another;
    chakra::Node& send = is_first ? node : another;
    send.set_type(chakra::COMM_SEND_NODE);
    chakra::Node receive;
    receive.set_id(++last_id_);
    receive.set_type(chakra::COMM_RECV_NODE);
    receive.set_name(node.name());
    if (!is_first) {
      another.set_id(++last_id_);
      another.set_name(node.name());
      *another.mutable_ctrl_deps() = node.ctrl_deps();
      add_flag(another, own::kSkip, true);
    }
    add_flag(receive, own::kSkip, true);
    for (chakra::Node* side : {&send, &receive}) {
      add(*side, "comm_src", from);
      add(*side, "comm_dst", to->second);
      add(*side, "comm_tag", tag);
      add(*side, "comm_size", static_cast<std::int64_t>(target.bytes));
    }
    append(files_[to->second], receive);
    if (!is_first) append(files_[from], another);
  }
  add_numbers(node, own::kCopy, numbers);
}

void TraceExport::on_done(const Job& job) {
  Live& live = live_[&job];
  const Time now = simulation_.fabric().now(), took = now - job.begun_at();
  chakra::Node node;
  node.set_id(live.node.id);
  node.set_name(job.name());
  node.set_type(chakra::COMP_NODE);
  std::sort(live.after.begin(), live.after.end());
  live.after.erase(std::unique(live.after.begin(), live.after.end()), live.after.end());
  for (const std::uint64_t on : live.after) node.add_ctrl_deps(on);
  node.set_start_time_micros(micros(job.begun_at()));
  node.set_duration_micros(micros(took));
  add(node, own::kStream).set_string_val(stream_name(job));
  if (job.stream().comm_priority() == gpu::CommPriority::normal) add_flag(node, own::kNormalPriority, true);
  switch (job.kind()) {
    case JobKind::kernel: {
      const gpu::KernelChain& chain = *job.kernels();
      double flops = 0, bytes = 0;
      for (const gpu::KernelTime& kernel : chain.kernels) {
        flops += kernel.flops;
        bytes += kernel.bytes;
      }
      add_flag(node, "is_cpu_op", false);
      add(node, "num_ops", static_cast<std::int64_t>(flops));
      add(node, "tensor_size", static_cast<std::int64_t>(bytes));
      const std::vector<double> numbers = own::numbers_of(chain);
      add(node, own::kKernels).mutable_double_list()->mutable_values()->Add(numbers.begin(), numbers.end());
      break;
    }
    case JobKind::collective: describe_collective(node, job); break;
    case JobKind::copy: describe_copy(node, job); break;
    case JobKind::send:
    case JobKind::receive: {
      const bool sends = job.kind() == JobKind::send;
      node.set_type(sends ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
      add(node, "comm_tag", static_cast<std::int64_t>(sends ? live.node.id : live.send));
      add(node, "comm_size", static_cast<std::int64_t>(job.bytes()));
      if (sends) add(node, "comm_dst", rank_of_gpu_.at(job.copied().transfers.front().destination));
      if (!sends) add(node, "comm_src", static_cast<std::int64_t>(senders_.at(live.send)));
      if (sends) senders_[live.node.id] = live.node.file;
      add_numbers(node, own::kCopy, numbers_of(job.copied()));
      break;
    }
    case JobKind::host:
    case JobKind::delay:
    case JobKind::quiet:
      add_flag(node, "is_cpu_op", job.kind() == JobKind::host || job.rank().gpu == nullptr);
      add(node, own::kDuration, took.fs());
      break;
  }
  append(files_[live.node.file], node);
  causes_ = {live.node};
  caused_at_ = now;
}

void TraceExport::write(const std::string& prefix) const {
  chakra::GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  chakra::AttributeProto& form = *metadata.add_attr();
  form.set_name(own::kForm);
  form.set_int64_val(own::kCurrentForm);
  chakra::AttributeProto& together = *metadata.add_attr();
  together.set_name(own::kTogether);
  together.set_bool_val(simulation_.workload().executor().begin_together());
  std::string head;
  const std::string bytes = metadata.SerializeAsString();
  append_length(head, bytes.size());
  head += bytes;
  OutputFiles out;
  for (std::uint32_t rank = 0; rank < files_.size(); ++rank)
    out.write(scenario::chakra_file(prefix, rank), head + files_[rank].bytes);
  nlohmann::json groups = nlohmann::json::object();
  for (const auto& [ranks, name] : groups_) groups[name] = ranks.first;
  out.write(prefix + ".groups.json", groups.dump(1) + "\n");
  out.commit();
}

}  // namespace railyard
