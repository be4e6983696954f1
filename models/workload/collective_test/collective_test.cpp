#include "workload/collective_test/collective_test.h"

#include <fmt/format.h>

namespace railyard::workload::collective_test {

using collective::Operation;

double busbw_factor(Operation operation, std::uint32_t ranks) {
  const double n = ranks;
  switch (operation) {
    case Operation::all_reduce: return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all: return (n - 1) / n;
    case Operation::broadcast:
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

CollectiveTest::CollectiveTest(const CollectiveTestSpec& spec, const std::vector<gpu::Gpu*>& gpus,
                               transport::Fabric& fabric, JobSink& sink)
    : spec_(spec), fabric_(fabric), dispatcher_(fabric), sink_(sink), ranks_(gpus, fabric), quiet_(fabric, *this) {}

void CollectiveTest::run_next() {
  dispatcher_.passed(this, 0);
  const auto number = static_cast<std::uint32_t>(finished_.size());
  current_ = SizeResult();
  current_.spec = plan(spec_.sizes[number]);
  for (std::uint32_t r = 0; r < spec_.skew.size(); ++r) {
    if (spec_.skew[r] == Time()) continue;
    // What the rank does before it gets there.
    dispatcher_.delay(*ranks_.devices[r], ranks_.devices[r]->compute, spec_.skew[r], JobTag(), *this);
  }
  for (std::uint32_t i = 0; i < spec_.iterations; ++i) {
    JobTag tag;
    tag.run = i;
    dispatcher_.collective(ranks_.devices, ranks_.group, current_.spec, nullptr, tag, *this, jobs_);
  }
}

JobRecord CollectiveTest::record_of(const JobTag& tag) const {
  JobRecord record;
  record.kind = JobRecord::Kind::collective_test;
  record.operation = current_.spec.operation;
  record.bytes = current_.spec.bytes;
  record.index = tag.run;
  return record;
}

void CollectiveTest::on_collective_done(const collective::Collective& collective, const JobTag& tag) {
  if (tag.run == 0) {
    current_.first_entry = collective.first_entry();
    current_.last_entry = collective.last_entry();
  }
  current_.end = fabric_.now();
  ++current_.iterations;
  JobRecord record = record_of(tag);
  record.start = collective.first_entry();
  record.end = fabric_.now();
  record.queued = collective.last_entry() - collective.first_entry();
  sink_.on_job(record);
  if (current_.iterations < spec_.iterations) return;
  finished_.push_back(current_);
  dispatcher_.reached(this, 0);
  if (!done()) quiet_.wait();
}

std::string CollectiveTest::label(const Job& job) {
  if (job.kind() != Job::Kind::collective) return "skew";
  return fmt::format("{} {}", collective::kOperationNames[static_cast<std::size_t>(job.collective()->spec().operation)],
                     job.bytes());
}

std::vector<std::string> CollectiveTest::blocked() const {
  std::vector<std::string> lines;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_.devices[r]->compute.empty()) continue;
    const auto& job = static_cast<const Job&>(*ranks_.devices[r]->compute.front());
    lines.push_back(
        fmt::format("rank {} ({}): {} waits for bytes of its peers", r, ranks_.devices[r]->gpu->name(), label(job)));
  }
  for (const std::string& line : dispatcher_.sm_waits()) lines.push_back(line);
  return lines;
}

}  // namespace railyard::workload::collective_test
