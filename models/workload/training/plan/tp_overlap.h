// How the products of a layer meet their tensor-parallel collectives, by the key tp_overlap: a word for each of the
// twelve products of a layer's four matrices.
//
//   qkv, fc1   fprop  the input is gathered before it          proj, fc2  fprop  the result is summed after it
//              dgrad  the result is summed after it, or the               dgrad  the gradient of the output is
//                     saved input is gathered beside it                          gathered before it
//              wgrad  gradients of the input are summed beside it         wgrad  meets no collective
//
// Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "transformer/linears.h"
#include "transformer/training_form.h"
#include "workload/linear/coupled_product.h"

namespace railyard::workload::training {

enum class OverlapWord : std::uint8_t { none, ring, pipelined, bulk, decomposed, fused, userbuffers };
constexpr std::array<const char*, 7> kOverlapWordNames{"none",       "ring",  "pipelined",  "bulk",
                                                       "decomposed", "fused", "userbuffers"};

class TpOverlap {
 public:
  static constexpr std::size_t kProducts = 12;
  static transformer::LinearUse use_of(std::size_t product) {
    return {static_cast<transformer::Linear>(product / 3), static_cast<transformer::Product>(product % 3)};
  }
  /// "qkv_fprop", ...
  static std::string name_of(std::size_t product);

  /// Whether a word is for a product. none and userbuffers are for all.
  static bool accepts(transformer::LinearUse use, OverlapWord word);
  /// The method of userbuffers, TransformerEngine's default for this product (pytorch/module/base.py,
  /// initialize_ub): rings of chunks by copy engines, reduce-scatters in 4 pieces and bulk collectives on 16 SMs.
  static OverlapWord of_userbuffers(transformer::LinearUse use);

  /// For each product that the word is for; the others have none.
  void set_all(OverlapWord word);
  /// @pre accepts()
  void set(std::size_t product, OverlapWord word) { words_[product] = word; }
  /// SMs of the collectives of a product with pipelined or bulk.
  void set_comm_sms(std::size_t product, std::uint32_t sms) { comm_sms_[product] = sms; }
  /// Whether the product's method divides the gather of its operand.
  bool gathers(std::size_t product) const;
  /// Products whose operand is gathered before it run after the gather. Row-wise fp8 needs this: PyTorch fuses a product
  /// only with a gather of its narrow operand, and torchao narrows after the gather (pytorch/pytorch issue 149990).
  void drop_gathers();
  /// Never userbuffers: its method.
  OverlapWord word(transformer::LinearUse use) const;
  /// How the product and the collective before or after it run; none: one after the other.
  std::optional<linear::Method> method(transformer::LinearUse use) const;
  /// For the method.
  linear::Options options(transformer::LinearUse use) const;
  /// The most of any product with pipelined or bulk.
  std::uint32_t most_comm_sms() const;
  bool any() const;
  /// Whether a product has this method.
  bool uses(OverlapWord method) const;
  /// Whether a product has the word userbuffers.
  bool has_userbuffers() const;
  /// Where a whole backward pass sums the gradient of a part's input, by LayerPart.
  std::array<transformer::InputReduce, 4> input_reduce(bool software_beside_wgrad) const;

  static constexpr linear::Options kOptions{};  ///< TransformerEngine's defaults

 private:
  static std::size_t place_of(transformer::LinearUse use) {
    return static_cast<std::size_t>(use.linear) * 3 + static_cast<std::size_t>(use.product);
  }

  std::array<OverlapWord, kProducts> words_{};
  std::array<std::uint32_t, kProducts> comm_sms_{};  ///< 0: TransformerEngine's default
};

}  // namespace railyard::workload::training
