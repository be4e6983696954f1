#include "sc_main/kinds/prefill_metrics.h"

#include <algorithm>
#include <cmath>

namespace railyard {

using workload::inference::Grid;
using workload::inference::RankTimes;
using workload::inference::Service;

namespace {

double ratio(double amount, double of) { return of > 0 ? amount / of : 0; }

void add(RankTimes& sum, const RankTimes& times) {
  sum.kernels_s += times.kernels_s;
  sum.tp_s += times.tp_s;
  sum.tp_sync_s += times.tp_sync_s;
  sum.pp_s += times.pp_s;
  sum.host_s += times.host_s;
  sum.occupied_s += times.occupied_s;
}

RankTimes over(const RankTimes& sum, double ranks) {
  return {sum.kernels_s / ranks, sum.tp_s / ranks,   sum.tp_sync_s / ranks,
          sum.pp_s / ranks,      sum.host_s / ranks, sum.occupied_s / ranks};
}

}  // namespace

void PrefillFigures::on_served(std::uint32_t, const workload::inference::Served& served) {
  const workload::inference::Request& request = served.request;
  const workload::inference::RequestTimes& t = served.times;
  ttft_s.push_back((t.first_token - request.arrival).seconds());
  decode_start_s.push_back((served.decode_begun() - request.arrival).seconds());
  queueing_s.push_back((served.prefill_begun() - t.queued).seconds());
  exposed_kv_s.push_back((served.kv_landed() - served.prefilled()).seconds());
  if (request.output_tokens > 1)
    tpot_s.push_back((t.last_token - t.first_token).seconds() / (request.output_tokens - 1.0));
  first_arrival_ = sooner(first_arrival_, request.arrival);
  last_token_ = later(last_token_, t.last_token);
  prompt_tokens += request.prompt_tokens;
  output_tokens += request.output_tokens;
}

double PrefillFigures::rate(double amount) const { return ratio(amount, since(last_token_, first_arrival_).seconds()); }

void PrefillFigures::close(Service& service) {
  add_prefill(service);
  add_decode(service);
}

void PrefillFigures::add_prefill(Service& service) {
  const Grid& grid = service.instance(0).grid();
  prefill_window_s = service.prefill_window().seconds();
  stage_utilisation.clear();
  RankTimes sum;
  for (std::uint32_t p = 0; p < grid.pp(); ++p) {
    double kernels = 0;
    for (std::uint32_t t = 0; t < grid.tp(); ++t) {
      const RankTimes& times = service.instance(0).engine().pipeline().times(p * grid.tp() + t);
      kernels += times.kernels_s;
      add(sum, times);
    }
    stage_utilisation.push_back(ratio(kernels / grid.tp(), prefill_window_s));
  }
  prefill = over(sum, grid.ranks());
  prefill_capacity_tokens_per_s =
      ratio(static_cast<double>(service.instance(0).engine().tokens_done()), prefill_window_s);
  bubble_fraction = prefill_window_s > 0 ? std::max(0.0, 1 - prefill.occupied_s / prefill_window_s) : 0;
}

void PrefillFigures::add_decode(Service& service) {
  const workload::inference::Engine& engine = service.instance(1).engine();
  decode_steps = engine.composed();
  decode_tokens = engine.tokens_done();
  decode_step_s = ratio(service.instance(1).engine().step_seconds(), static_cast<double>(decode_steps));
  decode_batch = ratio(static_cast<double>(decode_tokens), static_cast<double>(decode_steps));
  decode_capacity_tokens_per_s = ratio(static_cast<double>(decode_tokens), service.instance(1).engine().step_seconds());
  RankTimes sum;
  const std::uint32_t ranks = service.instance(1).grid().ranks();
  for (std::uint32_t r = 0; r < ranks; ++r) add(sum, engine.pipeline().times(r));
  decode = over(sum, ranks);
}

const Metrics<PrefillFigures>& prefill_metrics() {
  using Figures = PrefillFigures;
  static const Metrics<Figures> metrics{
      {"requests", "", "finished requests", [](const Figures& f) -> Value { return f.ttft_s.size(); }},
      {"ttft_s", "s",
       "mean time to first token: from a request's arrival until the client has the first token. The last stage of "
       "prefill produces this token",
       [](const Figures& f) -> Value { return mean(f.ttft_s); }},
      {"ttft_p50_s", "s", "median of the same time",
       [](const Figures& f) -> Value { return percentile(f.ttft_s, 0.50); }},
      {"ttft_p99_s", "s", "99th percentile of the same time",
       [](const Figures& f) -> Value { return percentile(f.ttft_s, 0.99); }},
      {"decode_start_s", "s",
       "mean time from a request's arrival until its first decode step begins. All its KV cache has landed by then",
       [](const Figures& f) -> Value { return mean(f.decode_start_s); }},
      {"decode_start_p50_s", "s", "median of the same time",
       [](const Figures& f) -> Value { return percentile(f.decode_start_s, 0.50); }},
      {"decode_start_p99_s", "s", "99th percentile of the same time",
       [](const Figures& f) -> Value { return percentile(f.decode_start_s, 0.99); }},
      {"tpot_s", "s",
       "mean time per output token, over requests with at least two tokens: (last token - first token) / (tokens - 1). "
       "The first gap includes the rest of the handoff and the wait for a step",
       [](const Figures& f) -> Value { return mean(f.tpot_s); }},
      {"tpot_p50_s", "s", "median of the same time",
       [](const Figures& f) -> Value { return percentile(f.tpot_s, 0.50); }},
      {"tpot_p99_s", "s", "99th percentile of the same time",
       [](const Figures& f) -> Value { return percentile(f.tpot_s, 0.99); }},
      {"queueing_s", "s",
       "mean time from queued to the start of the first chunk. A request is queued when the host has accepted it, "
       "`workload.host.request_us` after its arrival",
       [](const Figures& f) -> Value { return mean(f.queueing_s); }},
      {"exposed_s.kv", "s",
       "mean time from the first token, when prefill has produced it, until the KV cache has landed: the part of the "
       "handoff that is not hidden",
       [](const Figures& f) -> Value { return mean(f.exposed_kv_s); }},
      {"request_rate_per_s", "1/s", "achieved rate: finished requests / time from the first arrival to the last token",
       [](const Figures& f) -> Value { return f.rate(static_cast<double>(f.ttft_s.size())); }},
      {"prompt_tokens_per_s", "1/s", "achieved rate: tokens of the prompts of these requests / the same time",
       [](const Figures& f) -> Value { return f.rate(f.prompt_tokens); }},
      {"output_tokens_per_s", "1/s", "achieved rate: tokens of the answers to these requests / the same time",
       [](const Figures& f) -> Value { return f.rate(f.output_tokens); }},
      {"prefill_window_s", "s",
       "the prefill window: time in which prefill of at least one admitted request was not complete",
       [](const Figures& f) -> Value { return f.prefill_window_s; }},
      {"prefill_capacity_tokens_per_s", "1/s",
       "capacity, which does not depend on the load: prompt tokens prefilled / window",
       [](const Figures& f) -> Value { return f.prefill_capacity_tokens_per_s; }},
      {"stage_utilisation.[stage]", "ratio",
       "share of the window in which a rank of the stage runs kernels, without collectives",
       [](const Figures& f) {
         Value stages;
         for (std::size_t p = 0; p < f.stage_utilisation.size(); ++p)
           stages["stage" + std::to_string(p)] = f.stage_utilisation[p];
         return stages;
       }},
      {"bubble_fraction", "ratio",
       "share of rank time in the window that lies outside chunks: 1 - sum over ranks of (from a chunk's first job to "
       "its last, without waits for the host) / (ranks x window). With m equal chunks on p equal stages and free "
       "transfers, (p-1)/(m+p-1)",
       [](const Figures& f) -> Value { return f.bubble_fraction; }},
      {"exposed_s.tp", "s",
       "time over the run that the compute stream spent in tensor-parallel collectives after the last peer had "
       "entered; "
       "mean over prefill ranks",
       [](const Figures& f) -> Value { return f.prefill.tp_s; }},
      {"exposed_s.pp", "s",
       "time over the run that the compute stream waited for activations that the previous stage had already begun to "
       "send; mean over prefill ranks",
       [](const Figures& f) -> Value { return f.prefill.pp_s; }},
      {"exposed_s.tp_sync", "s",
       "time over the run that the compute stream spent in tensor-parallel collectives before the last peer had "
       "entered "
       "(the gate); mean over prefill ranks",
       [](const Figures& f) -> Value { return f.prefill.tp_sync_s; }},
      {"exposed_s.host", "s",
       "time over the run that the compute stream waited only for the host; mean over prefill ranks. The wait before a "
       "chunk's first kernel is part of the bubble",
       [](const Figures& f) -> Value { return f.prefill.host_s; }},
      {"decode.steps", "", "decode steps", [](const Figures& f) -> Value { return f.decode_steps; }},
      {"decode.tokens", "", "tokens that these steps produced",
       [](const Figures& f) -> Value { return f.decode_tokens; }},
      {"decode.step_s", "s",
       "mean time of a step: from the later of two instants (the host begins to prepare the step; the previous step "
       "ends) to the tokens",
       [](const Figures& f) -> Value { return f.decode_step_s; }},
      {"decode.batch", "", "mean requests in a step", [](const Figures& f) -> Value { return f.decode_batch; }},
      {"decode.capacity_tokens_per_s", "1/s", "capacity at the batch sizes of the run: tokens / time in steps",
       [](const Figures& f) -> Value { return f.decode_capacity_tokens_per_s; }},
      {"decode.exposed_s.tp", "s",
       "as `exposed_s.tp`, mean over decode ranks. The table on the screen divides the four times of "
       "`decode.exposed_s` "
       "by the number of steps",
       [](const Figures& f) -> Value { return f.decode.tp_s; }},
      {"decode.exposed_s.pp", "s", "as `exposed_s.pp`, mean over decode ranks",
       [](const Figures& f) -> Value { return f.decode.pp_s; }},
      {"decode.exposed_s.tp_sync", "s", "as `exposed_s.tp_sync`, mean over decode ranks",
       [](const Figures& f) -> Value { return f.decode.tp_sync_s; }},
      {"decode.exposed_s.host", "s", "as `exposed_s.host`, mean over decode ranks",
       [](const Figures& f) -> Value { return f.decode.host_s; }},
  };
  return metrics;
}

}  // namespace railyard
