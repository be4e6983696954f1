#include "sc_main/kinds/kernel_run.h"

#include <fmt/format.h>

#include "base/input_error.h"
#include "sc_main/output_file.h"

namespace railyard {

using gpu::KernelOp;
using gpu::KernelSpec;
using gpu::KernelTime;
using workload::kernel_bench::KernelResult;

namespace {

constexpr std::size_t kMostPrinted = 400;  // maximum number of rows in the table on stdout

bool is_attention(KernelOp op) {
  return op == KernelOp::attention_prefill || op == KernelOp::attention_backward || op == KernelOp::attention_decode;
}

/// A cell of kernels.csv; empty if the operation does not have this number.
std::string cell(bool has, std::uint64_t value) { return has ? std::to_string(value) : std::string(); }

/// What a scenario says of the kernel beyond columns of kernels.csv, as key=value. Empty: defaults.
std::string options_text(const KernelSpec& k) {
  std::vector<std::string> said;
  const auto say = [&](bool differs, const char* key, const auto& value) {
    if (differs) said.push_back(fmt::format("{}={}", key, value));
  };
  if (k.op == KernelOp::gemm) {
    if (k.result_dtype) say(true, "result_dtype", name_of(*k.result_dtype));
    say(k.weight_copies != 0, "weight_copies", k.weight_copies);
    say(k.gemm_library != gpu::GemmLibrary::cublas, "gemm_library", name_of(k.gemm_library));
    say(k.accumulate, "accumulate", true);
    say(k.steady, "steady", true);
    say(k.l2_flushed, "l2_flushed", true);
  }
  if (is_attention(k.op)) {
    say(k.heads.value_dim != 0 && k.heads.value_dim != k.heads.dim, "value_dim", k.heads.value_dim);
    say(k.heads.kv_dtype != k.dtype, "kv_dtype", name_of(k.heads.kv_dtype));
    say(k.heads.library != gpu::AttentionLibrary::flash, "library", name_of(k.heads.library));
  }
  say(k.op == KernelOp::copy && k.threads != 0, "threads", k.threads);
  return fmt::format("{}", fmt::join(said, " "));
}

}  // namespace

std::string shape_text(const KernelSpec& k) {
  std::string text;
  switch (k.op) {
    case KernelOp::gemm:
      text = fmt::format("{} x {} x {}", k.m, k.n, k.k);
      if (k.groups > 1) text += fmt::format(", {} groups", k.groups);
      return text;
    case KernelOp::attention_prefill:
    case KernelOp::attention_backward:
    case KernelOp::attention_decode: {
      std::uint64_t least = k.sequences.front().kv_start, most = least;
      for (const gpu::AttentionSequence& s : k.sequences) {
        least = std::min(least, s.kv_start);
        most = std::max(most, s.kv_start);
      }
      const std::string after = least == most ? std::to_string(least) : fmt::format("{}..{}", least, most);
      return fmt::format("{}/{} heads of {}, {} x {} after {}", k.heads.query, k.heads.kv, k.heads.dim,
                         k.sequences.size(), k.sequences.front().tokens, after);
    }
    case KernelOp::rotary:
      return fmt::format("{} tokens, {}/{} heads of {}", k.tokens, k.heads.query, k.heads.kv, k.heads.dim);
    case KernelOp::copy: return fmt::format("{} bytes", k.bytes);
    default: return fmt::format("{} x {}", k.tokens, k.width);
  }
}

KernelRun::KernelRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  for (std::uint32_t id = 0, group = 0; id < machine.gpus(); ++id)
    if (machine.place(GpuId(id)).group == group) {
      gpus_.push_back(GpuId(id));
      ++group;
    }
  std::vector<execution::Rank*> ranks;
  for (std::uint32_t g = 0; g < gpus_.size(); ++g) {
    ranks.push_back(&executor.add_rank(machine.spec().groups[g].name, g, "[0]", machine.gpu(gpus_[g])));
    ranks.back()->add_stream("compute");
  }
  bench_ = std::make_unique<workload::kernel_bench::KernelBench>(spec(), ranks, executor);
  check();
}

std::uint64_t KernelRun::expected_jobs() const { return spec().kernels.size() * gpus_.size(); }

void KernelRun::check() const {
  for (std::uint32_t g = 0; g < gpus_.size(); ++g) {
    double seconds = 0;
    for (const KernelResult& result : bench_->results(g)) seconds += result.formula.seconds;
    if (!(seconds < kLongestRunSeconds))
      throw InputError(scenario_.workload_origin,
                       fmt::format("workload.kernels: take {:.3g} s in total on {}, but a run lasts up to {:g} s; "
                                   "list fewer or smaller kernels",
                                   seconds, datasheet(g).name, kLongestRunSeconds));
  }
}

std::string KernelRun::progress() const {
  return fmt::format("{} of {} kernels done", bench_->finished(), spec().kernels.size() * gpus_.size());
}

double KernelRun::done_ratio() const { return done_of(bench_->finished(), spec().kernels.size() * gpus_.size()); }

Value KernelRun::explain() {
  Value e;
  e["kernels"] = spec().kernels.size();
  const gpu::KernelSpec& first = spec().kernels.front();
  e["op"] = name_of(first.op);
  e["dtype"] = name_of(first.dtype);
  e["launch"] = name_of(first.launch);
  e["shape"] = shape_text(first);
  e["arithmetic"] = Value::empty_list();
  for (std::size_t g = 0; g < gpus_.size(); ++g)
    e["arithmetic"].push_back(kernel_arithmetic(datasheet(g), gpu::kernel_time(datasheet(g), first)));
  return e;
}

std::string KernelRun::explain_text(const Value& e) const {
  std::string text =
      fmt::format("{}, {}, {}: {}", e["op"].text(), e["dtype"].text(), e["launch"].text(), e["shape"].text());
  const auto count = e["kernels"].integer();
  text += count > 1 ? fmt::format(" (the first of {} kernels)\n", count) : "\n";
  for (const Value& one : e["arithmetic"].items())
    text += fmt::format("\n{}\n{}", one["gpu"].text(), kernel_arithmetic_text(one));
  return text;
}

void KernelRun::add_setup(Value& setup) const { setup["kernels"] = spec().kernels.size(); }

const Metrics<KernelRun>& KernelRun::declared_metrics() {
  using Run = KernelRun;
  static const Metrics<Run> metrics{
      {"kernels", "", "kernels in each group", [](const Run& run) -> Value { return run.spec().kernels.size(); }},
      {"time_s.[group]", "s", "all kernels of the group together",
       [](const Run& run) { return run.by_group([](const Totals& t) -> Value { return t.seconds; }); }},
      {"tflops.[group]", "TFLOP/s", "FLOPs of all kernels / their time",
       [](const Run& run) { return run.by_group([](const Totals& t) -> Value { return t.tflops(); }); }},
      {"gb_per_s.[group]", "GB/s", "HBM bytes of all kernels / their time",
       [](const Run& run) { return run.by_group([](const Totals& t) -> Value { return t.gb_per_s(); }); }},
      {"limited_by.[group].[limit]", "", "number of kernels by `limit`",
       [](const Run& run) {
         return run.by_group([](const Totals& t) {
           Value limits;
           for (std::size_t l = 0; l < t.limited_by.size(); ++l) limits[gpu::kKernelLimitNames[l]] = t.limited_by[l];
           return limits;
         });
       }},
  };
  return metrics;
}

double KernelRun::Totals::tflops() const { return per_second(flops, seconds) * 1e-12; }

double KernelRun::Totals::gb_per_s() const { return per_second(bytes, seconds) * 1e-9; }

KernelRun::Totals KernelRun::totals(std::uint32_t group) const {
  Totals totals;
  for (std::size_t i = 0; i < bench_->finished(group); ++i) {
    const KernelResult& result = bench_->results(group)[i];
    totals.seconds += result.elapsed.seconds();
    totals.flops += result.formula.flops;
    totals.bytes += result.formula.bytes;
    ++totals.limited_by[static_cast<std::size_t>(result.formula.limit)];
  }
  return totals;
}

Value KernelRun::by_group(Value (*value)(const Totals& totals)) const {
  Value groups;
  for (std::uint32_t g = 0; g < gpus_.size(); ++g) groups[scenario_.machine.groups[g].name] = value(totals(g));
  return groups;
}

std::string KernelRun::table() const {
  std::string text;
  const auto whole_shape = [](const KernelSpec& k) {
    const std::string options = options_text(k);
    return shape_text(k) + (options.empty() ? "" : ", " + options);
  };
  for (std::uint32_t g = 0; g < gpus_.size(); ++g) {
    const std::vector<KernelResult>& results = bench_->results(g);
    text += fmt::format("{}# {} on {}\n", g == 0 ? "" : "\n", scenario_.machine.groups[g].name, datasheet(g).name);
    text += fmt::format("{:>6}  {:<18} {:<6} {:<6} {:<40} {:>12} {:>9} {:>9} {:>7} {:>7}  {}\n", "kernel", "op",
                        "dtype", "launch", "shape", "time", "TFLOP/s", "HBM GB/s", "waves", "tail", "limit");
    for (std::size_t i = 0; i < std::min(bench_->finished(g), kMostPrinted); ++i) {
      const KernelSpec& k = spec().kernels[i];
      const KernelTime& time = results[i].formula;
      const double seconds = results[i].elapsed.seconds();
      text += fmt::format("{:>6}  {:<18} {:<6} {:<6} {:<40} {:>12} {:>9.2f} {:>9.1f} {:>7} {:>5.1f} %  {}\n", i,
                          name_of(k.op), name_of(k.dtype), name_of(k.launch), whole_shape(k), duration_text(seconds),
                          per_second(time.flops, seconds) * 1e-12, per_second(time.bytes, seconds) * 1e-9, time.waves,
                          100 * time.tail_efficiency, gpu::name_of(time.limit));
    }
    if (bench_->finished(g) > kMostPrinted)
      text += fmt::format("  and {} more; --out writes them all to kernels.csv\n", bench_->finished(g) - kMostPrinted);
    const Totals all = totals(g);
    text += fmt::format("# in all: {} kernels in {}, at {:.2f} TFLOP/s and {:.1f} GB/s of HBM on average\n",
                        bench_->finished(g), duration_text(all.seconds), all.tflops(), all.gb_per_s());
  }
  return text;
}

void KernelRun::write_tables(const OutputDirectory& directory) {
  OutputFile out(directory.file("kernels.csv"));
  out.print(
      "kernel,item,group,gpu,op,launch,dtype,m,n,k,groups,heads,kv_heads,head_dim,batch,tokens,context_tokens,width,"
      "copy_bytes,options,"
      "time_us,tflops,gb_per_s,flops,hbm_bytes,l2_bytes,ctas,waves,tail_efficiency,tile_m,tile_n,split_k,limit\n");
  for (std::uint32_t g = 0; g < gpus_.size(); ++g) {
    const std::vector<KernelResult>& results = bench_->results(g);
    for (std::size_t i = 0; i < bench_->finished(g); ++i) {
      const KernelSpec& k = spec().kernels[i];
      const KernelTime& time = results[i].formula;
      const double seconds = results[i].elapsed.seconds();
      const bool gemm = k.op == KernelOp::gemm, attention = is_attention(k.op), rotary = k.op == KernelOp::rotary;
      const bool copy = k.op == KernelOp::copy, rows = !gemm && !attention && !copy;
      const std::uint64_t tokens = attention ? k.sequences.front().tokens : k.tokens;
      std::uint64_t context = 0;
      for (const gpu::AttentionSequence& s : k.sequences) context = std::max(context, s.kv_start);
      out.print("{},{},{},{},{},{},{},", i, spec().items[i], scenario_.machine.groups[g].name, datasheet(g).name,
                name_of(k.op), name_of(k.launch), name_of(k.dtype));
      out.print("{},{},{},{},", cell(gemm, k.m), cell(gemm, k.n), cell(gemm, k.k), cell(gemm, k.groups));
      out.print("{},{},{},", cell(attention || rotary, k.heads.query), cell(attention || rotary, k.heads.kv),
                cell(attention || rotary, k.heads.dim));
      out.print("{},{},{},{},{},", cell(attention, k.sequences.size()), cell(attention || rows, tokens),
                cell(attention, context), cell(rows && !rotary, k.width), cell(copy, k.bytes));
      out.print("{},", options_text(k));
      out.print("{:.9f},{:.6f},{:.6f},{:.0f},{:.0f},{:.0f},{},{},{:.6f},", seconds * 1e6,
                per_second(time.flops, seconds) * 1e-12, per_second(time.bytes, seconds) * 1e-9, time.flops, time.bytes,
                time.l2_bytes, time.ctas, time.waves, time.tail_efficiency);
      out.print("{},{},{},{}\n", cell(gemm, time.tile_m), cell(gemm, time.tile_n), cell(gemm, time.split_k),
                gpu::name_of(time.limit));
    }
  }
}

RunKind kernel_run() { return run_kind<KernelRun>(); }

}  // namespace railyard
