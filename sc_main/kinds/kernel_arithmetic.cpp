#include "sc_main/kinds/kernel_arithmetic.h"

#include <fmt/format.h>

namespace railyard {

using gpu::KernelTime;

namespace {

std::string microseconds(const Value& seconds) { return fmt::format("{:.3f} us", seconds.real() * 1e6); }

}  // namespace

Value kernel_arithmetic(const gpu::GpuDatasheet& gpu, const KernelTime& time) {
  const double all = gpu.sm.count;
  Value e;
  e["gpu"] = gpu.name;
  e["sms"] = gpu.sm.count;
  e["flops"] = time.flops;
  e["hbm_bytes"] = time.bytes;
  e["l2_bytes"] = time.l2_bytes;
  if (time.tile_m != 0) e["tile"] = {{"m", time.tile_m}, {"n", time.tile_n}, {"split_k", time.split_k}};
  e["ctas"] = time.ctas;
  e["ctas_per_sm"] = time.ctas_per_sm;
  e["waves"] = time.waves;
  e["tail_efficiency"] = time.tail_efficiency;
  e["longest_cta_s"] = time.longest_cta_seconds;
  e["sm_seconds"] = time.sm_seconds;
  e["tail_ratio"] = time.tail_ratio;
  e["cta_s"] = time.ctas == 0 ? 0.0 : time.cta_seconds_on(all);
  e["l2_s"] = time.l2_seconds;
  e["hbm_s"] = time.hbm_seconds;
  e["overlap_exponent"] = time.overlap_exponent;
  const double starts = time.ctas == 0 ? 0.0 : time.starts_seconds_on(all);
  e["body_s"] = time.seconds - time.fixed_seconds - starts - time.after_seconds;
  e["starts_s"] = starts;
  e["fixed_s"] = time.fixed_seconds;
  e["after_s"] = time.after_seconds;
  e["time_s"] = time.seconds;
  e["limit"] = gpu::name_of(time.limit);
  return e;
}

std::string kernel_arithmetic_text(const Value& e) {
  const double ctas = e["ctas"].real(), sms = e["sms"].real();
  std::string text;
  if (e.contains("tile"))
    text += fmt::format("  {} x {} tiles, K split {} ways\n", e["tile"]["m"].integer(), e["tile"]["n"].integer(),
                        e["tile"]["split_k"].integer());
  text += fmt::format(
      "  {:.0f} CTAs, {} beside each other on each of {:.0f} SMs: {} waves, {:.1f} % of their places taken\n", ctas,
      e["ctas_per_sm"].integer(), sms, e["waves"].integer(), 100 * e["tail_efficiency"].real());
  const std::string longest = microseconds(e["longest_cta_s"]);
  if (e["sm_seconds"].real() == 0) {
    text += fmt::format("  CTAs on SMs    {:>14}   in whole waves of {}, the time of one CTA\n",
                        microseconds(e["cta_s"]), longest);
  } else {
    text += fmt::format(
        "  CTAs on SMs    {:>14}   {:.3f} SM us over {:.0f} SMs, the longest {} alone, {:.0f} % of it as tail\n",
        microseconds(e["cta_s"]), e["sm_seconds"].real() * 1e6, sms, longest, 100 * e["tail_ratio"].real());
  }
  const auto traffic = [&](const char* what, const char* bytes, const char* seconds) {
    const double s = e[seconds].real();
    text += fmt::format("  {:<14} {:>14}   {:.3f} MB at {:.1f} GB/s\n", what, microseconds(e[seconds]),
                        e[bytes].real() * 1e-6, s > 0 ? e[bytes].real() / s * 1e-9 : 0.0);
  };
  traffic("L2", "l2_bytes", "l2_s");
  traffic("HBM", "hbm_bytes", "hbm_s");
  const double p = e["overlap_exponent"].real();
  text += fmt::format("  body           {:>14}   {}\n", microseconds(e["body_s"]),
                      p == 0 ? "the longest of the three, which run beside each other"
                             : fmt::format("the three together: p-norm, p = {:g}", p));
  if (e["starts_s"].real() > 0)
    text +=
        fmt::format("  starts         {:>14}   of CTAs, for each round over the SMs\n", microseconds(e["starts_s"]));
  text += fmt::format("  fixed          {:>14}   launch, prologue and pipeline fill\n", microseconds(e["fixed_s"]));
  text +=
      fmt::format("  after          {:>14}   parts of a split K or context are joined\n", microseconds(e["after_s"]));
  const double seconds = e["time_s"].real();
  text += fmt::format("  time           {:>14}   {:.2f} TFLOP/s, {:.1f} GB/s of HBM; limited by {}\n",
                      microseconds(e["time_s"]), e["flops"].real() / seconds * 1e-12,
                      e["hbm_bytes"].real() / seconds * 1e-9, e["limit"].text());
  return text;
}

}  // namespace railyard
