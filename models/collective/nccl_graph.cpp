#include "collective/nccl_graph.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace railyard::collective {

namespace {

using Speeds = std::vector<double>;

const Speeds& speeds_of(const NcclLinks& links) {
  const NcclTables::Generation& generation = nccl_tables().of(links.generation);
  return links.nics == 0 ? generation.one_server_speeds : generation.several_servers_speeds;
}

/// Whether `channels` chains through all GPUs of a server fit the GPUs' links. The last GPU of a chain sends to no
/// other GPU.
bool chains_fit(const NcclLinks& links, std::uint32_t channels, double speed) {
  if (links.gpus == 1) return true;
  const bool each_is_last = links.nics >= links.gpus && !links.gpu_to_nic;
  const std::uint32_t sending = channels - (each_is_last ? channels / links.gpus : 0);
  return sending * speed <= links.gpu;
}

/// Number of rings that fit at a speed. Over servers a ring enters the server by a NIC, and from there by PCIe to a GPU.
std::uint32_t rings_at(const NcclLinks& links, double speed) {
  const auto carried = [&](std::uint32_t parts, double rate) {
    return parts * static_cast<std::uint32_t>(rate / speed);
  };
  std::uint32_t most = nccl_tables().most_graph_channels;
  if (links.nics > 0) most = std::min({most, carried(links.nics, links.nic), carried(links.gpus, links.pcie)});
  while (most > 0 && !chains_fit(links, most, speed)) --most;
  return most;
}

/// Number of heads that fit at a speed. A GPU receives the slice of each head from the switch, and as a head also the
/// sum of its own slice.
std::uint32_t heads_at(const NcclLinks& links, double speed) {
  std::uint32_t most = std::min(nccl_tables().most_heads, links.gpus);
  if (links.nics > 0) most = std::min(most, speed <= links.nic ? links.nics : 0);
  while (most > 0 && (most + 1) * speed > links.gpu) --most;
  return most;
}

}  // namespace

NcclGraph ring_graph(const NcclLinks& links) {
  NcclGraph best;
  for (const double speed : speeds_of(links)) {
    if (best.channels > 0 && speed / best.inter <= nccl_tables().next_speed_ratio) break;
    const std::uint32_t channels = rings_at(links, speed);
    if (channels >= links.least && channels * speed > best.channels * best.inter) best = {channels, speed, speed};
    if (best.channels * best.inter >= links.gpu) break;
  }
  if (best.channels == 0) return {1, nccl_tables().slowest_gb_per_s, nccl_tables().slowest_gb_per_s};
  // A fast channel is split in two, because one CTA cannot keep up with it. From Hopper on, a CTA is faster.
  const bool splits = best.intra >= 50 || links.generation <= NcclGeneration::ampere || best.channels <= 4;
  if (best.intra >= 25 && splits) {
    const std::uint32_t channels = std::min(2 * best.channels, nccl_tables().most_graph_channels);
    const double share = std::ceil(static_cast<double>(channels) / best.channels);
    best = {channels, best.intra / share, best.inter / share};
  }
  const Speeds& speeds = speeds_of(links);
  for (auto speed = speeds.rbegin(); speed != speeds.rend(); ++speed) {
    if (*speed <= best.intra) continue;
    if (rings_at(links, *speed) < best.channels) break;
    best.intra = best.inter = *speed;
  }
  return best;
}

NcclGraph tree_graph(const NcclLinks& links, const NcclGraph& rings) {
  NcclGraph tree = rings;
  if (links.nics == 0) return tree;
  // With two servers, the links of a tree inside a server carry up to twice the rate over the network.
  const Speeds& speeds = speeds_of(links);
  for (auto speed = speeds.rbegin(); speed != speeds.rend() && tree.intra < 2 * tree.inter; ++speed) {
    if (*speed <= tree.intra) continue;
    if (!chains_fit(links, tree.channels, *speed)) break;
    tree.intra = *speed;
  }
  return tree;
}

NcclGraph nvls_graph(const NcclLinks& links) {
  NcclGraph best;
  const std::uint32_t all = std::min(nccl_tables().most_heads, links.gpus);
  const Speeds& speeds = speeds_of(links);
  for (const double speed : speeds) {
    if (best.channels > 0 && speed / best.inter <= nccl_tables().next_speed_ratio) break;
    const std::uint32_t heads = heads_at(links, speed);
    if (links.nics == 0 && heads < all) continue;  // one server: every GPU has to be a head
    if (heads > best.channels || heads * speed > best.channels * best.inter) best = {heads, speed, speed};
    if (best.channels == all) break;
  }
  for (auto speed = speeds.rbegin(); speed != speeds.rend() && best.inter < 2 * best.intra; ++speed) {
    if (*speed <= best.inter) continue;
    if (links.nics > 0 && *speed > links.nic) break;
    best.inter = *speed;
  }
  return best;
}

NcclGraph collnet_graph(const NcclLinks& links, std::uint32_t heads) {
  // A head sends to all others; every GPU sends to all heads.
  const double share = links.gpus > 1 ? 1 + (heads - 1.0) / (links.gpus - 1.0) : 0;
  const auto fits = [&](double speed) { return speed * share <= links.gpu; };
  const Speeds& speeds = speeds_of(links);
  NcclGraph best;
  for (const double speed : speeds) {
    if (speed > links.nic || !fits(speed)) continue;
    best = {heads, speed, speed};
    break;
  }
  for (auto speed = speeds.rbegin(); speed != speeds.rend() && best.intra < 2 * best.inter; ++speed) {
    if (*speed <= best.intra) continue;
    if (!fits(*speed)) break;
    best.intra = *speed;
  }
  return best;
}

std::uint32_t ring_channels(const NcclLinks& links, const NcclGraph& rings) {
  const std::uint32_t channels = 2 * rings.channels;
  const bool few = links.nics > 0 && links.generation >= NcclGeneration::hopper && rings.intra > 45 && channels < 16;
  return few ? 2 * channels : channels;
}

}  // namespace railyard::collective
