#include "workload/bench/collective_bench.h"

#include <fmt/format.h>

#include "collective/running_members.h"
#include "workload/traffic.h"

namespace railyard::workload::collective_bench {

using collective::Operation;

double busbw_factor(Operation operation, std::uint32_t ranks) {
  const double n = ranks;
  switch (operation) {
    case Operation::all_reduce: return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return (n - 1) / n;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send_recv: break;
  }
  return 1;
}

std::uint64_t count(Operation operation, ElementType type, Bytes bytes, std::uint32_t ranks) {
  const std::uint64_t elements = bytes / bytes_of(type);
  const bool by_part = operation == Operation::all_gather || operation == Operation::reduce_scatter ||
                       operation == Operation::all_to_all;
  return by_part ? elements / ranks : elements;
}

collective::CollectiveRequest request_of(const CollectiveBenchSpec& test) {
  collective::CollectiveRequest request;
  request.operation = test.operation;
  request.engine = test.engine;
  request.algorithm = test.algorithm;
  request.protocol = test.protocol;
  request.nccl_version = test.nccl_version;
  request.root = test.root;
  request.both_directions = test.both_directions;
  request.in_graph = test.in_graph;
  request.traffic_class = number(TrafficClass::tp);
  return request;
}

CollectiveBench::CollectiveBench(const CollectiveBenchSpec& spec, const std::vector<Rank*>& ranks, Executor& executor)
    : spec_(spec),
      executor_(executor),
      communicator_(spec.members.empty() ? Communicator(ranks, 0, request_of(spec), executor.fabric())
                                         : Communicator(ranks, 0, spec.members, request_of(spec), executor.fabric())) {}

collective::NetworkTraffic CollectiveBench::network_traffic() {
  collective::NetworkTraffic all;
  for (const Bytes bytes : spec_.sizes) {
    collective::NetworkTraffic of_size = collective::network_traffic(plan(bytes), group());
    all.beyond_next_copy |= of_size.beyond_next_copy;
    all.fans_out |= of_size.fans_out;
    for (transport::Traffic& between : of_size.pairs) {
      between.bytes *= spec_.iterations;
      all.pairs.push_back(between);
    }
  }
  return all;
}

void CollectiveBench::start() {
  // Sizes differ, so only iterations can repeat.
  if (spec_.iterations > 1 && !group().folded()) Communicator::allow_reuse({&communicator_}, {}, executor_.fabric());
  run_next();
}

void CollectiveBench::run_next() {
  current_ = SizeResult();
  current_.spec = plan(spec_.sizes[finished_.size()]);
  for (std::uint32_t r = 0; r < spec_.skew.size(); ++r) {
    if (spec_.skew[r] == Time()) continue;
    // The rank's delay before it enters.
    executor_.delay(communicator_.rank(r), communicator_.stream(r), spec_.skew[r],
                    JobLabel::of(*this, Fields{0, kSkew}), *this);
  }
  for (std::uint32_t i = 0; i < spec_.iterations; ++i)
    executor_.collective(communicator_, current_.spec, JobLabel::of(*this, Fields{i, kIteration}), *this, jobs_);
}

std::string CollectiveBench::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  if (f.what != kIteration) return f.what == kSkew ? "skew" : "quiet";
  return fmt::format("{}_Bytes[{}]_It[{}]", collective::initials(current_.spec.operation), current_.spec.bytes,
                     f.iteration);
}

std::string CollectiveBench::task(std::uint64_t arguments) const {
  if (JobLabel::fields_of<Fields>(arguments).what != kIteration) return name(arguments);
  return fmt::format("{} {}", name_of(current_.spec.operation), current_.spec.bytes);
}

Recorded CollectiveBench::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).what == kIteration ? Recorded::stage : Recorded::never;
}

void CollectiveBench::on_collective_done(const collective::Collective& collective, const JobLabel& label) {
  if (label.as<Fields>().iteration == 0) {
    current_.first_entry = collective.first_entry();
    current_.last_entry = collective.last_entry();
  }
  current_.end = executor_.fabric().now();
  if (++current_.iterations < spec_.iterations) return;
  finished_.push_back(current_);
  if (!done())
    executor_.quiet(communicator_.rank(0), communicator_.stream(0), JobLabel::of(*this, Fields{0, kQuiet}), *this);
}

void CollectiveBench::on_job_done(const Job& job) {
  if (job.label().as<Fields>().what == kQuiet) run_next();
}

}  // namespace railyard::workload::collective_bench
