// The family rule: the constants that a GPU's datasheet takes from another one (docs/calibration.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "sc_main/scenario/datasheets/sheet_file.h"

namespace railyard::scenario {

namespace {

/// Adds inherited fields that `sheet` omits.
NodePtr with_inherited(const Fields& fields, const NodePtr& sheet, const Node& family) {
  if (sheet->kind != Node::Kind::mapping || family.kind != Node::Kind::mapping) return sheet;
  auto whole = std::make_shared<Node>(*sheet);
  for (const Field& field : fields) {
    const Entry* const theirs = family.find(field.key);
    const auto own =
        std::find_if(whole->entries.begin(), whole->entries.end(), [&](const Entry& e) { return e.key == field.key; });
    const bool is_missing = own == whole->entries.end();
    if (!theirs) continue;
    if (field.is_inherited) {
      if (is_missing) whole->entries.push_back(*theirs);
    } else if (field.kind == Field::Kind::mapping) {
      Node empty;
      empty.kind = Node::Kind::mapping;
      empty.origin = sheet->origin;
      const NodePtr filled =
          with_inherited(*field.members, is_missing ? std::make_shared<const Node>(empty) : own->value, *theirs->value);
      if (!is_missing)
        own->value = filled;
      else if (!filled->entries.empty())
        whole->entries.push_back({field.key, sheet->origin, filled});
    }
  }
  return whole;
}

/// The value of a key of a section, or nullptr.
const Node* value_of(const Node& sheet, const std::string& section, const std::string& key) {
  const Entry* const entry = sheet.kind == Node::Kind::mapping ? sheet.find(section) : nullptr;
  const Entry* const value = entry && entry->value->kind == Node::Kind::mapping ? entry->value->find(key) : nullptr;
  return value ? value->value.get() : nullptr;
}

/// A number of a section; 0 if there is none.
double number_at(const Node& sheet, const std::string& section, const std::string& key) {
  const Node* const value = value_of(sheet, section, key);
  return value && value->kind == Node::Kind::scalar ? std::strtod(value->text.c_str(), nullptr) : 0;
}

/// Power per tensor FLOP of the peak, times the root of the FLOP per clock. The energy of a FLOP falls with the root of
/// an SM's tensor rate: the operands of a larger unit are used more often.
double power_headroom(const Node& sheet) {
  const Entry* const sm = sheet.find("sm");
  const double rate = sm ? number_at(*sm->value, "flop_per_clock", "fp16") : 0;
  const double peak = rate * number_at(sheet, "sm", "count") * number_at(sheet, "sm", "clock_mhz");
  return peak > 0 ? number_at(sheet, "sm", "power_w") * std::sqrt(rate) / peak : 0;
}

std::string architecture_of(const Node& sheet) {
  const Entry* const entry = sheet.find("architecture");
  return entry ? entry->value->text : std::string();
}

/// Gives a key another value, unless the GPU has one of its own. @pre the key is in the section
void replace(Node& sheet, const Node& own, const std::string& section, const std::string& key, double value) {
  if (value_of(own, section, key) || !value_of(sheet, section, key)) return;
  const auto with = [](const Node& mapping, const std::string& name, NodePtr changed) {
    auto copy = std::make_shared<Node>(mapping);
    for (Entry& entry : copy->entries)
      if (entry.key == name) entry.value = std::move(changed);
    return copy;
  };
  auto number = std::make_shared<Node>(*value_of(sheet, section, key));
  number->text = fmt::format("{}", value);
  sheet = *with(sheet, section, with(*sheet.find(section)->value, key, std::move(number)));
}

/// The efficiency of tensor cores under the power limit, for a family of another architecture: that of the family
/// times the ratio of headrooms, where the GPU has no efficiency of its own. (A family whose bursts are not throttled
/// has the headroom for its bursts.) In a burst, kBurstLoss of the loss by the power limit has set in already. See the
/// family rule in docs/calibration.md.
void set_power_limit(Node& sheet, const Node& own, const Node& family) {
  constexpr double kMost = 0.98, kBurstLoss = 0.4, kThrottleUs = 1000;
  const double headroom = power_headroom(own), theirs = power_headroom(family);
  if (headroom <= 0 || theirs <= 0 || architecture_of(own) == architecture_of(family)) return;
  const bool throttles = number_at(family, "sm", "throttle_us") > 0;
  const auto limited = [&](const std::string& key) {
    return std::min(kMost, number_at(family, "sm", key) * headroom / theirs);
  };
  const double sustained = limited(throttles ? "sustained_efficiency_ratio" : "burst_efficiency_ratio");
  replace(sheet, own, "sm", "low_precision_sustained_ratio", limited("low_precision_sustained_ratio"));
  if (value_of(own, "sm", "sustained_efficiency_ratio")) return;
  replace(sheet, own, "sm", "sustained_efficiency_ratio", sustained);
  replace(sheet, own, "sm", "burst_efficiency_ratio", 1 - kBurstLoss * (1 - sustained));
  if (!throttles) replace(sheet, own, "sm", "throttle_us", kThrottleUs);
}

/// Times in which SMs execute instructions follow their clock, and so do rates that such times limit. Kernels of
/// collectives draw little power and run at the highest clock, if both GPUs name it. See the family rule in
/// docs/calibration.md.
void set_by_clock(Node& sheet, const Node& own, const Node& family) {
  constexpr std::array<const char*, 2> kKernelTimes = {"gemm_fixed_us", "decode_attention_fixed_us"};
  constexpr std::array<const char*, 13> kCollectiveTimes = {
      "launch_us",       "wide_launch_us",  "graph_launch_us", "p2p_launch_us",  "ll_step_ns",
      "ll_wide_step_ns", "ll_line_ns",      "ll128_step_ns",   "simple_step_ns", "nvls_step_ns",
      "custom_step_ns",  "custom_fence_ns", "custom_pull_ns"};
  constexpr std::array<const char*, 6> kCollectiveRates = {"ll128_gb_per_s", "simple_gb_per_s",   "p2p_gb_per_s",
                                                           "nvls_gb_per_s",  "p2p_copy_gb_per_s", "custom_gb_per_s"};
  const double clock = number_at(own, "sm", "clock_mhz"), theirs = number_at(family, "sm", "clock_mhz");
  if (clock <= 0 || theirs <= 0) return;
  const auto scale = [&](const std::string& section, const std::string& key, double factor) {
    replace(sheet, own, section, key, number_at(family, section, key) * factor);
  };
  const double boost = number_at(own, "sm", "boost_mhz"), their_boost = number_at(family, "sm", "boost_mhz");
  const bool known = boost > 0 && their_boost > 0;
  const double highest = known ? boost : clock, their_highest = known ? their_boost : theirs;
  for (const char* key : kKernelTimes) scale("kernel", key, theirs / clock);
  for (const char* key : kCollectiveTimes) scale("collective", key, their_highest / highest);
  for (const char* key : kCollectiveRates) scale("collective", key, highest / their_highest);
}

/// A family can belong to another family.
Sheet open_gpu(const DatasheetName& which, const Fields& fields, std::uint32_t followers) {
  check_chain(which, "family", followers);
  Sheet sheet = open_sheet("gpus", which);
  const Entry* const family = sheet.root->find("family");
  if (!family) return sheet;
  const Sheet base = open_gpu(named_in(sheet, *family), fields, followers + 1);
  const NodePtr own = sheet.root;
  const auto whole = std::make_shared<Node>(*with_inherited(fields, own, *base.root));
  if (own->kind == Node::Kind::mapping && base.root->kind == Node::Kind::mapping) {
    set_power_limit(*whole, *own, *base.root);
    set_by_clock(*whole, *own, *base.root);
  }
  sheet.root = whole;
  return sheet;
}

}  // namespace

Sheet open_gpu(const DatasheetName& which, const Fields& fields) { return open_gpu(which, fields, 0); }

}  // namespace railyard::scenario
