#include "sc_main/kinds/collective_run.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "base/input_error.h"
#include "collective/program.h"
#include "sc_main/output_file.h"

namespace railyard {

namespace {

// Of FoldBound: by messages that share links or NICs with others, by uneven vectors, by rings that events slow.
constexpr double kNotAlikeShorter = 0.15, kNotAlikeLonger = 0.05, kNotAlikeOverPcieShorter = 0.5, kUnevenShorter = 0.01,
                 kOtherOrderShorter = 0.25, kOtherOrderLonger = 0.05, kOwnRingsLonger = 0.02;

}  // namespace

using collective::CollectiveSpec;
using collective::Operation;
using workload::collective_bench::SizeResult;

CollectiveRun::CollectiveRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  for (const std::uint32_t index : spec().gpus) gpus_.push_back(GpuId(index));
  bench_ = std::make_unique<workload::collective_bench::CollectiveBench>(
      spec(), add_ranks(gpus_, {"compute"}, spec().numbers), executor_);
  check();
  // One send buffer and one receive buffer.
  for (const GpuId id : gpus_)
    machine_.gpu(id).hbm().allocate(2 * *std::max_element(spec().sizes.begin(), spec().sizes.end()));
}

std::uint64_t CollectiveRun::expected_jobs() const { return spec().sizes.size() * spec().iterations; }

void CollectiveRun::check() const {
  for (const Bytes bytes : spec().sizes) {
    if (const char* why = collective::unsupported(bench_->plan(bytes), bench_->group()))
      throw InputError(scenario_.workload_origin,
                       fmt::format("workload.algorithm: {} cannot run {} of {} bytes: {}",
                                   name_of(bench_->plan(bytes).algorithm), name_of(spec().operation), bytes, why));
    for (const GpuId id : gpus_) {
      const gpu::Gpu& gpu = machine_.gpu(id);
      if (2 * bytes > gpu.hbm().capacity())
        throw InputError(
            scenario_.workload_origin,
            fmt::format("workload: size {} needs two buffers of {} bytes, but {} has {} GB; the largest size "
                        "that fits is {}",
                        bytes, bytes, gpu.datasheet().name, gpu.datasheet().hbm.capacity_gb, gpu.hbm().capacity() / 2));
    }
  }
}

std::string CollectiveRun::progress() const {
  return fmt::format("{} of {} sizes done", bench_->finished().size(), spec().sizes.size());
}

double CollectiveRun::done_ratio() const {
  // The cost of a size is nearly proportional to its bytes, with a minimum for small sizes.
  constexpr double kLeastBytes = 1 << 20;
  double done = 0, all = 0;
  for (const Bytes bytes : spec().sizes) all += kLeastBytes + static_cast<double>(bytes);
  for (const SizeResult& r : bench_->finished()) done += kLeastBytes + static_cast<double>(r.spec.bytes);
  return done / all;
}

transport::Window CollectiveRun::after_first() const {
  if (gpus_.size() > 1) return gpus_[1].value();
  return machine_.gpu(gpus_[0]).window_beyond();  // folded, with one rank on each server
}

std::uint32_t CollectiveRun::ranks_of_a_copy() const {
  const std::vector<std::uint32_t>& copies = bench_->group().copy;
  return static_cast<std::uint32_t>(std::count(copies.begin(), copies.end(), copies.front()));
}

std::vector<RouteOfInterest> CollectiveRun::routes() {
  const auto last = static_cast<std::uint32_t>(gpus_.size() - 1);
  std::vector<RouteOfInterest> routes;
  const auto add = [&](std::uint32_t from, std::uint32_t rank, transport::Window to) {
    routes.push_back({fmt::format("rank {} to rank {}", from, rank), TrafficClass::tp, gpus_[from].value(), to});
  };
  add(0, 1, after_first());
  if (bench_->group().folded()) {
    const std::uint32_t on_server = ranks_of_a_copy();
    if (on_server > 1) add(on_server - 1, on_server, machine_.gpu(gpus_[0]).window_beyond());
    return routes;
  }
  // The first adjacent ranks in different servers.
  for (std::uint32_t r = 1; r < last; ++r) {
    if (machine_.place(gpus_[r]).server == machine_.place(gpus_[r + 1]).server) continue;
    add(r, r + 1, gpus_[r + 1].value());
    break;
  }
  if (last > 1) add(last, 0, gpus_[0].value());
  return routes;
}

std::vector<transport::Traffic> CollectiveRun::traffic() {
  return bench_->group().folded() ? bench_->network_traffic().pairs : std::vector<transport::Traffic>();
}

FoldBound CollectiveRun::folded_bound() {
  FoldBound bound;
  const auto add = [&](const std::string& reason, double shorter, double longer) {
    bound.reason += (bound.reason.empty() ? "" : "; ") + reason;
    bound.shorter_ratio += shorter;
    bound.longer_ratio += longer;
  };
  Bytes uneven = 0;
  double most_uneven = 0;
  for (const Bytes bytes : spec().sizes) {
    const CollectiveSpec& plan = bench_->plan(bytes);
    if (!collective::make_program(plan, bench_->group())->is_alike()) {
      const bool over_pcie = machine_.servers().front()->nvswitches.empty();
      add(std::string("ranks differ in what they do: messages of ranks that are not built share links of their own") +
              (over_pcie ? ", which leaves out PCIe links that several of them share" : ""),
          over_pcie ? kNotAlikeOverPcieShorter : kNotAlikeShorter, kNotAlikeLonger);
      if (spec().iterations > 1)
        add("iterations do not overlap, as they do in the whole machine: one takes at most as long as one alone", 0,
            spec().iterations - 1);
      return bound;
    }
    const std::uint64_t parts = std::uint64_t(bench_->ranks()) * plan.channels;
    if (plan.operation == Operation::send_recv || bytes % parts == 0) continue;
    if (uneven == 0) uneven = bytes;
    most_uneven = std::max(most_uneven, static_cast<double>(parts - bytes % parts) / static_cast<double>(bytes));
  }
  if (uneven != 0)
    add(fmt::format("{} bytes are not a multiple of ranks times channels: each rank counts as the one with most",
                    uneven),
        kUnevenShorter, most_uneven + kUnevenShorter);
  const collective::NetworkTraffic sent = bench_->network_traffic();
  if (sent.beyond_next_copy)
    add("messages to different servers cross the links in another order, and spines as messages to the next server do",
        kOtherOrderShorter, kOtherOrderLonger);
  // A switch lets input ports take turns, and the part has fewer of them. What one GPU sends through its own NIC keeps its order.
  std::set<NicId> nics;
  for (const GpuId id : gpus_) nics.insert(machine_.nic_of(id));
  if (sent.fans_out && nics.size() < gpus_.size())
    add("messages of GPUs that share a NIC meet at NICs of other servers, where they take turns in another order",
        sent.beyond_next_copy ? 0 : kOtherOrderShorter, sent.beyond_next_copy ? 0 : kOtherOrderLonger);
  if (gpus_.size() > ranks_of_a_copy())
    add("servers that events slow, and the others, have rings of their own", 0, kOwnRingsLonger);
  return bound;
}

Value CollectiveRun::explain() {
  const transport::Path path = fabric_.path(gpus_[0].value(), after_first(), number(TrafficClass::tp));
  const double rate =
      static_cast<double>(transport::payload_rate(path, fabric_.transaction_bytes(path)).bytes_per_second());
  const std::uint32_t ranks = bench_->ranks();
  Value e;
  e["operation"] = name_of(spec().operation);
  e["ranks"] = ranks;
  e["sizes"] = Value::empty_list();
  for (const Bytes bytes : spec().sizes) {
    const CollectiveSpec s = bench_->plan(bytes);
    e["sizes"].push_back({{"bytes", bytes},
                          {"algorithm", name_of(s.algorithm)},
                          {"protocol", name_of(s.protocol)},
                          {"channels", s.channels},
                          {"ideal_s", static_cast<double>(bytes) *
                                          workload::collective_bench::busbw_factor(s.operation, ranks) / rate}});
  }
  return e;
}

std::string CollectiveRun::explain_text(const Value& e) const {
  std::string text = fmt::format(
      "{} over {} ranks; ideal: at the rate of rank 0's way to rank 1, without latency\n\n  {:>12}  {:<12} {:<8} {:>8} "
      " {}\n",
      e["operation"].text(), e["ranks"].integer(), "bytes", "algorithm", "protocol", "channels", "ideal");
  for (const Value& s : e["sizes"].items())
    text += fmt::format("  {:>12}  {:<12} {:<8} {:>8}  {}\n", s["bytes"].integer(), s["algorithm"].text(),
                        s["protocol"].text(), s["channels"].integer(), duration_text(s["ideal_s"].real()));
  return text;
}

void CollectiveRun::add_setup(Value& setup) const {
  setup["operation"] = name_of(spec().operation);
  setup["ranks"] = bench_->ranks();
  setup["dtype"] = workload::collective_bench::kNcclTypeNames[static_cast<std::size_t>(spec().dtype)];
  setup["min_bytes"] = *std::min_element(spec().sizes.begin(), spec().sizes.end());
  setup["max_bytes"] = *std::max_element(spec().sizes.begin(), spec().sizes.end());
  setup["in_graph"] = spec().in_graph;
}

const Metrics<CollectiveRun>& CollectiveRun::declared_metrics() {
  using Run = CollectiveRun;
  static const Metrics<Run> metrics{
      {"ranks", "", "ranks that take part", [](const Run& run) -> Value { return run.bench_->ranks(); }},
      {"avg_busbw_gb_per_s", "GB/s", "mean of busbw over finished sizes",
       [](const Run& run) -> Value { return run.average_busbw_gb_per_s(); }},
      {"time_s.[bytes]", "s", "time of an iteration, by size; as in `collectives.csv`",
       [](const Run& run) { return run.by_size(&Row::time_s); }},
      {"algbw_gb_per_s.[bytes]", "GB/s", "algbw by size; as in `collectives.csv`",
       [](const Run& run) { return run.by_size(&Row::algbw_gb_per_s); }},
      {"busbw_gb_per_s.[bytes]", "GB/s", "busbw by size; as in `collectives.csv`",
       [](const Run& run) { return run.by_size(&Row::busbw_gb_per_s); }},
  };
  return metrics;
}

double CollectiveRun::average_busbw_gb_per_s() const {
  double sum = 0;
  for (const SizeResult& r : bench_->finished()) sum += row_of(r).busbw_gb_per_s;
  return bench_->finished().empty() ? 0 : sum / static_cast<double>(bench_->finished().size());
}

Value CollectiveRun::by_size(double Row::*number) const {
  Value sizes = Value::empty_group();
  for (const SizeResult& r : bench_->finished()) sizes[std::to_string(r.spec.bytes)] = row_of(r).*number;
  return sizes;
}

CollectiveRun::Row CollectiveRun::row_of(const SizeResult& r) const {
  const Operation o = r.spec.operation;
  Row row;
  row.count = workload::collective_bench::count(o, spec().dtype, r.spec.bytes, bench_->ranks());
  row.type = workload::collective_bench::kNcclTypeNames[static_cast<std::size_t>(spec().dtype)];
  row.reduction =
      o == Operation::all_reduce || o == Operation::reduce_scatter || o == Operation::reduce ? "sum" : "none";
  row.root = is_rooted(o) ? static_cast<int>(r.spec.root) : -1;
  row.time_s = r.time().seconds();
  row.algbw_gb_per_s = r.algbw_gb_per_s();
  row.busbw_gb_per_s = row.algbw_gb_per_s * workload::collective_bench::busbw_factor(o, bench_->ranks());
  return row;
}

std::string CollectiveRun::table() const {
  std::string text =
      fmt::format("# {} on {}: {} ranks\n#\n", name_of(spec().operation), machine_text(scenario_), bench_->ranks());
  text += fmt::format("#{:>12}  {:>12}  {:>8}  {:>6}  {:>6} {:>10} {:>8} {:>8}  {:<12} {:<8} {:>8}\n", "size", "count",
                      "type", "redop", "root", "time", "algbw", "busbw", "algorithm", "protocol", "channels");
  text += fmt::format("#{:>12}  {:>12}  {:>8}  {:>6}  {:>6} {:>10} {:>8} {:>8}\n", "(B)", "(elements)", "", "", "",
                      "(us)", "(GB/s)", "(GB/s)");
  for (const SizeResult& r : bench_->finished()) {
    const Row row = row_of(r);
    text +=
        fmt::format(" {:>12}  {:>12}  {:>8}  {:>6}  {:>6} {:>10.2f} {:>8.2f} {:>8.2f}  {:<12} {:<8} {:>8}\n",
                    r.spec.bytes, row.count, row.type, row.reduction, row.root, row.time_s * 1e6, row.algbw_gb_per_s,
                    row.busbw_gb_per_s, name_of(r.spec.algorithm), name_of(r.spec.protocol), r.spec.channels);
  }
  text += fmt::format("# Avg bus bandwidth    : {:.4g}\n", average_busbw_gb_per_s());
  return text;
}

void CollectiveRun::write_tables(const OutputDirectory& directory) {
  OutputFile out(directory.file("collectives.csv"));
  out.print(
      "bytes,count,type,redop,root,time_us,algbw_gb_per_s,busbw_gb_per_s,algorithm,protocol,channels,iterations,first_"
      "entry_s,last_entry_s,end_s\n");
  for (const SizeResult& r : bench_->finished()) {
    const Row row = row_of(r);
    out.print("{},{},{},{},{},{:.9f},{:.9f},{:.9f},{},{},{},{},{:.15f},{:.15f},{:.15f}\n", r.spec.bytes, row.count,
              row.type, row.reduction, row.root, row.time_s * 1e6, row.algbw_gb_per_s, row.busbw_gb_per_s,
              name_of(r.spec.algorithm), name_of(r.spec.protocol), r.spec.channels, r.iterations,
              r.first_entry.seconds(), r.last_entry.seconds(), r.end.seconds());
  }
}

RunKind collective_run() { return run_kind<CollectiveRun>(); }

}  // namespace railyard
