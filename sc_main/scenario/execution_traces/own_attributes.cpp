#include "sc_main/scenario/execution_traces/own_attributes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "transport/device/queue_pairs.h"
#include "workload/traffic.h"

namespace railyard::scenario::own {

using collective::CollectiveSpec;
using gpu::KernelTime;

namespace {

constexpr std::int64_t kMostTime = std::numeric_limits<std::int64_t>::max();  // fs
constexpr std::int64_t kMostBytes = 1ll << 50, kMostCount = 1ll << 30;

/// Visits each number of a specification with the range that is accepted.
template <class Spec, class Visit>
void visit(Spec& s, Visit&& number) {
  number(s.operation, 0, collective::kOperationNames.size() - 1);
  number(s.algorithm, 0, collective::kAlgorithmNames.size() - 1);
  number(s.protocol, 0, collective::kProtocolNames.size() - 1);
  number(s.bytes, 0, kMostBytes);
  number(s.root, 0, kMostCount);
  number(s.channels, 1, 64);
  number(s.slices, 1, 1024);
  number(s.chunk_bytes, 0, kMostBytes);
  number(s.slots, 0, kMostCount);
  number(s.barriers_before, 0, 16);
  number(s.barriers_after, 0, 16);
  number(s.both_directions, 0, 1);
  number(s.registered, 0, 1);
  number(s.one_way, 0, 1);
  number(s.traffic_class, 0, kTrafficClasses.size() - 1);
  number(s.queue_pair_set, 0, transport::kQueuePairSets - 1);
  number(s.shares.by_sender, 0, 1);
  number(s.launch, 0, kMostTime);
  number(s.host, 0, kMostTime);
  number(s.cost.step, 0, kMostTime);
  number(s.cost.line_bytes, 0, kMostBytes);
  number(s.cost.line, 0, kMostTime);
  number(s.cost.polled_line, 0, kMostTime);
  number(s.cost.channel_rate, 0, std::numeric_limits<std::int64_t>::max());
  number(s.cost.copy_rate, 0, std::numeric_limits<std::int64_t>::max());
  number(s.cost.wire_numerator, 1, 1 << 20);
  number(s.cost.wire_denominator, 1, 1 << 20);
  number(s.cost.network_send, 0, kMostTime);
  number(s.cost.network_receive, 0, kMostTime);
  number(s.cost.proxy_rate, 0, std::numeric_limits<std::int64_t>::max());
}

constexpr std::int64_t kTokensFollow = 0;  // no weight is 0

/// The same of an exchange of tokens.
template <class Tokens, class Visit>
void visit_tokens(Tokens& t, Visit&& number) {
  number(t.leg, 1, 3);
  number(t.token_bytes, 0, kMostBytes);
  number(t.network_bytes, 0, kMostBytes);
  number(t.notifies, 0, 1);
}

std::int64_t as_number(Time time) { return time.fs(); }
std::int64_t as_number(Rate rate) { return static_cast<std::int64_t>(rate.bytes_per_second()); }
template <class T>
std::int64_t as_number(T value) {
  return static_cast<std::int64_t>(value);
}
void set(Time& time, std::int64_t value) { time = Time::fs(value); }
void set(Rate& rate, std::int64_t value) { rate = Rate::bytes_per_second(static_cast<std::uint64_t>(value)); }
template <class T>
void set(T& field, std::int64_t value) {
  field = static_cast<T>(value);
}

/// Visits each number of a kernel.
template <class Kernel, class Visit>
void visit_kernel(Kernel& k, Visit&& number) {
  number(k.seconds);
  number(k.fixed_seconds);
  number(k.after_seconds);
  number(k.limit);
  number(k.ctas);
  number(k.waves);
  number(k.tail_efficiency);
  number(k.sms);
  number(k.flops);
  number(k.bytes);
  number(k.l2_bytes);
  number(k.longest_cta_seconds);
  number(k.sm_seconds);
  number(k.cta_start_seconds);
  number(k.tail_ratio);
  number(k.ctas_per_sm);
  number(k.cta.threads);
  number(k.cta.registers_kib);
  number(k.cta.shared_memory_kib);
  number(k.persistent);
  number(k.most_sms);
  number(k.clock_ratio);
  number(k.l2_seconds);
  number(k.hbm_seconds);
  number(k.overlap_exponent);
}

std::size_t kernel_width() {
  std::size_t width = 0;
  const KernelTime kernel;
  visit_kernel(kernel, [&](const auto&) { ++width; });
  return width;
}

}  // namespace

std::vector<std::int64_t> numbers_of(const CollectiveSpec& spec) {
  std::vector<std::int64_t> numbers;
  visit(spec, [&](const auto& field, std::int64_t, std::int64_t) { numbers.push_back(as_number(field)); });
  if (!spec.shares.is_even()) numbers.insert(numbers.end(), spec.shares.of->begin(), spec.shares.of->end());
  if (!spec.tokens.runs()) return numbers;
  numbers.push_back(kTokensFollow);
  visit_tokens(spec.tokens,
               [&](const auto& field, std::int64_t, std::int64_t) { numbers.push_back(as_number(field)); });
  if (spec.tokens.of_servers != nullptr)
    numbers.insert(numbers.end(), spec.tokens.of_servers->begin(), spec.tokens.of_servers->end());
  return numbers;
}

namespace {

using Weights = std::shared_ptr<const std::vector<std::uint32_t>>;

/// @return whether all of [next, end) are weights  @param weights  null if there are none
bool read_weights(const std::vector<std::int64_t>& numbers, std::size_t next, std::size_t end, Weights& weights) {
  if (next >= end) return true;
  const auto from = numbers.begin() + static_cast<std::ptrdiff_t>(next),
             to = numbers.begin() + static_cast<std::ptrdiff_t>(end);
  const auto is_weight = [](std::int64_t n) { return n > 0 && n <= std::numeric_limits<std::uint32_t>::max(); };
  weights = std::make_shared<const std::vector<std::uint32_t>>(from, to);
  return std::all_of(from, to, is_weight);
}

}  // namespace

std::optional<CollectiveSpec> spec_of(const std::vector<std::int64_t>& numbers) {
  CollectiveSpec spec;
  std::size_t next = 0;
  bool is_right = true;
  const auto read = [&](auto& field, std::int64_t least, std::int64_t most) {
    const std::int64_t value = next < numbers.size() ? numbers[next] : -1;
    ++next;
    is_right = is_right && value >= least && value <= most;
    if (is_right) set(field, value);
  };
  visit(spec, read);
  if (!is_right) return std::nullopt;
  // What follows are the shares of an all-to-all, then what is told of tokens.
  const auto tokens = static_cast<std::size_t>(
      std::find(numbers.begin() + static_cast<std::ptrdiff_t>(next), numbers.end(), kTokensFollow) - numbers.begin());
  if (!read_weights(numbers, next, tokens, spec.shares.of)) return std::nullopt;
  if (tokens == numbers.size()) return spec;
  next = tokens + 1;
  visit_tokens(spec.tokens, read);
  if (!is_right || !read_weights(numbers, next, numbers.size(), spec.tokens.of_servers)) return std::nullopt;
  return spec;
}

std::vector<double> numbers_of(const gpu::KernelChain& chain) {
  std::vector<double> numbers;
  for (const KernelTime& kernel : chain.kernels)
    visit_kernel(kernel, [&](const auto& field) { numbers.push_back(static_cast<double>(field)); });
  return numbers;
}

std::optional<gpu::KernelChain> chain_of(const std::vector<double>& numbers) {
  const std::size_t width = kernel_width();
  if (numbers.empty() || numbers.size() % width != 0) return std::nullopt;
  constexpr double kMost = 1e18, kMostInteger = 1u << 31;
  gpu::KernelChain chain;
  auto next = numbers.begin();
  bool is_right = true;
  while (next != numbers.end()) {
    KernelTime kernel;
    visit_kernel(kernel, [&](auto& field) {
      const double value = *next++;
      using Field = std::remove_reference_t<decltype(field)>;
      constexpr bool is_whole = !std::is_floating_point_v<Field>;
      double most = is_whole ? kMostInteger : kMost;
      if (std::is_enum_v<Field>) most = gpu::kKernelLimitNames.size() - 1;
      if (std::is_same_v<Field, bool>) most = 1;
      is_right = is_right && value >= 0 && value <= most && (!is_whole || value == std::floor(value));
      if (is_right) field = static_cast<Field>(value);
    });
    is_right = is_right && kernel.seconds <= kLongestRunSeconds && kernel.ctas_per_sm >= 1 && kernel.clock_ratio > 0;
    if (!is_right) return std::nullopt;
    chain.add(kernel);
  }
  return chain;
}

}  // namespace railyard::scenario::own
