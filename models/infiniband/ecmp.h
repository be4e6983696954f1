// The hash by which ECMP picks a path for a queue pair. Apart from the switch, because the paths of messages that are not
// simulated are found as well (platforms/fat_tree.h).
#pragma once

#include <cstdint>
#include <initializer_list>

namespace railyard::infiniband {

/// FNV-1a over the seed and the identity of a queue pair.
/// @param identity  the LID; for messages also the windows of source and destination, and the queue pair with its class
inline std::uint64_t ecmp_hash(std::uint64_t seed, std::initializer_list<std::uint32_t> identity) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto mix = [&](std::uint32_t word) {
    for (int byte = 0; byte < 4; ++byte, word >>= 8) hash = (hash ^ (word & 0xff)) * 0x100000001b3ull;
  };
  mix(static_cast<std::uint32_t>(seed));
  mix(static_cast<std::uint32_t>(seed >> 32));
  for (const std::uint32_t word : identity) mix(word);
  return hash ^ hash >> 32;
}

}  // namespace railyard::infiniband
