// Rounds: a channel moves its bytes chunk by chunk. All rounds but the last one are full, as in NCCL (the loops of
// NVIDIA/nccl src/device/*.h), so that a vector with one byte more has one short round more and no shorter chunks.
#pragma once

#include <algorithm>

#include "collective/program.h"

namespace railyard::collective {

/// Bytes of a full round: a chunk of each of `channels`; 0: one round has no limit.
inline Bytes round_bytes(const CollectiveSpec& spec, std::uint32_t channels) { return spec.chunk_bytes * channels; }

/// The bytes of round `index`. Beyond the last round there are none: of two vectors whose lengths differ by a byte, the
/// shorter one can have a round less.
inline Range of_round(const Range& range, Bytes round, std::uint64_t index) {
  if (round == 0) return range;
  const Bytes from = std::min(range.bytes, round * index);
  return {range.offset + from, std::min(round, range.bytes - from)};
}

}  // namespace railyard::collective
