#include "transport/fluid/path_shape.h"

#include <algorithm>
#include <array>

namespace railyard::transport {

namespace {

/// Numbers of slots. They are prime, because sizes are often multiples of the bytes of a token.
constexpr std::array<std::size_t, 5> kSlots = {2, 13, 61, 251, 1021};
constexpr std::size_t kPlacedPerSlot = 4;  ///< then there are more slots

}  // namespace

SizedMessage& PathShape::place(Bytes bytes) {
  if (++placed_ > kPlacedPerSlot * slots_.size()) {
    const auto* const more = std::upper_bound(kSlots.begin(), kSlots.end(), slots_.size());
    if (more != kSlots.end()) {
      slots_.assign(*more, {});
      placed_ = 1;
    }
  }
  return slots_[bytes % slots_.size()];
}

std::uint64_t PathShapes::number_of(const LinkDirection& link) {
  const auto found = std::find(links_.begin(), links_.end(), link);
  if (found != links_.end()) return static_cast<std::uint64_t>(found - links_.begin());
  links_.push_back(link);
  return links_.size() - 1;
}

}  // namespace railyard::transport
