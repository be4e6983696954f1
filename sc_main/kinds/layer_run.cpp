#include "sc_main/kinds/layer_run.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/input_error.h"
#include "collective/tuner.h"
#include "gpu/kernels/step_clock.h"
#include "sc_main/kinds/kernel_arithmetic.h"
#include "sc_main/output_file.h"
#include "transformer/memory.h"
#include "transformer/parameters.h"

namespace railyard {

using workload::layer::LayerSpec;
using workload::layer::LayerStep;
using workload::layer::Phase;
using workload::layer::StepResult;

namespace {

constexpr double kGradientBytes = 4;

std::vector<GpuId> first_gpus(std::uint32_t count) {
  std::vector<GpuId> gpus;
  for (std::uint32_t id = 0; id < count; ++id) gpus.push_back(GpuId(id));
  return gpus;
}

/// "ring ll, 8 channels"
std::string how(const collective::CollectiveSpec& s) {
  return fmt::format("{} {}, {} channels", name_of(s.algorithm), name_of(s.protocol), s.channels);
}

}  // namespace

LayerRun::LayerRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor),
      gpus_(first_gpus(spec().tp)),
      kernels_(checked_gpu()),
      timer_(scenario.model, spec().tp, kernels_, spec().profile) {
  if (spec().phase == Phase::training) {
    timer_.set_training(spec().form);
    for (const GpuId id : gpus_) machine_.gpu(id).sms().set_energy_clock(kernels_.gpu().boost_ratio());
  } else {
    timer_.set_libraries(spec().engine.attention, spec().engine.block_scaled_products);
  }
  ends_seconds_ = timer_.embedding(spec().all_tokens()).seconds + timer_.head(spec().batch).seconds;
  for (const GpuId id : gpus_) machine_.gpu(id).hbm().allocate(rank_bytes());
  std::vector<LayerStep> steps = workload::layer::plan_layer(scenario.model, spec(), timer_);
  std::vector<const char*> streams{"compute"};
  if (workload::layer::runs_beside(steps)) streams.push_back("tp");
  layer_ = std::make_unique<workload::layer::Layer>(spec(), std::move(steps), add_ranks(gpus_, streams), executor_);
}

gpu::GpuDatasheet LayerRun::checked_gpu() const {
  check();
  if (spec().phase != Phase::training) return group().gpu;
  gpu::KernelTimer kernels(gpu::at_step_clock(group().gpu));
  transformer::LayerTimer timer(scenario_.model, spec().tp, kernels, spec().profile);
  timer.set_training(spec().form);
  std::vector<gpu::Gpu*> gpus;
  for (const GpuId id : gpus_) gpus.push_back(&machine_.gpu(id));
  const collective::Site site = collective::site_of(gpus, collective::group_of(gpus), fabric_);
  gpu::LayerTime time;
  for (const LayerStep& step : workload::layer::plan_layer(scenario_.model, spec(), timer)) {
    time.kernels_s += step.kernel.seconds;
    if (step.is_collective)
      (step.beside > 0 ? time.beside_s : time.waits_s) += collective::planned_s(site, step.operation, step.bytes);
  }
  return gpu::at_step_clock(group().gpu, time.traffic());
}

std::uint64_t LayerRun::expected_jobs() const { return layer_->steps().size() * spec().tp; }

Bytes LayerRun::rank_bytes() const {
  const transformer::Stage one{1, false, false, transformer::common_layer(scenario_.model)};
  const bool trains = spec().phase == Phase::training;
  const std::uint64_t kv_tokens = trains ? 0 : spec().batch * (spec().context_tokens + spec().tokens);
  Bytes bytes = transformer::rank_memory(scenario_.model, one, spec().tp,
                                         {kv_tokens, spec().all_tokens(), 0, spec().batch, spec().tokens})
                    .total();
  if (trains)
    bytes += static_cast<Bytes>(kGradientBytes *
                                static_cast<double>(transformer::rank_parameters(scenario_.model, one, spec().tp)));
  return bytes;
}

void LayerRun::check() const {
  const gpu::GpuDatasheet& gpu = group().gpu;
  if (gpu.sm.flop_per_clock[static_cast<std::size_t>(scenario_.model.dtype)] == 0)
    throw InputError(scenario_.model_origin, "model: " + no_tensor_rate_text(gpu, scenario_.model.dtype));
  const double need = static_cast<double>(rank_bytes()) * 1e-9;
  if (need > gpu.hbm.capacity_gb)
    throw InputError(scenario_.workload_origin,
                     fmt::format("workload: one layer needs {:.2f} GB on each rank, but {} has {} GB; use fewer tokens "
                                 "or sequences, or a larger tp",
                                 need, gpu.name, gpu.hbm.capacity_gb));
}

std::string LayerRun::progress() const {
  return fmt::format("{} of {} steps done", layer_->finished(), layer_->steps().size());
}

double LayerRun::done_ratio() const { return done_of(layer_->finished(), layer_->steps().size()); }

std::vector<RouteOfInterest> LayerRun::routes() {
  if (gpus_.size() == 1) return {};
  return {{"rank 0 to rank 1", TrafficClass::tp, gpus_[0].value(), gpus_[1].value()}};
}

Value LayerRun::explain() {
  Value e;
  e["title"] = title();
  e["parameters_per_rank"] = transformer::rank_parameters(scenario_.model, {1, false, false}, spec().tp);
  e["bytes_per_rank"] = rank_bytes();
  double seconds = 0, flops = 0;
  e["steps"] = Value::empty_list();
  for (const LayerStep& step : layer_->steps()) {
    if (step.is_collective) {
      e["steps"].push_back(
          {{"name", step.name}, {"collective_bytes", step.bytes}, {"runs_as", how(layer_->choose(step))}});
      continue;
    }
    Value one = {{"name", step.name}};
    one.append(kernel_arithmetic(group().gpu, step.kernel));
    e["steps"].push_back(one);
    seconds += step.kernel.seconds;
    flops += step.kernel.flops;
  }
  e["kernels_s"] = seconds;
  e["flops_per_rank"] = flops;
  return e;
}

std::string LayerRun::explain_text(const Value& e) const {
  std::string text =
      fmt::format("{}\n{} parameters and {:.3f} GB on each rank, {:.3e} FLOP, {} of kernels\n", e["title"].text(),
                  e["parameters_per_rank"].integer(), e["bytes_per_rank"].real() * 1e-9, e["flops_per_rank"].real(),
                  duration_text(e["kernels_s"].real()));
  for (const Value& step : e["steps"].items()) {
    if (step.contains("collective_bytes")) {
      text += fmt::format("\n{}: {} bytes, {}\n", step["name"].text(), step["collective_bytes"].integer(),
                          step["runs_as"].text());
    } else {
      text += fmt::format("\n{}\n{}", step["name"].text(), kernel_arithmetic_text(step));
    }
  }
  return text;
}

void LayerRun::add_setup(Value& setup) const {
  setup["phase"] = name_of(spec().phase);
  setup["tp"] = spec().tp;
  setup["batch"] = spec().batch;
  setup["tokens"] = spec().tokens;
  setup["context_tokens"] = spec().context_tokens;
  setup["sequence_parallel"] = spec().sequence_parallel;
}

const Metrics<LayerRun>& LayerRun::declared_metrics() {
  using Run = LayerRun;
  static const Metrics<Run> metrics{
      {"ranks", "", "tensor-parallel ranks", [](const Run& run) -> Value { return run.layer_->ranks(); }},
      {"layer_s", "s", "all steps, on the first rank", [](const Run& run) -> Value { return run.totals().layer_s(); }},
      {"kernels_s", "s", "kernels only, on the first rank",
       [](const Run& run) -> Value { return run.totals().kernels_s; }},
      {"collectives_s", "s", "collectives without kernels beside them, on the first rank",
       [](const Run& run) -> Value { return run.totals().collectives_s; }},
      {"tflops", "TFLOP/s", "FLOPs of one GPU / time of the layer",
       [](const Run& run) -> Value { return per_second(run.totals().flops, run.totals().layer_s()) * 1e-12; }},
      {"gb_per_s", "GB/s", "HBM bytes of one GPU / time of the layer",
       [](const Run& run) -> Value { return per_second(run.totals().bytes, run.totals().layer_s()) * 1e-9; }},
      {"time_s.[step]", "s", "time of each step, by name",
       [](const Run& run) {
         Value times = Value::empty_group();
         for (std::size_t i = 0; i < run.layer_->finished(); ++i) {
           const StepResult& result = run.layer_->results()[i];
           times[run.layer_->steps()[i].name] = (result.end - result.start).seconds();
         }
         return times;
       }},
      {"embedding_and_head_s", "s", "prefill, decode: work before the first layer and after the last one, by formula",
       [](const Run& run) -> Value { return run.pass_s() ? Value(run.ends_seconds_) : Value(); }},
      {"pass_s", "s", "prefill, decode: all layers of the model, embedding and head",
       [](const Run& run) -> Value { return run.pass_s() ? Value(*run.pass_s()) : Value(); }},
      {"tokens_per_s", "1/s", "prefill, decode: new tokens of all sequences / `pass_s`",
       [](const Run& run) -> Value { return run.pass_s() ? Value(run.tokens_per_s(*run.pass_s())) : Value(); }},
  };
  return metrics;
}

LayerRun::Totals LayerRun::totals() const {
  Totals totals;
  for (std::size_t i = 0; i < layer_->finished(); ++i) {
    const LayerStep& step = layer_->steps()[i];
    const StepResult& result = layer_->results()[i];
    if (!step.is_collective) {
      totals.kernels_s += (result.end - result.start).seconds();
    } else if (i + step.beside < layer_->finished()) {
      const Time alone = step.beside == 0 ? result.start : layer_->results()[i + step.beside].end;
      totals.collectives_s += (result.end - std::min(alone, result.end)).seconds();
    }
    totals.flops += step.kernel.flops;
    totals.bytes += step.kernel.bytes;
  }
  return totals;
}

std::optional<double> LayerRun::pass_s() const {
  if (spec().phase == Phase::training) return std::nullopt;
  return scenario_.model.layers * totals().layer_s() + ends_seconds_;
}

double LayerRun::tokens_per_s(double pass_s) const {
  return per_second(static_cast<double>(spec().all_tokens()), pass_s);
}

std::string LayerRun::title() const {
  const LayerSpec& s = spec();
  std::string text = fmt::format("{} on {}: {} of {} x {} tokens", scenario_.model.name, machine_text(scenario_),
                                 name_of(s.phase), s.batch, s.tokens);
  if (s.phase != Phase::training) text += fmt::format(" after {}", s.context_tokens);
  return text + fmt::format(", one layer on {} x {}{}", s.tp, group().gpu.name,
                            s.sequence_parallel ? ", sequence parallel" : "");
}

std::string LayerRun::table() const {
  std::string text = fmt::format("{}\n\n  {:<34} {:>12} {:>7} {:>9} {:>9} {:>6} {:>7}  {}\n", title(), "step", "time",
                                 "share", "TFLOP/s", "HBM GB/s", "waves", "tail", "limit");
  const Totals all = totals();
  const double layer = all.layer_s();
  for (std::size_t i = 0; i < layer_->finished(); ++i) {
    const LayerStep& step = layer_->steps()[i];
    const StepResult& result = layer_->results()[i];
    const double seconds = (result.end - result.start).seconds();
    text += fmt::format("  {:<34} {:>12} {:>5.1f} %", step.name, duration_text(seconds), 100 * seconds / layer);
    if (step.is_collective) {
      text += fmt::format(" {:>34}  {}\n", fmt::format("{} bytes", step.bytes), how(result.collective));
    } else {
      text += fmt::format(" {:>9.2f} {:>9.1f} {:>6} {:>5.1f} %  {}\n", per_second(step.kernel.flops, seconds) * 1e-12,
                          per_second(step.kernel.bytes, seconds) * 1e-9, step.kernel.waves,
                          100 * step.kernel.tail_efficiency, name_of(step.kernel.limit));
    }
  }
  text += fmt::format(
      "\n  the layer, in all: {}; its kernels {}, its collectives {} ({:.1f} %); {:.2f} TFLOP/s on each GPU\n",
      duration_text(layer), duration_text(all.kernels_s), duration_text(all.collectives_s),
      layer > 0 ? 100 * all.collectives_s / layer : 0.0, per_second(all.flops, layer) * 1e-12);
  if (const std::optional<double> pass = pass_s())
    text += fmt::format("  a pass of {} such layers, embedding and head: {}, {:.1f} new tokens/s of all sequences\n",
                        scenario_.model.layers, duration_text(*pass), tokens_per_s(*pass));
  return text;
}

void LayerRun::write_tables(const OutputDirectory& directory) {
  OutputFile out(directory.file("layer.csv"));
  out.print(
      "step,name,start_s,end_s,time_us,flops,hbm_bytes,tflops,gb_per_s,waves,tail_efficiency,limit,bytes,algorithm,"
      "protocol,channels\n");
  for (std::size_t i = 0; i < layer_->finished(); ++i) {
    const LayerStep& step = layer_->steps()[i];
    const StepResult& r = layer_->results()[i];
    const double seconds = (r.end - r.start).seconds();
    out.print("{},{},{:.15f},{:.15f},{:.9f},", i, step.name, r.start.seconds(), r.end.seconds(), seconds * 1e6);
    if (step.is_collective) {
      out.print(",,,,,,,{},{},{},{}\n", step.bytes, name_of(r.collective.algorithm), name_of(r.collective.protocol),
                r.collective.channels);
    } else {
      const gpu::KernelTime& k = step.kernel;
      out.print("{:.0f},{:.0f},{:.6f},{:.6f},{},{:.6f},{},,,,\n", k.flops, k.bytes,
                per_second(k.flops, seconds) * 1e-12, per_second(k.bytes, seconds) * 1e-9, k.waves, k.tail_efficiency,
                name_of(k.limit));
    }
  }
}

RunKind layer_run() { return run_kind<LayerRun>(); }

}  // namespace railyard
