// DeepEP's configurations by number of ranks, and the buffers that follow.
#include <algorithm>
#include <array>

#include "collective/deepep.h"

namespace railyard::collective {

namespace {

constexpr std::array<DeepEpChunks, 12> kChunks{{{2, 24, 6, 10, 6, 256},
                                                {4, 6, 6, 9, 6, 256},
                                                {8, 6, 6, 4, 6, 256},
                                                {16, 36, 20, 4, 12, 288},
                                                {24, 32, 8, 1, 8, 288},
                                                {32, 32, 8, 1, 8, 288},
                                                {48, 32, 8, 1, 8, 288},
                                                {64, 32, 8, 1, 8, 288},
                                                {96, 20, 12, 1, 8, 480},
                                                {128, 20, 12, 1, 8, 560},
                                                {144, 32, 12, 2, 8, 720},
                                                {160, 28, 12, 2, 8, 720}}};

}  // namespace

const DeepEpChunks* deepep_chunks(std::uint32_t ranks) {
  const auto found =
      std::find_if(kChunks.begin(), kChunks.end(), [&](const DeepEpChunks& c) { return c.ranks == ranks; });
  return found == kChunks.end() ? nullptr : &*found;
}

std::string deepep_ranks() {
  std::string text;
  for (const DeepEpChunks& chunks : kChunks) text += (text.empty() ? "" : ", ") + std::to_string(chunks.ranks);
  return text;
}

Bytes deepep_buffer_bytes(std::uint32_t ranks, Bytes hidden_bytes) {
  constexpr Bytes kChannels = kDeepEpSms / 2, kMostTopK = 128, kMostScales = 128, kInt = 4, kIndex = 8, kFloat = 4,
                  kSource = 8, kHead = 16, kPeers = kDeepEpServerRanks, kAligned = 128;
  const Bytes token = hidden_bytes + kSource + kMostTopK * (kIndex + kFloat) + kMostScales * kFloat;
  const Bytes servers = std::max<Bytes>(1, ranks / kPeers), local = std::min<Bytes>(ranks, kPeers);
  const auto aligned = [&](Bytes bytes) { return ceil_div(bytes, kAligned) * kAligned; };
  const Bytes nvlink = kChannels * local * ((2 * servers + 3) * kInt + deepep_chunks(ranks)->room_nvlink * token);
  if (ranks <= kPeers) return aligned(nvlink);
  const Bytes network = kChannels * servers * 2 * ((2 * kPeers + 2) * kInt + kDeepEpRoomNetwork * (token + kHead));
  return aligned(nvlink) + aligned(network);
}

}  // namespace railyard::collective
