#include "sc_main/scenario/execution_traces/simai.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "workload/execution_trace/order.h"
#include "workload/training/schedule/schedule.h"
#include "workload/training/schedule/spec.h"

namespace railyard::scenario {

using workload::execution_trace::CommGroup;
using workload::execution_trace::NodeKind;
using workload::execution_trace::Program;
using workload::execution_trace::Trace;
using workload::execution_trace::TraceNode;
namespace training = workload::training;

namespace {

/// The groups of a rank, in this order.
enum Slot : std::uint32_t { kModel, kReplicas, kExperts, kExpertReplicas, kSlots };
/// The peers of a rank: of the stage before and of the stage after, round the ring of stages.
enum Peer : std::uint32_t { kBefore, kAfter };

InputError head_error(const SimaiFile& file, const std::string& what) { return InputError({file.path, 1, 1}, what); }

/// Rows of a micro-batch: `ga` blocks of equal rows, one after the other.
struct Blocks {
  std::size_t first = 0, length = 0, count = 1;
  std::size_t end() const { return first + length * count; }
};

/// The longest blocks; of several, the first.
Blocks blocks_of(const SimaiFile& file) {
  const std::vector<SimaiRow>& rows = file.rows;
  if (file.pp == 1) return {0, rows.size(), 1};
  for (std::size_t length = rows.size() / file.ga; length > 0; --length) {
    const std::size_t needed = length * (file.ga - 1);  // rows that equal the row `length` after them
    std::size_t equal = 0;
    if (needed == 0) return {0, length, 1};
    for (std::size_t i = 0; i + length < rows.size(); ++i) {
      equal = rows[i] == rows[i + length] ? equal + 1 : 0;
      if (equal == needed) return {i + 1 - needed, length, file.ga};
    }
  }
  throw head_error(
      file, fmt::format("pp is {}, but the rows do not hold {} equal blocks, one for each micro-batch (ga)", file.pp,
                        file.ga));
}

/// Writes the program of a stage.
class StageProgram {
 public:
  StageProgram(const SimaiFile& file, const std::array<bool, kSlots>& has_group) : file_(file), has_group_(has_group) {}

  void forward(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) forward_row(i);
  }
  void backward(std::size_t from, std::size_t to) {
    for (std::size_t i = to; i-- > from;) backward_row(i);
  }
  /// Only the collectives of weight gradients, one after the other.
  void collectives(std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      const SimaiRow& row = file_.rows[i];
      collective(row.name, row.weight_gradient, kReplicas, row.update, true);
    }
  }
  void receive(Peer peer, std::uint64_t tag) { last_ = add(exchange(NodeKind::receive, peer, tag), last_); }
  void send(Peer peer, std::uint64_t tag) { add(exchange(NodeKind::send, peer, tag), last_); }
  Program take() {
    sort_nodes(program_);
    return std::move(program_);
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;

  std::uint32_t add(TraceNode node, std::uint32_t after) {
    node.id = program_.nodes.size();
    if (after != kNone) node.after = {after};
    program_.nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(program_.nodes.size() - 1);
  }
  TraceNode exchange(NodeKind kind, Peer peer, std::uint64_t tag) const {
    TraceNode node;
    node.name = peer == kBefore ? "previous_stage" : "next_stage";
    node.kind = kind;
    node.peer = peer;
    node.bytes = file_.pp_bytes;
    node.tag = tag;
    return node;
  }
  void compute(const std::string& name, Time time) {
    if (time == Time()) return;
    TraceNode node;
    node.name = name;
    node.duration = time;
    last_ = add(std::move(node), last_);
  }
  /// The collective of `work`; none if its group has one rank.
  std::uint32_t collective(const std::string& name, const SimaiWork& work, Slot usual, Time update, bool waits) {
    if (!work.operation) return kNone;
    TraceNode node;
    node.kind = NodeKind::collective;
    node.group = work.group == SimaiGroup::ep ? kExperts : work.group == SimaiGroup::dp_ep ? kExpertReplicas : usual;
    if (!has_group_[node.group]) return kNone;
    node.name = name + "_" + name_of(*work.operation);
    node.operation = *work.operation;
    node.bytes = work.bytes;
    const std::uint32_t made = add(std::move(node), last_);
    if (waits) {
      last_ = made;
      compute(name + "_update", update);
    }
    return made;
  }

  void forward_row(std::size_t i) {
    const SimaiRow& row = file_.rows[i];
    compute(row.name + "_fwd", row.forward.compute);
    if (file_.policy->forward_collectives) collective(row.name + "_fwd", row.forward, kModel, row.update, true);
  }
  void backward_row(std::size_t i) {
    const SimaiPolicy& policy = *file_.policy;
    const SimaiRow& row = file_.rows[i];
    if (std::find(file_.initiates.begin(), file_.initiates.end(), i) != file_.initiates.end()) {
      std::size_t from = i;
      while (std::find(file_.checkpoints.begin(), file_.checkpoints.end(), from) == file_.checkpoints.end()) --from;
      forward(from, i);
    }
    const std::string inputs = row.name + "_ig", weights = row.name + "_wg";
    const auto weight_gradient = [&] {
      compute(weights, row.weight_gradient.compute);
      if (policy.weight_collectives) collective(weights, row.weight_gradient, kReplicas, row.update, false);
    };
    if (policy.weights_first) {
      weight_gradient();
      if (i > 0) compute(inputs, row.input_gradient.compute);
      return;
    }
    compute(inputs, row.input_gradient.compute);
    std::uint32_t running = kNone;
    if (policy.forward_collectives && (policy.waits_for_inputs || i > 0))
      running = collective(inputs, row.input_gradient, kModel, row.update, policy.waits_for_inputs);
    weight_gradient();
    if (running == kNone || policy.waits_for_inputs) return;
    // The next row waits for both.
    TraceNode both;
    both.name = inputs + "_end";
    both.kind = NodeKind::none;
    both.id = program_.nodes.size();
    both.after = {running};
    if (last_ != kNone && last_ != running) both.after.push_back(last_);
    program_.nodes.push_back(std::move(both));
    last_ = static_cast<std::uint32_t>(program_.nodes.size() - 1);
  }

  const SimaiFile& file_;
  const std::array<bool, kSlots> has_group_;
  Program program_;
  std::uint32_t last_ = kNone;  ///< of the thread of work
};

training::Schedule schedule_of(const SimaiFile& file, const Blocks& blocks) {
  training::ScheduleSpec spec;
  spec.kind = file.vpp > 1 ? training::ScheduleKind::interleaved : training::ScheduleKind::one_f_one_b;
  spec.ranks = file.pp;
  spec.micro_batches = static_cast<std::uint32_t>(blocks.count);
  spec.virtual_stages = file.vpp;
  if (blocks.length < file.vpp)
    throw head_error(file, fmt::format("vpp is {}, but a micro-batch has {} rows", file.vpp, blocks.length));
  if (const auto illegal = illegal_value(spec))
    throw head_error(file, fmt::format("ga {}, pp {}, vpp {}: {}", file.ga, file.pp, file.vpp, illegal->text));
  return make_schedule(spec);
}

Program stage_program(const SimaiFile& file, const std::array<bool, kSlots>& has_group, const Blocks& blocks,
                      const training::Schedule* schedule, std::uint32_t stage) {
  StageProgram program(file, has_group);
  const std::size_t rows = file.rows.size();
  if (schedule == nullptr) {
    if (file.policy->is_benchmark) {
      program.collectives(rows);
      return program.take();
    }
    program.forward(0, rows);
    if (file.policy->backward) program.backward(0, rows);
    return program.take();
  }
  program.forward(0, blocks.first);
  const std::uint32_t stages = schedule->stages(), parts = stages / file.pp;
  const auto tag = [&](const training::Slot& slot, std::uint32_t receiver, bool is_forward) {
    return (static_cast<std::uint64_t>(slot.micro_batch) * stages + receiver) * 2 + (is_forward ? 0 : 1);
  };
  for (const training::Slot& slot : schedule->slots[stage]) {
    const std::size_t part = slot.stage / file.pp, first = blocks.first + slot.micro_batch * blocks.length;
    const std::size_t from = first + blocks.length * part / parts, to = first + blocks.length * (part + 1) / parts;
    const bool is_forward = slot.kind == training::SlotKind::forward;
    const bool has_source = is_forward ? slot.stage > 0 : slot.stage + 1 < stages;
    const bool has_target = is_forward ? slot.stage + 1 < stages : slot.stage > 0;
    if (has_source) program.receive(is_forward ? kBefore : kAfter, tag(slot, slot.stage, is_forward));
    is_forward ? program.forward(from, to) : program.backward(from, to);
    if (has_target)
      program.send(is_forward ? kAfter : kBefore, tag(slot, is_forward ? slot.stage + 1 : slot.stage - 1, is_forward));
  }
  program.forward(blocks.end(), rows);
  program.backward(blocks.end(), rows);
  program.backward(0, blocks.first);
  return program.take();
}

/// Sizes of the groups, and the strides between their members.
struct Shape {
  std::uint32_t model = 1, model_stride = 1;
  std::uint32_t replicas = 1, replica_stride = 1;
  std::uint32_t experts = 1;
};

Shape shape_of(const SimaiFile& file, std::uint32_t ranks, std::uint32_t server_gpus) {
  Shape shape;
  const std::uint32_t servers = std::max(1u, ranks / server_gpus), in_server = std::min(ranks, server_gpus);
  if (file.policy->split != SimaiPolicy::Split::by_head && (file.tp > 1 || file.ep > 1 || file.pp > 1))
    throw head_error(file,
                     fmt::format("{} has no groups; model_parallel_NPU_group, ep and pp must be 1", file.policy->name));
  if ((file.policy->split == SimaiPolicy::Split::first_dimension ||
       file.policy->split == SimaiPolicy::Split::other_dimensions) &&
      servers * in_server != ranks)
    throw head_error(file, fmt::format("{} needs whole servers: {} GPUs are not a multiple of {}", file.policy->name,
                                       ranks, in_server));
  switch (file.policy->split) {
    case SimaiPolicy::Split::all: return {ranks, 1, ranks, 1, 1};
    case SimaiPolicy::Split::first_dimension: return {in_server, 1, servers, in_server, 1};
    case SimaiPolicy::Split::other_dimensions: return {servers, in_server, in_server, 1, 1};
    case SimaiPolicy::Split::by_head: break;
  }
  if (ranks % (file.tp * file.pp) != 0)
    throw head_error(file, fmt::format("{} GPUs are not a multiple of model_parallel_NPU_group x pp, {} x {}", ranks,
                                       file.tp, file.pp));
  shape.model = file.tp;
  shape.replicas = ranks / (file.tp * file.pp);
  shape.replica_stride = file.tp;
  shape.experts = file.ep;
  if (shape.replicas % file.ep != 0)
    throw head_error(file, fmt::format("{} replicas are not a multiple of ep, {}", shape.replicas, file.ep));
  return shape;
}

/// Adds all groups of `size` ranks that lie `stride` apart.
void add_groups(Trace& trace, Slot slot, const std::string& name, TrafficClass traffic_class, std::uint32_t size,
                std::uint32_t stride) {
  if (size < 2) return;
  for (std::uint32_t base = 0; base < trace.ranks.size(); base += size * stride) {
    for (std::uint32_t first = base; first < base + stride; ++first) {
      CommGroup group{fmt::format("{}[{}]", name, trace.groups.size()), traffic_class, {}};
      for (std::uint32_t member = 0; member < size; ++member) {
        const std::uint32_t rank = first + member * stride;
        group.ranks.push_back(rank);
        trace.ranks[rank].groups[slot] = static_cast<std::uint32_t>(trace.groups.size());
      }
      trace.groups.push_back(std::move(group));
    }
  }
}

}  // namespace

Trace simai_trace(const SimaiFile& file, std::uint32_t gpus, std::uint32_t server_gpus) {
  const std::uint32_t ranks = file.all_gpus.value_or(gpus);
  if (ranks > gpus)
    throw head_error(
        file,
        fmt::format("all_gpus is {}, but the machine has {} GPUs; set machine.groups.*.servers for more", ranks, gpus));
  const Shape shape = shape_of(file, ranks, server_gpus);
  Trace trace;
  const std::uint32_t stage_ranks = ranks / file.pp;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    auto& mine = trace.ranks.emplace_back();
    mine.program = rank / stage_ranks;
    mine.groups.assign(kSlots, 0);
    mine.peers = {(rank + ranks - stage_ranks) % ranks, (rank + stage_ranks) % ranks};
  }
  add_groups(trace, kModel, "tp", TrafficClass::tp, shape.model, shape.model_stride);
  add_groups(trace, kReplicas, "dp", TrafficClass::dp, shape.replicas, shape.replica_stride);
  add_groups(trace, kExperts, "ep", TrafficClass::ep, shape.experts, shape.replica_stride);
  const std::uint32_t expert_replicas = shape.replicas / shape.experts;
  add_groups(trace, kExpertReplicas, "dp_ep", TrafficClass::dp, expert_replicas, shape.replica_stride * shape.experts);

  const std::array<bool, kSlots> has_group{shape.model > 1, shape.replicas > 1, shape.experts > 1, expert_replicas > 1};
  const Blocks blocks = blocks_of(file);
  std::optional<training::Schedule> schedule;
  if (file.pp > 1) schedule = schedule_of(file, blocks);
  for (std::uint32_t stage = 0; stage < file.pp; ++stage)
    trace.programs.push_back(stage_program(file, has_group, blocks, schedule ? &*schedule : nullptr, stage));
  return trace;
}

}  // namespace railyard::scenario
