#include "sc_main/scenario/execution_traces/chakra_rank.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "base/input_error.h"
#include "chakra.pb.h"
#include "sc_main/scenario/execution_traces/own_attributes.h"
#include "sc_main/scenario/table/words.h"
#include "workload/execution_trace/order.h"

namespace railyard::scenario {

using workload::execution_trace::NodeKind;
using workload::execution_trace::Program;
using workload::execution_trace::RankTrace;
using workload::execution_trace::text_of;
using workload::execution_trace::Trace;
using workload::execution_trace::TraceNode;

namespace {

constexpr std::uint64_t kMostBytes = 1ull << 50;
constexpr std::uint32_t kMostRanks = 1u << 20;

/// By value of CollectiveCommType.
constexpr std::array<const char*, 10> kCommTypes{
    "ALL_REDUCE", "REDUCE",         "ALL_GATHER",           "GATHER", "SCATTER", "BROADCAST",
    "ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"};

/// Attributes of a node by name.
class Attributes {
 public:
  explicit Attributes(const chakra::Node& node) {
    for (const chakra::AttributeProto& a : node.attr()) by_name_[a.name()] = &a;
  }
  const chakra::AttributeProto* find(const char* name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string, const chakra::AttributeProto*> by_name_;
};

class RankFile {
 public:
  RankFile(std::string path, std::uint32_t rank, Trace& trace, const std::map<std::string, std::uint32_t>& groups)
      : path_(std::move(path)), rank_(rank), trace_(trace), group_names_(groups) {}

  void read();

 private:
  void read_metadata(const chakra::GlobalMetadata& metadata);
  InputError error(const std::string& what) const { return InputError({path_, 0, 0}, what); }
  InputError error(const TraceNode& node, const std::string& what) const { return error(text_of(node) + ": " + what); }

  TraceNode converted(const chakra::Node& raw);
  void set_compute(TraceNode& node, const chakra::Node& raw, const Attributes& attributes);
  void set_collective(TraceNode& node, const Attributes& attributes);
  void set_exchange(TraceNode& node, const Attributes& attributes);
  std::uint64_t whole(const TraceNode& node, const Attributes& attributes, const char* name, std::uint64_t most) const;
  std::uint64_t whole_or(std::uint64_t fallback, const TraceNode& node, const Attributes& attributes, const char* name,
                         std::uint64_t most) const {
    return attributes.find(name) == nullptr ? fallback : whole(node, attributes, name, most);
  }
  std::uint32_t group_slot(const TraceNode& node, const Attributes& attributes);
  /// What Railyard wrote itself (own_attributes.h).
  void set_own(TraceNode& node, const Attributes& attributes);
  void set_own_copy(TraceNode& node, const chakra::Int64List& numbers);
  void connect(std::vector<std::vector<std::uint64_t>> depends);

  std::string path_;
  std::uint32_t rank_;
  Trace& trace_;
  const std::map<std::string, std::uint32_t>& group_names_;
  Program program_;
  RankTrace mine_;
};

std::uint64_t RankFile::whole(const TraceNode& node, const Attributes& attributes, const char* name,
                              std::uint64_t most) const {
  using Value = chakra::AttributeProto;
  const Value* const a = attributes.find(name);
  if (a == nullptr) throw error(node, fmt::format("needs the attribute {}", name));
  double value = 0;
  std::uint64_t result = 0;
  const auto take = [&](auto number) {
    value = static_cast<double>(number);
    result = static_cast<std::uint64_t>(number);
  };
  switch (a->value_case()) {
    case Value::kDoubleVal: value = a->double_val(); break;
    case Value::kFloatVal: value = a->float_val(); break;
    case Value::kInt32Val: take(a->int32_val()); break;
    case Value::kInt64Val: take(a->int64_val()); break;
    case Value::kUint32Val: take(a->uint32_val()); break;
    case Value::kUint64Val: take(a->uint64_val()); break;
    case Value::kSint32Val: take(a->sint32_val()); break;
    case Value::kSint64Val: take(a->sint64_val()); break;
    case Value::kFixed32Val: take(a->fixed32_val()); break;
    case Value::kFixed64Val: take(a->fixed64_val()); break;
    case Value::kSfixed32Val: take(a->sfixed32_val()); break;
    case Value::kSfixed64Val: take(a->sfixed64_val()); break;
    default: throw error(node, fmt::format("the attribute {} is not a number", name));
  }
  if (!(value >= 0 && value <= static_cast<double>(most)))
    throw error(node, fmt::format("the attribute {} is {}; accepted: 0 to {}", name, value, most));
  const bool is_real = a->value_case() == Value::kDoubleVal || a->value_case() == Value::kFloatVal;
  return is_real ? static_cast<std::uint64_t>(value) : std::min(result, most);
}

std::uint32_t RankFile::group_slot(const TraceNode& node, const Attributes& attributes) {
  std::uint32_t group = 0;  // all ranks
  if (const chakra::AttributeProto* pg = attributes.find("pg_name"); pg != nullptr && !pg->string_val().empty()) {
    const auto found = group_names_.find(pg->string_val());
    if (found == group_names_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, index] : group_names_) names.push_back(name);
      throw error(node, fmt::format("pg_name '{}' is not in the file of groups{}", pg->string_val(),
                                    names.empty() ? "; set workload.groups" : suggestion(pg->string_val(), names)));
    }
    group = found->second;
  } else if (const chakra::AttributeProto* dims = attributes.find("involved_dim"); dims != nullptr) {
    const auto& values = dims->bool_list().values();
    if (std::find(values.begin(), values.end(), false) != values.end())
      throw error(node, "involved_dim names some dimensions of a network; accepted: all of them, or pg_name");
  }
  const auto slot = std::find(mine_.groups.begin(), mine_.groups.end(), group);
  if (slot != mine_.groups.end()) return static_cast<std::uint32_t>(slot - mine_.groups.begin());
  const std::vector<std::uint32_t>& ranks = trace_.groups[group].ranks;
  if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end())
    throw error(node, fmt::format("rank {} is not in group {}", rank_, trace_.groups[group].name));
  mine_.groups.push_back(group);
  return static_cast<std::uint32_t>(mine_.groups.size() - 1);
}

void RankFile::set_compute(TraceNode& node, const chakra::Node& raw, const Attributes& attributes) {
  const chakra::AttributeProto* const cpu = attributes.find("is_cpu_op");
  node.kind = cpu != nullptr && cpu->bool_val() ? NodeKind::host : NodeKind::compute;
  constexpr double kLongestMicros = 1.8e10;  // 5 hours, the limit of a run
  constexpr std::uint64_t kMostOps = 1ull << 62;
  if (static_cast<double>(raw.duration_micros()) > kLongestMicros)
    throw error(
        node, fmt::format("duration_micros is {}; accepted: up to 5 hours, the limit of a run", raw.duration_micros()));
  node.duration = Time::nanoseconds(1e3 * static_cast<double>(raw.duration_micros()));
  if (raw.duration_micros() != 0 || node.kind == NodeKind::host) return;
  node.flops = static_cast<double>(whole_or(0, node, attributes, "num_ops", kMostOps));
  node.hbm_bytes = static_cast<double>(whole_or(0, node, attributes, "tensor_size", kMostBytes));
  node.by_roofline = node.flops > 0 || node.hbm_bytes > 0;
}

void RankFile::set_collective(TraceNode& node, const Attributes& attributes) {
  using collective::Operation;
  const std::uint64_t type = whole(node, attributes, "comm_type", std::numeric_limits<std::int32_t>::max());
  if (type >= kCommTypes.size()) throw error(node, fmt::format("comm_type {} is unknown; accepted: 0 to 9", type));
  node.group = group_slot(node, attributes);
  const std::uint64_t ranks = trace_.groups[mine_.groups[node.group]].ranks.size();
  const bool is_barrier = type == 9;
  const std::uint64_t size = is_barrier ? whole_or(0, node, attributes, "comm_size", kMostBytes / ranks)
                                        : whole(node, attributes, "comm_size", kMostBytes / ranks);
  node.bytes = size;
  switch (type) {
    case 0: node.operation = Operation::all_reduce; break;
    case 1: node.operation = Operation::reduce; break;
    case 2:
      node.operation = Operation::all_gather;
      node.bytes = size * ranks;
      break;
    case 5: node.operation = Operation::broadcast; break;
    case 6: node.operation = Operation::all_to_all; break;
    case 7:
    case 8: node.operation = Operation::reduce_scatter; break;
    case 9:  // PyTorch's barrier is an all-reduce of one number
      node.operation = Operation::all_reduce;
      node.bytes = std::max<std::uint64_t>(size, 4);
      break;
    default:
      throw error(node,
                  fmt::format("{} is not modelled; accepted: ALL_REDUCE, REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, "
                              "REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, BARRIER",
                              kCommTypes[type]));
  }
  if (ranks == 1 || node.bytes == 0) node.kind = NodeKind::none;  // moves nothing
}

void RankFile::set_exchange(TraceNode& node, const Attributes& attributes) {
  const bool sends = node.kind == NodeKind::send;
  const std::uint64_t ranks = trace_.ranks.size();
  const std::uint64_t own = whole_or(rank_, node, attributes, sends ? "comm_src" : "comm_dst", kMostRanks);
  const char* const other = sends ? "comm_dst" : "comm_src";
  const std::uint64_t peer = whole(node, attributes, other, kMostRanks);
  if (own != rank_)
    throw error(node,
                fmt::format("{} is {}, but the file is that of rank {}", sends ? "comm_src" : "comm_dst", own, rank_));
  const bool is_copy = attributes.find(own::kCopy) != nullptr || attributes.find(own::kSkip) != nullptr;
  if (peer >= ranks || (peer == rank_ && !is_copy))
    throw error(node, fmt::format("{} is {}; accepted: another rank, 0 to {}", other, peer, ranks - 1));
  node.bytes = whole(node, attributes, "comm_size", kMostBytes);
  node.tag = whole_or(0, node, attributes, "comm_tag", std::numeric_limits<std::int64_t>::max());
  const auto found = std::find(mine_.peers.begin(), mine_.peers.end(), peer);
  node.peer = static_cast<std::uint32_t>(found - mine_.peers.begin());
  if (found == mine_.peers.end()) mine_.peers.push_back(static_cast<std::uint32_t>(peer));
}

TraceNode RankFile::converted(const chakra::Node& raw) {
  TraceNode node;
  node.id = raw.id();
  node.name = workload::execution_trace::plain_name(raw.name());
  const Attributes attributes(raw);
  switch (raw.type()) {
    case chakra::METADATA_NODE: node.kind = NodeKind::none; break;
    case chakra::COMP_NODE: set_compute(node, raw, attributes); break;
    case chakra::COMM_COLL_NODE:
      node.kind = NodeKind::collective;
      set_collective(node, attributes);
      break;
    case chakra::COMM_SEND_NODE:
    case chakra::COMM_RECV_NODE:
      node.kind = raw.type() == chakra::COMM_SEND_NODE ? NodeKind::send : NodeKind::receive;
      set_exchange(node, attributes);
      break;
    case chakra::MEM_LOAD_NODE:
    case chakra::MEM_STORE_NODE:
      node.kind = raw.type() == chakra::MEM_LOAD_NODE ? NodeKind::load : NodeKind::store;
      node.bytes = whole(node, attributes, "tensor_size", kMostBytes);
      if (node.bytes == 0) node.kind = NodeKind::none;
      break;
    default:
      throw error(node, fmt::format("its type is {}; accepted: 1 to 7, from METADATA_NODE to COMM_COLL_NODE",
                                    static_cast<int>(raw.type())));
  }
  set_own(node, attributes);
  return node;
}

void RankFile::set_own(TraceNode& node, const Attributes& attributes) {
  if (const auto* name = attributes.find(own::kStream)) {
    std::vector<workload::execution_trace::ExportedStream>& streams = trace_.streams;
    const std::string stream = workload::execution_trace::plain_name(name->string_val());
    const auto found =
        std::find_if(streams.begin(), streams.end(), [&](const auto& known) { return known.name == stream; });
    node.stream = static_cast<std::uint32_t>(found - streams.begin()) + 1;
    if (found == streams.end())
      streams.push_back({stream, attributes.find(own::kNormalPriority) != nullptr ? gpu::CommPriority::normal
                                                                                  : gpu::CommPriority::high});
  }
  if (attributes.find(own::kDuration) != nullptr && (node.kind == NodeKind::compute || node.kind == NodeKind::host)) {
    node.duration = Time::fs(whole(node, attributes, own::kDuration, std::numeric_limits<std::int64_t>::max()));
    node.by_roofline = false;
  }
  if (const auto* numbers = attributes.find(own::kKernels); numbers != nullptr && node.kind == NodeKind::compute) {
    const auto& values = numbers->double_list().values();
    const auto chain = own::chain_of({values.begin(), values.end()});
    if (!chain) throw error(node, fmt::format("the attribute {} holds no kernels", own::kKernels));
    node.kernels = std::make_shared<gpu::KernelChain>(*chain);
  }
  if (const auto* numbers = attributes.find(own::kCollective)) {
    const auto& values = numbers->int64_list().values();
    node.spec = own::spec_of({values.begin(), values.end()});
    const bool is_exchange = node.kind == NodeKind::send || node.kind == NodeKind::receive;
    if (!node.spec ||
        (is_exchange && !(node.spec->operation == collective::Operation::send_recv && node.spec->one_way)))
      throw error(node, fmt::format("the attribute {} holds no collective", own::kCollective));
    if (const collective::Shares& shares = node.spec->shares; !shares.is_even()) {
      const bool is_all_to_all =
          node.kind == NodeKind::collective && node.operation == collective::Operation::all_to_all;
      const std::size_t ranks = is_all_to_all ? trace_.groups[mine_.groups[node.group]].ranks.size() : 0;
      if (shares.of->size() != ranks)
        throw error(node, fmt::format("the attribute {} has shares of {} ranks, not of {}", own::kCollective,
                                      shares.of->size(), ranks));
    }
    node.bytes = node.spec->bytes;
    node.operation = node.spec->operation;
  }
  if (const auto* numbers = attributes.find(own::kCopy)) set_own_copy(node, numbers->int64_list());
  if (const auto* skip = attributes.find(own::kSkip); skip != nullptr && skip->bool_val()) node.kind = NodeKind::none;
}

void RankFile::set_own_copy(TraceNode& node, const chakra::Int64List& numbers) {
  const auto& values = numbers.values();
  constexpr int kHead = 4;
  const auto within = [&](int i, std::int64_t most) { return values[i] >= 0 && values[i] <= most; };
  const std::int64_t ranks = static_cast<std::int64_t>(trace_.ranks.size());
  bool is_right = values.size() >= kHead && values.size() % 2 == 0 && within(0, 1) && within(1, 1 << 30) &&
                  within(2, std::numeric_limits<std::int64_t>::max()) &&
                  within(3, static_cast<std::int64_t>(kTrafficClasses.size()) - 1);
  for (int i = kHead; is_right && i < values.size(); i += 2)
    is_right = within(i, ranks - 1) && within(i + 1, static_cast<std::int64_t>(kMostBytes));
  if (!is_right) throw error(node, fmt::format("the attribute {} holds no copy", own::kCopy));
  node.engine = workload::execution_trace::CopyEngine{static_cast<transport::Engine>(values[0]),
                                                      static_cast<std::uint32_t>(values[1]), Time::fs(values[2]),
                                                      static_cast<std::uint8_t>(values[3])};
  for (int i = kHead; i < values.size(); i += 2)
    node.messages.push_back({static_cast<std::uint32_t>(values[i]), static_cast<Bytes>(values[i + 1])});
  if (!node.messages.empty()) node.kind = NodeKind::copy;
}

void RankFile::read_metadata(const chakra::GlobalMetadata& metadata) {
  std::optional<std::int64_t> form;  // of an export of Railyard
  for (const chakra::AttributeProto& a : metadata.attr()) {
    if (a.name() == own::kTogether) {
      trace_.members_begin_together = a.bool_val();
      form = form.value_or(1);
    }
    if (a.name() == own::kForm) form = a.int64_val();
  }
  if (form && *form != own::kCurrentForm)
    throw error(
        fmt::format("is an export of {} version of Railyard, in form {}; accepted: form {}. Export the run again",
                    *form < own::kCurrentForm ? "an older" : "a newer", *form, own::kCurrentForm));
}

void RankFile::read() {
  std::ifstream stream(path_, std::ios::binary);
  if (!stream) throw error("cannot be read");
  google::protobuf::io::IstreamInputStream input(&stream);
  std::vector<std::vector<std::uint64_t>> depends;
  std::string bytes;
  for (std::uint64_t message = 0;; ++message) {
    google::protobuf::io::CodedInputStream coded(&input);
    std::uint32_t length = 0;
    const void* data = nullptr;
    int size = 0;
    if (!coded.GetDirectBufferPointer(&data, &size)) break;  // the end, between two messages
    constexpr std::uint32_t kLongestMessage = 1u << 28;
    const std::string where = program_.nodes.empty() ? "at its start" : "after " + text_of(program_.nodes.back());
    const bool is_read =
        coded.ReadVarint32(&length) && length <= kLongestMessage && coded.ReadString(&bytes, static_cast<int>(length));
    if (!is_read) throw error("is truncated, or no Chakra trace: no whole message " + where);
    if (message == 0) {
      chakra::GlobalMetadata metadata;
      if (!metadata.ParseFromString(bytes)) throw error("is no Chakra trace: it does not begin with metadata");
      read_metadata(metadata);
      continue;
    }
    chakra::Node raw;
    if (!raw.ParseFromString(bytes)) throw error("holds a message that is no node " + where);
    TraceNode node = converted(raw);
    auto& on = depends.emplace_back(raw.ctrl_deps().begin(), raw.ctrl_deps().end());
    on.insert(on.end(), raw.data_deps().begin(), raw.data_deps().end());
    program_.nodes.push_back(std::move(node));
  }
  if (program_.nodes.empty()) throw error("holds no nodes");
  connect(std::move(depends));
  try {
    sort_nodes(program_);
  } catch (const workload::execution_trace::TraceError& e) {
    throw error(program_.nodes[e.node], e.what());
  }
  mine_.program = static_cast<std::uint32_t>(trace_.programs.size());
  trace_.programs.push_back(std::move(program_));
  trace_.ranks[rank_] = std::move(mine_);
}

void RankFile::connect(std::vector<std::vector<std::uint64_t>> depends) {
  std::unordered_map<std::uint64_t, std::uint32_t> places;
  for (std::uint32_t i = 0; i < program_.nodes.size(); ++i)
    if (!places.emplace(program_.nodes[i].id, i).second) throw error(program_.nodes[i], "another node has the same id");
  for (std::uint32_t i = 0; i < program_.nodes.size(); ++i) {
    for (const std::uint64_t on : depends[i]) {
      const auto found = places.find(on);
      if (found == places.end())
        throw error(program_.nodes[i], fmt::format("depends on node {}, which is not in the file", on));
      program_.nodes[i].after.push_back(found->second);
    }
  }
  std::map<std::uint32_t, std::map<std::uint64_t, std::uint32_t>> streams;  // nodes by id
  for (std::uint32_t i = 0; i < program_.nodes.size(); ++i) {
    const TraceNode& node = program_.nodes[i];
    if (node.stream != 0 && node.kind != NodeKind::none) streams[node.stream][node.id] = i;
  }
  for (const auto& [stream, nodes] : streams) {
    std::optional<std::uint32_t> before;
    for (const auto& [id, i] : nodes) {
      program_.nodes[i].behind = before;
      before = i;
    }
  }
}

}  // namespace

void read_chakra_rank(const std::string& path, std::uint32_t rank, Trace& trace,
                      const std::map<std::string, std::uint32_t>& groups) {
  RankFile(path, rank, trace, groups).read();
}

}  // namespace railyard::scenario
