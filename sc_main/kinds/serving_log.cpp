#include "sc_main/kinds/serving_log.h"

#include <fmt/format.h>
#include <utility>

namespace railyard {

namespace {

constexpr double kMebibyte = 1 << 20;  // the format calls it MB

/// At least one decimal: "1.0", "0.25".
std::string decimal(double value) {
  const std::string text = fmt::format("{:.10g}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; }

}  // namespace

void ServingLog::on_iteration(std::size_t instance, std::uint32_t, const workload::inference::Iteration& iteration,
                              Time) {
  Instance& i = instances_[instance];
  for (const workload::inference::ScheduledBatch::Item& item : iteration.batch.items) {
    sampled_tokens_ += item.produces;
    if (item.is_decode) continue;
    prompt_tokens_ += item.tokens;
    i.prompt_tokens += item.tokens;
    if (!item.is_first) continue;
    i.found_tokens += item.start;
    i.prompt_tokens += item.start;
  }
}

std::string ServingLog::text(workload::inference::Service& service, Time now) {
  const double seconds = (now - std::exchange(last_, now)).seconds();
  std::string text =
      fmt::format("[{}s] Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} tokens/s\n",
                  decimal(now.seconds()), static_cast<double>(std::exchange(prompt_tokens_, 0)) / seconds,
                  static_cast<double>(std::exchange(sampled_tokens_, 0)) / seconds);
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    const auto& [rank, found, prompts] = instances_[i];
    const workload::inference::Scheduler& scheduler = service.instance(i).scheduler();
    const double bytes = rank.fixed_bytes + scheduler.memory().held() * rank.block_bytes;
    text += fmt::format(
        "{}─Running Instance[{}]: {} reqs, Waiting: {} reqs, Total # {} NPUs, Each NPU Memory Usage {:.2f} MB "
        "({:.3f} % Used), Prefix Cache Hit ratio {:.2f} %, ({} / {})\n",
        i + 1 < instances_.size() ? "├" : "└", i, scheduler.running(), scheduler.waiting(), rank.ranks,
        bytes / kMebibyte, percent(bytes, rank.capacity_bytes),
        percent(static_cast<double>(found), static_cast<double>(prompts)), found, prompts);
  }
  return text;
}

}  // namespace railyard
