#include "sc_main/kinds/overlap_run.h"

#include <fmt/format.h>
#include <algorithm>

#include "sc_main/kinds/kernel_run.h"
#include "sc_main/output_file.h"

namespace railyard {

using workload::overlap::Method;
using workload::overlap::MethodResult;

OverlapRun::OverlapRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  for (const std::uint32_t index : spec().gpus) gpus_.push_back(GpuId(index));
  std::vector<const char*> streams{"compute", "comm"};
  if (spec().options.engine == transport::Engine::sm) streams.push_back("receive");
  bench_ = std::make_unique<workload::overlap::OverlapBench>(spec(), add_ranks(gpus_, streams), executor_);
}

std::uint64_t OverlapRun::expected_jobs() const {
  return spec().methods.size() * gpus_.size() * 2 * (2 * gpus_.size() + 1);
}

std::string OverlapRun::progress() const {
  return fmt::format("{} of {} methods done", bench_->results().size(), spec().methods.size());
}

double OverlapRun::done_ratio() const { return done_of(bench_->results().size(), spec().methods.size()); }

std::vector<RouteOfInterest> OverlapRun::routes() {
  return {{"rank 0 to rank 1", TrafficClass::tp, gpus_.front().value(), gpus_[1].value()},
          {fmt::format("rank {} to rank 0", gpus_.size() - 1), TrafficClass::tp, gpus_.back().value(),
           gpus_.front().value()}};
}

Value OverlapRun::explain() {
  const gpu::KernelSpec product = workload::overlap::gemm_of(spec());
  const gpu::GpuDatasheet& sheet = machine_.gpu(gpus_[0]).datasheet();
  const collective::CollectiveSpec collective = bench_->plan();
  return {{"operation", name_of(spec().operation)},
          {"ranks", gpus_.size()},
          {"gemm",
           {{"gpu", sheet.name},
            {"shape", shape_text(product)},
            {"time", kernel_arithmetic(sheet, gpu::kernel_time(sheet, product))}}},
          {"collective",
           {{"operation", name_of(collective.operation)},
            {"bytes", collective.bytes},
            {"algorithm", name_of(collective.algorithm)},
            {"protocol", name_of(collective.protocol)},
            {"channels", collective.channels}}}};
}

std::string OverlapRun::explain_text(const Value& e) const {
  const Value& c = e["collective"];
  return fmt::format("{} over {} ranks\n\n{} on {}\n{}\n{} of {} bytes: {}, {}, {} channels, each the CTA of an SM\n",
                     e["operation"].text(), e["ranks"].integer(), e["gemm"]["shape"].text(), e["gemm"]["gpu"].text(),
                     kernel_arithmetic_text(e["gemm"]["time"]), c["operation"].text(), c["bytes"].integer(),
                     c["algorithm"].text(), c["protocol"].text(), c["channels"].integer());
}

void OverlapRun::add_setup(Value& setup) const {
  setup["operation"] = name_of(spec().operation);
  setup["ranks"] = spec().gpus.size();
  setup["m"] = spec().product.m;
  setup["n"] = spec().product.n;
  setup["k"] = spec().product.k;
  setup["dtype"] = name_of(spec().product.dtype);
  setup["collective_bytes"] = spec().collective_bytes;
}

const Metrics<OverlapRun>& OverlapRun::declared_metrics() {
  using Run = OverlapRun;
  static const Metrics<Run> metrics{
      {"ranks", "", "ranks that take part", [](const Run& run) -> Value { return run.bench_->ranks(); }},
      {"time_s.[method]", "s", "as `time_us` in `overlap.csv`",
       [](const Run& run) {
         Value times = Value::empty_group();
         for (const MethodResult& r : run.bench_->results()) times[name_of(r.method)] = r.time.seconds();
         return times;
       }},
      {"kernel_stretch_ratio.[method]", "", "`kernel_us` / `kernel_alone_us` of `overlap.csv`",
       [](const Run& run) {
         Value ratios = Value::empty_group();
         for (const MethodResult& r : run.bench_->results())
           if (const auto stretch = kernel_stretch(r)) ratios[name_of(r.method)] = *stretch;
         return ratios;
       }},
      {"hidden_ratio.[method]", "", "hidden share of the shorter of the method's kernels and its traffic, each alone",
       [](const Run& run) {
         Value ratios = Value::empty_group();
         for (const MethodResult& r : run.bench_->results())
           if (const auto ratio = hidden(r)) ratios[name_of(r.method)] = *ratio;
         return ratios;
       }},
  };
  return metrics;
}

std::optional<double> OverlapRun::kernel_stretch(const MethodResult& r) {
  if (r.kernel_alone_s <= 0) return std::nullopt;
  return r.kernel_s / r.kernel_alone_s;
}

std::optional<double> OverlapRun::hidden(const MethodResult& r) {
  const double kernels = r.kernel_alone_s, traffic = r.traffic_alone.value_or(Time()).seconds();
  if (kernels <= 0 || traffic <= 0) return std::nullopt;
  // A method that takes longer than both, because it waits or its parts slow each other, hides nothing.
  return std::clamp((kernels + traffic - r.time.seconds()) / std::min(kernels, traffic), 0.0, 1.0);
}

std::string OverlapRun::table() const {
  std::string text =
      fmt::format("# {} on {}: {} ranks, {} on each, {} bytes to {}\n#\n", name_of(spec().operation),
                  machine_text(scenario_), bench_->ranks(), shape_text(workload::overlap::gemm_of(spec())),
                  spec().collective_bytes, name_of(bench_->plan().operation));
  text += fmt::format("#{:<11} {:>12} {:>12} {:>12} {:>15} {:>8}\n", "method", "time", "kernels end", "bytes there",
                      "kernels slower", "hidden");
  for (const MethodResult& r : bench_->results()) {
    const std::optional<double> stretch = kernel_stretch(r), hidden_ratio = hidden(r);
    text +=
        fmt::format(" {:<11} {:>12} {:>12} {:>12} {:>15} {:>8}\n", name_of(r.method), duration_text(r.time.seconds()),
                    r.gemm_done == Time() ? "" : duration_text(r.gemm_done.seconds()),
                    r.collective_done == Time() ? "" : duration_text(r.collective_done.seconds()),
                    stretch ? fmt::format("{:.1f} %", 100 * std::max(0.0, *stretch - 1)) : "",
                    hidden_ratio ? fmt::format("{:.1f} %", 100 * *hidden_ratio) : "");
  }
  return text;
}

void OverlapRun::write_tables(const OutputDirectory& directory) {
  OutputFile out(directory.file("overlap.csv"));
  out.print("method,time_us,kernels_end_us,bytes_there_us,kernel_us,kernel_alone_us,traffic_alone_us\n");
  for (const MethodResult& r : bench_->results())
    out.print("{},{:.9f},{:.9f},{:.9f},{:.9f},{:.9f},{:.9f}\n", name_of(r.method), r.time.seconds() * 1e6,
              r.gemm_done.seconds() * 1e6, r.collective_done.seconds() * 1e6, r.kernel_s * 1e6, r.kernel_alone_s * 1e6,
              r.traffic_alone.value_or(Time()).seconds() * 1e6);
}

RunKind overlap_run() { return run_kind<OverlapRun>(); }

}  // namespace railyard
