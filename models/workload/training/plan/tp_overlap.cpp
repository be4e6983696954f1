#include "workload/training/plan/tp_overlap.h"

#include <algorithm>

namespace railyard::workload::training {

using transformer::InputReduce;
using transformer::Linear;
using transformer::LinearUse;
using transformer::Product;

namespace {

constexpr std::array<const char*, 4> kLinears{"qkv", "proj", "fc1", "fc2"};
constexpr std::array<const char*, 3> kProductNames{"fprop", "dgrad", "wgrad"};

}  // namespace

std::string TpOverlap::name_of(std::size_t product) {
  return std::string(kLinears[product / 3]) + "_" + kProductNames[product % 3];
}

bool TpOverlap::accepts(LinearUse use, OverlapWord word) {
  const bool column = transformer::is_column_parallel(use.linear);
  const bool gathers = use.product == (column ? Product::fprop : Product::dgrad);
  const bool sums = use.product == (column ? Product::dgrad : Product::fprop);
  switch (word) {
    case OverlapWord::none:
    case OverlapWord::userbuffers: return true;
    case OverlapWord::ring: return gathers;
    case OverlapWord::pipelined: return sums;
    case OverlapWord::bulk: return column && use.product != Product::fprop;
    case OverlapWord::decomposed:
    case OverlapWord::fused: return gathers || sums;
  }
  return false;
}

OverlapWord TpOverlap::of_userbuffers(LinearUse use) {
  for (const OverlapWord word : {OverlapWord::ring, OverlapWord::bulk, OverlapWord::pipelined})
    if (accepts(use, word)) return word;
  return OverlapWord::none;
}

void TpOverlap::set_all(OverlapWord word) {
  for (std::size_t p = 0; p < kProducts; ++p) words_[p] = accepts(use_of(p), word) ? word : OverlapWord::none;
}

OverlapWord TpOverlap::word(LinearUse use) const {
  const std::size_t product = place_of(use);
  if (product >= kProducts) return OverlapWord::none;  // embedding and head
  return words_[product] == OverlapWord::userbuffers ? of_userbuffers(use) : words_[product];
}

bool TpOverlap::gathers(std::size_t product) const {
  const LinearUse use = use_of(product);
  const bool column = transformer::is_column_parallel(use.linear);
  return method(use).has_value() && use.product == (column ? Product::fprop : Product::dgrad);
}

void TpOverlap::drop_gathers() {
  for (std::size_t p = 0; p < kProducts; ++p)
    if (gathers(p)) words_[p] = OverlapWord::none;
}

std::optional<linear::Method> TpOverlap::method(LinearUse use) const {
  switch (word(use)) {
    case OverlapWord::ring: return linear::Method::ring;
    case OverlapWord::pipelined: return linear::Method::pipelined;
    case OverlapWord::decomposed: return linear::Method::decomposed;
    case OverlapWord::fused: return linear::Method::fused;
    default: return {};
  }
}

linear::Options TpOverlap::options(LinearUse use) const {
  linear::Options options = kOptions;
  if (const std::uint32_t sms = comm_sms_[place_of(use)]; sms > 0) options.comm_sms = sms;
  return options;
}

std::uint32_t TpOverlap::most_comm_sms() const {
  std::uint32_t most = 0;
  for (std::size_t p = 0; p < kProducts; ++p)
    if (const OverlapWord found = word(use_of(p)); found == OverlapWord::pipelined || found == OverlapWord::bulk)
      most = std::max(most, options(use_of(p)).comm_sms);
  return most;
}

bool TpOverlap::any() const {
  return std::any_of(words_.begin(), words_.end(), [](OverlapWord word) { return word != OverlapWord::none; });
}

bool TpOverlap::uses(OverlapWord method) const {
  for (std::size_t p = 0; p < kProducts; ++p)
    if (word(use_of(p)) == method) return true;
  return false;
}

bool TpOverlap::has_userbuffers() const {
  return std::find(words_.begin(), words_.end(), OverlapWord::userbuffers) != words_.end();
}

std::array<InputReduce, 4> TpOverlap::input_reduce(bool software_beside_wgrad) const {
  const auto of = [&](Linear linear) {
    if (method({linear, Product::dgrad})) return InputReduce::after_dgrad;
    const bool beside = software_beside_wgrad || word({linear, Product::wgrad}) == OverlapWord::bulk;
    return beside ? InputReduce::beside_wgrad : InputReduce::after_wgrad;
  };
  return {of(Linear::qkv), of(Linear::fc1), of(Linear::embedding), of(Linear::head)};
}

}  // namespace railyard::workload::training
