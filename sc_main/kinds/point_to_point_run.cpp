#include "sc_main/kinds/point_to_point_run.h"

#include <fmt/format.h>

#include "sc_main/output_file.h"

namespace railyard {

using workload::p2p::Point;
using workload::p2p::PointToPointSpec;
using workload::p2p::Test;

namespace {

/// By p2p::Measure.
constexpr std::array<const char*, 9> kMeasures{"unidirectional",  "bidirectional", "latency",
                                               "write_bandwidth", "write_latency", "read_bandwidth",
                                               "read_latency",    "h2d",           "d2h"};
constexpr double kMiB = 1 << 20;

const char* name_of(workload::p2p::Measure measure) { return kMeasures[static_cast<std::size_t>(measure)]; }
bool is_latency(workload::p2p::Measure measure) {
  using workload::p2p::Measure;
  return measure == Measure::latency || measure == Measure::write_latency || measure == Measure::read_latency;
}

}  // namespace

PointToPointRun::PointToPointRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  for (const std::uint32_t index : spec().gpus) gpus_.push_back(GpuId(index));
  workload::p2p::Ends ends;
  ends.gpus = add_ranks(gpus_, {"copy"});
  std::map<transport::Window, execution::Rank*> sockets;
  for (const GpuId id : gpus_) {
    hosts_.push_back(machine_.host_of(id).window());
    execution::Rank*& host = sockets[hosts_.back()];
    if (host == nullptr) {
      host = &executor_.add_host("host", static_cast<std::uint32_t>(sockets.size() - 1), hosts_.back());
      for (const char* stream : {"copy", "post"}) host->add_stream(stream);
      for (std::size_t i = 0; i < workload::p2p::PointToPoint::acknowledgements(spec()); ++i) host->add_stream("");
    }
    ends.hosts.push_back(host);
  }
  ends.post = Time::nanoseconds(machine_.spec().nic.post_ns);
  bench_ = std::make_unique<workload::p2p::PointToPoint>(spec(), ends, executor_);
}

std::uint64_t PointToPointRun::expected_jobs() const { return bench_->points().size(); }

std::string PointToPointRun::progress() const {
  return fmt::format("{} of {} {} done", bench_->finished(), bench_->points().size(), sweeps() ? "sizes" : "copies");
}

double PointToPointRun::done_ratio() const { return done_of(bench_->finished(), bench_->points().size()); }

std::vector<RouteOfInterest> PointToPointRun::routes() {
  std::vector<RouteOfInterest> routes;
  const auto add = [&](const std::string& what, transport::Window from, transport::Window to) {
    routes.push_back({what, TrafficClass::pp, from, to, spec().engine});
  };
  const auto gpu = [&](std::size_t place) { return gpus_[place].value(); };
  switch (spec().test) {
    case Test::matrix:
      for (std::size_t r = 1; r < gpus_.size(); ++r) add(fmt::format("0 to {}", r), gpu(0), gpu(r));
      break;
    case Test::h2d: add("host to 0", hosts_[0], gpu(0)); break;
    case Test::d2h: add("0 to host", gpu(0), hosts_[0]); break;
    case Test::ib_write_bw:
    case Test::ib_write_lat: add("0 to 1", memory_of_end(0), memory_of_end(1)); break;
    case Test::ib_read_bw:
    case Test::ib_read_lat: add("1 to 0", memory_of_end(1), memory_of_end(0)); break;
  }
  return routes;
}

transport::Window PointToPointRun::memory_of_end(std::size_t place) const {
  return spec().memory == workload::p2p::Memory::host ? hosts_[place] : gpus_[place].value();
}

Value PointToPointRun::explain() {
  Value e;
  e["points"] = bench_->points().size();
  e["sizes"] = Value::List(spec().sizes.begin(), spec().sizes.end());
  e["iterations"] = spec().iterations;
  return e;
}

std::string PointToPointRun::explain_text(const Value& e) const {
  return fmt::format("{} points of {} messages a flow\n", e["points"].integer(), e["iterations"].integer());
}

const char* PointToPointRun::name_of_test() const {
  return workload::p2p::kTestNames[static_cast<std::size_t>(spec().test)];
}

double PointToPointRun::value(const Point& point) {
  return is_latency(point.measure) ? point.latency_s() : point.gb_per_s();
}

void PointToPointRun::add_setup(Value& setup) const {
  setup["test"] = name_of_test();
  setup["ranks"] = gpus_.size();
  setup["iterations"] = spec().iterations;
}

const Metrics<PointToPointRun>& PointToPointRun::declared_metrics() {
  using Run = PointToPointRun;
  static const Metrics<Run> metrics{
      {"unidirectional_gb_per_s", "GB/s", "matrix: mean over finished pairs of two GPUs, one direction at a time",
       [](const Run& run) { return run.mean(Measure::unidirectional); }},
      {"bidirectional_gb_per_s", "GB/s", "matrix: mean over finished pairs of two GPUs, both directions at once",
       [](const Run& run) { return run.mean(Measure::bidirectional); }},
      {"latency_s", "s", "matrix: mean latency of 4 B over finished pairs of two GPUs",
       [](const Run& run) { return run.mean(Measure::latency); }},
      {"h2d_gb_per_s", "GB/s", "`h2d`: mean over finished GPUs",
       [](const Run& run) { return run.mean(Measure::host_to_device); }},
      {"d2h_gb_per_s", "GB/s", "`d2h`: mean over finished GPUs",
       [](const Run& run) { return run.mean(Measure::device_to_host); }},
      {"write_gb_per_s.[bytes]", "GB/s", "`ib_write_bw`: by size",
       [](const Run& run) { return run.by_size(Test::ib_write_bw); }},
      {"write_latency_s.[bytes]", "s", "`ib_write_lat`: by size",
       [](const Run& run) { return run.by_size(Test::ib_write_lat); }},
      {"read_gb_per_s.[bytes]", "GB/s", "`ib_read_bw`: by size",
       [](const Run& run) { return run.by_size(Test::ib_read_bw); }},
      {"read_latency_s.[bytes]", "s", "`ib_read_lat`: by size",
       [](const Run& run) { return run.by_size(Test::ib_read_lat); }},
  };
  return metrics;
}

Value PointToPointRun::mean(Measure measure) const {
  double sum = 0;
  std::uint64_t points = 0;
  for (std::size_t i = 0; i < bench_->finished(); ++i) {
    const Point& p = bench_->points()[i];
    if (p.measure != measure || p.within_a_gpu()) continue;
    sum += value(p);
    ++points;
  }
  return points == 0 ? Value() : Value(sum / static_cast<double>(points));
}

Value PointToPointRun::by_size(Test test) const {
  if (spec().test != test) return {};
  Value sizes = Value::empty_group();
  for (std::size_t i = 0; i < bench_->finished(); ++i) {
    const Point& p = bench_->points()[i];
    sizes[std::to_string(p.bytes)] = value(p);
  }
  return sizes;
}

std::string PointToPointRun::matrix_text(Measure measure, const char* title) const {
  const std::size_t n = gpus_.size();
  std::string text = fmt::format("{}\n   D\\D", title);
  for (std::size_t to = 0; to < n; ++to) text += fmt::format(" {:>6} ", to);
  text += "\n";
  for (std::size_t i = 0; i < bench_->finished(); ++i) {
    const Point& p = bench_->points()[i];
    if (p.measure != measure) continue;
    if (p.to == 0) text += fmt::format(" {:>5}", p.from);
    text += fmt::format(" {:>6.2f} ", is_latency(measure) ? value(p) * 1e6 : value(p));
    if (p.to + 1 == n) text += "\n";
  }
  return text;
}

std::string PointToPointRun::host_text() const {
  std::string text = fmt::format("memcpy CE {} bandwidth (GB/s)\n",
                                 spec().test == Test::h2d ? "CPU(row) -> GPU(column)" : "CPU(row) <- GPU(column)");
  std::string columns = " ", row = "0";
  double sum = 0;
  for (std::size_t i = 0; i < bench_->finished(); ++i) {
    const Point& p = bench_->points()[i];
    columns += fmt::format(" {:>9}", p.to);
    row += fmt::format(" {:>9.2f}", value(p));
    sum += value(p);
  }
  return text + columns + "\n" + row + fmt::format("\n\nSUM {:.2f}\n", sum);
}

std::string PointToPointRun::sweep_text() const {
  std::string text;
  const bool is_bandwidth = workload::p2p::is_rdma_bandwidth(spec().test);
  if (is_bandwidth) {
    text =
        fmt::format(" {:<12} {:>12} {:>20} {:>14}\n", "#bytes", "#iterations", "BW average[MiB/sec]", "MsgRate[Mpps]");
  } else {
    text = fmt::format(" {:<12} {:>12} {:>20}\n", "#bytes", "#iterations", "t_typical[usec]");
  }
  for (std::size_t i = 0; i < bench_->finished(); ++i) {
    const Point& p = bench_->points()[i];
    if (is_bandwidth) {
      text += fmt::format(" {:<12} {:>12} {:>20.2f} {:>14.6f}\n", p.bytes, p.messages, p.gb_per_s() * 1e9 / kMiB,
                          p.messages_per_s() * 1e-6);
    } else {
      text += fmt::format(" {:<12} {:>12} {:>20.2f}\n", p.bytes, spec().iterations, p.latency_s() * 1e6);
    }
  }
  return text;
}

std::string PointToPointRun::table() const {
  const std::string head = fmt::format("# {} on {}\n", name_of_test(), machine_text(scenario_));
  if (sweeps()) return head + sweep_text();
  if (spec().test != Test::matrix) return head + host_text();
  return head + matrix_text(Measure::unidirectional, "Unidirectional P2P bandwidth matrix (GB/s)") +
         matrix_text(Measure::bidirectional, "Bidirectional P2P bandwidth matrix (GB/s)") +
         matrix_text(Measure::latency, "P2P latency matrix (us)");
}

void PointToPointRun::write_tables(const OutputDirectory& directory) {
  OutputFile out(directory.file("p2p.csv"));
  out.print("measure,from,to,bytes,messages,time_s,gb_per_s,latency_us,messages_per_s\n");
  for (std::size_t i = 0; i < bench_->finished(); ++i) {
    const Point& p = bench_->points()[i];
    out.print("{},{},{},{},{},{:.15f},{:.9f},{},{:.3f}\n", name_of(p.measure), p.from, p.to, p.bytes, p.messages,
              p.time().seconds(), p.gb_per_s(), is_latency(p.measure) ? fmt::format("{:.9f}", p.latency_s() * 1e6) : "",
              p.messages_per_s());
  }
}

RunKind point_to_point_run() { return run_kind<PointToPointRun>(); }

}  // namespace railyard
