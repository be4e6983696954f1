// NCCL's choice of algorithm, protocol, channels and threads: nccl_plan() of tuner.h.
#include <algorithm>
#include <cmath>

#include "collective/nccl_graph.h"
#include "collective/tuner.h"
#include "gpu/kernels/device_terms.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::collective {

namespace {

constexpr double kNever = 1e30;

std::uint32_t generation_of(const gpu::GpuDatasheet::NvLink& nvlink) {
  return std::min<std::uint32_t>(nvlink.generation, nccl_tables().nvlink.size() - 1);
}
bool has_card_nvlink(const gpu::GpuDatasheet& gpu) {
  return gpu.nvlink.generation == 3 && gpu::small_shared_memory(gpu);
}
double pcie_gb_per_s(std::uint32_t generation) { return 3.0 * std::pow(2, static_cast<double>(generation) - 1); }
const NcclTables::NvLink& nvlink_of(const gpu::GpuDatasheet& gpu) {
  return has_card_nvlink(gpu) ? nccl_tables().card_nvlink : nccl_tables().nvlink[generation_of(gpu.nvlink)];
}

/// Rounded down.
std::uint32_t log2_of(std::uint64_t value) {
  std::uint32_t log2 = 0;
  while (value >>= 1) ++log2;
  return log2;
}

/// From a member to all others of its server.
double nvlink_gb_per_s(const Site& site) {
  const gpu::GpuDatasheet& gpu = *site.gpu;
  const std::uint32_t others = site.ranks / site.servers - 1;
  return (site.mesh_links != 0 ? site.mesh_links * others : gpu.nvlink.links) * nvlink_of(gpu).planned_gb_per_s;
}

/// From GPU to GPU over PCIe, of links with this rate.
double peers_gb_per_s(const Site& site, double pcie) {
  const NcclTables& nccl = nccl_tables();
  if (site.roots == 0 || (is_amd(site.cpu) && site.roots == 1)) return pcie;
  if (site.roots == 1) return pcie / nccl.intel_peer_cost_ratio;
  const bool gen5 = site.root_gb_per_s > nccl.gen5_root_gb_per_s;
  const double intel = gen5 ? nccl.intel_gen5_sockets_gb_per_s : nccl.intel_sockets_gb_per_s;
  return std::min(pcie, is_amd(site.cpu) ? nccl.amd_sockets_gb_per_s : intel);
}

/// The links that a search for graphs divides among channels.
NcclLinks links_of(const Site& site) {
  const gpu::GpuDatasheet& gpu = *site.gpu;
  const double pcie = pcie_gb_per_s(gpu.pcie.generation) * gpu.pcie.lanes / 16;
  NcclLinks links;
  links.generation = nccl_generation(gpu.architecture);
  links.gpus = std::max(1u, site.ranks / site.servers);
  // A lone GPU of a mesh has no NVLink to another member: as in NCCL's getTotalBw, its widest links count.
  links.gpu = site.nvlink ? std::max(pcie, nvlink_gb_per_s(site)) : peers_gb_per_s(site, pcie);
  links.gpu_to_nic = !site.nvlink;
  links.least = site.halves ? 2 : 1;
  links.nics = site.servers > 1 ? site.nics : 0;
  links.nic = std::min(site.network_gb_per_s, pcie);
  links.pcie = pcie;
  return links;
}

/// NCCL plans two servers with the rate inside a server, and more servers with the rate of the network.
double planned_gb_per_s(const Site& site, const NcclGraph& graph) {
  return graph.channels * (site.servers <= 2 ? graph.intra : graph.inter);
}

double ll_most_gb_per_s(const Site& site, NcclGeneration generation) {
  const NcclTables& nccl = nccl_tables();
  if (site.servers == 1) return nccl.of(generation).ll_gb_per_s;
  return (is_amd(site.cpu) ? nccl.amd_ll_gb_per_s : nccl.intel_ll_gb_per_s).of(site.servers);
}

/// `channels`, or fewer by the user's limit.
std::uint32_t limited(const Site& site, std::uint32_t channels) {
  return std::max(1u, site.most_channels > 0 ? std::min(channels, site.most_channels) : channels);
}

/// Number of CTAs of rings and trees.
std::uint32_t most_channels(const Site& site) { return limited(site, nccl_channels(site)); }

double ring_us(const Site& site, Operation op, Bytes bytes, Protocol protocol) {
  const NcclTables& nccl = nccl_tables();
  const NcclLinks links = links_of(site);
  const NcclGraph graph = ring_graph(links);
  const NcclTables::Generation& generation = nccl.of(links.generation);
  const double n = site.ranks, servers = site.servers;
  const bool all_reduce = op == Operation::all_reduce, rooted = is_rooted(op);
  const double steps = all_reduce ? 2 * (n - 1) : rooted ? n : n - 1;
  const NcclTables::Hop& hop = site.nvlink ? nccl.nvlink_hop : nccl.pcie_hop;
  double gb_per_s = planned_gb_per_s(site, graph);
  if (protocol == Protocol::ll) gb_per_s = std::min(ll_most_gb_per_s(site, links.generation), 0.5 * gb_per_s);
  if (protocol == Protocol::ll128)
    gb_per_s = std::min(0.92 * gb_per_s, graph.channels * generation.ring_ll128_gb_per_s);
  double latency_us = nccl.ring_base_us.of(protocol);
  if (rooted && site.servers == 1) {
    latency_us += hop.ring_us.of(protocol);  // if all channels run in the same direction
  } else if (rooted) {
    latency_us +=
        steps * (protocol == Protocol::simple ? nccl.network_hop.tree_us : nccl.network_hop.ring_us).of(protocol);
  } else {
    const double over_network = (all_reduce ? 2 : 1) * (servers - 1);
    const double post = is_amd(site.cpu) ? nccl.amd_post_us : nccl.intel_post_us;
    const double overhead = site.servers > 1 ? post * (protocol == Protocol::simple ? nccl.simple_posts : 1) : 0;
    const double network = (links.gpus == 1 ? nccl.network_hop.tree_us : nccl.network_hop.ring_us).of(protocol);
    latency_us += (steps - over_network) * std::max(hop.ring_us.of(protocol), overhead) + over_network * network;
    const bool plateau = protocol == Protocol::simple && site.servers > 1 && all_reduce &&
                         bytes / (most_channels(site) * site.ranks) >= nccl.plateau_bytes;
    if (plateau) latency_us *= generation.plateau_ratio;
  }
  return latency_us + static_cast<double>(bytes) * steps / (1000 * gb_per_s * n);
}

/// Share of a tree's bandwidth that NCCL expects at a size.
double tree_share(Protocol protocol, Bytes bytes, std::uint32_t sizes) {
  const std::uint32_t size = log2_of(bytes / 64);
  return bytes >= 64 && size < sizes ? nccl_tables().tree_ratio.of(protocol)[size] : 1;
}

double tree_us(const Site& site, Bytes bytes, Protocol protocol) {
  const NcclTables& nccl = nccl_tables();
  const NcclLinks links = links_of(site);
  const NcclGraph graph = tree_graph(links, ring_graph(links));
  const NcclTables::Generation& generation = nccl.of(links.generation);
  const double channels = graph.channels;
  const NcclTables::Hop& hop = site.nvlink ? nccl.nvlink_hop : nccl.pcie_hop;
  double gb_per_s =
      std::min(0.92 * planned_gb_per_s(site, graph), channels * generation.tree_gb_per_s.of(site.servers));
  if (protocol == Protocol::ll) gb_per_s = std::min(gb_per_s / 3.8, ll_most_gb_per_s(site, links.generation));
  if (protocol == Protocol::ll128)
    gb_per_s = std::min(gb_per_s * (site.servers > 1 ? 120.0 / 128 : 7.0 / 9),
                        channels * generation.tree_ll128_gb_per_s.of(site.servers));
  if (links.gpus == 1) gb_per_s *= nccl.lone_gpu_tree_ratio;
  gb_per_s *= 0.5 * tree_share(protocol, bytes, nccl.tree_sizes);
  const double latency_us =
      nccl.tree_base_us.of(protocol) +
      2 * ((links.gpus - 1) * hop.tree_us.of(protocol) + log2_of(site.servers) * nccl.network_hop.tree_us.of(protocol));
  return latency_us + static_cast<double>(bytes) / (1000 * gb_per_s);
}

/// Planned time of an all-reduce in the switches.
double nvls_us(const Site& site, Bytes bytes, Algorithm algorithm) {
  const NcclLinks links = links_of(site);
  const NcclGraph graph = nvls_graph(links);
  if (graph.channels < 2) return kNever;
  const NcclTables& nccl = nccl_tables();
  const NcclTables::Generation& generation = nccl.of(links.generation);
  const double n = site.ranks, heads = graph.channels;
  const bool over_network = algorithm == Algorithm::nvls_tree;
  double head = 2 * graph.intra * generation.nvls_efficiency_ratio * (heads - 1) / heads;
  head = std::min(head, graph.inter * (over_network && site.servers == 2 ? 2 : 1));
  double latency_us = nccl.nvlink_hop.nvls_us;
  if (algorithm == Algorithm::nvls && site.servers > 1) latency_us += nccl.network_hop.nvls_us;
  if (over_network) {
    head = std::min(head, generation.nvls_tree_gb_per_s.of(site.servers));
    latency_us += 2 * log2_of(site.servers) * nccl.network_hop.nvls_tree_us;
  }
  double gb_per_s = heads * head * n / (2 * (n - 1));
  const bool grace = site.gpu->c2c.gb_per_s > 0;
  if (over_network && links.generation == NcclGeneration::blackwell && !grace)
    gb_per_s *= tree_share(Protocol::simple, bytes, nccl.tree_ratio.simple.size());
  return latency_us + static_cast<double>(bytes) / (1000 * gb_per_s);
}

/// Planned time of an all-reduce that the network adds.
double collnet_us(const Site& site, Bytes bytes) {
  const NcclLinks links = links_of(site);
  const NcclGraph graph = collnet_graph(links, site.heads);
  if (graph.channels == 0) return kNever;
  const NcclTables& nccl = nccl_tables();
  const double gpus_of_nic = static_cast<double>(links.gpus) / graph.channels;
  double gb_per_s = graph.channels * graph.intra / (gpus_of_nic - (gpus_of_nic - 1) / 2) / 2;
  if (links.generation >= NcclGeneration::hopper) gb_per_s *= nccl.collnet_from_hopper_ratio;
  const double others = links.gpus - 1.0;
  const double inside_us = std::min(1.0, others) * nccl.nvlink_hop.collnet_direct_us + others * nccl.collnet_member_us;
  const double network_us = links.gpus == 1 ? nccl.network_hop.tree_us.simple : nccl.network_hop.collnet_direct_us;
  return 2 * inside_us + network_us + static_cast<double>(bytes) / (1000 * gb_per_s);
}

double time_us(const Site& site, Operation op, Bytes bytes, Algorithm algorithm, Protocol protocol) {
  switch (algorithm) {
    case Algorithm::ring: return ring_us(site, op, bytes, protocol);
    case Algorithm::tree: return tree_us(site, bytes, protocol);
    case Algorithm::nvls:
    case Algorithm::nvls_tree: return nvls_us(site, bytes, algorithm);
    case Algorithm::collnet_direct: return collnet_us(site, bytes);
    default: return kNever;
  }
}

/// Number of CTAs of in-switch kernels.
std::uint32_t nvls_channels(const Site& site, Algorithm algorithm) {
  if (algorithm == Algorithm::nvls && site.servers > 1)
    return limited(site, std::min(nccl_channels(site), site.gpu->collective.nvls_channels));
  const bool blackwell = nccl_generation(site.gpu->architecture) == NcclGeneration::blackwell;
  return limited(site, blackwell && site.servers > 1 ? nccl_tables().blackwell_nvls_tree_channels
                                                     : site.gpu->collective.nvls_channels);
}

/// Channels that have enough bytes for their threads. Fewer than 16, 8, 4, 2 need half as many bytes each.
std::uint32_t collnet_channels(const Site& site, Bytes bytes, std::uint32_t most) {
  std::uint32_t channels = most;
  const NcclTables& nccl = nccl_tables();
  Bytes threshold = nccl.collnet_thread_bytes;
  const auto few_bytes = [&] { return bytes < channels * nccl.collnet_threads * site.heads * threshold; };
  for (std::uint32_t next = 16; next >= 1 && few_bytes(); next /= 2) {
    while (few_bytes() && channels > next) {
      if (channels == next + next / 2) threshold /= 2;
      --channels;
    }
  }
  return channels;
}

/// Whether NCCL considers this combination.
bool allowed(const Site& site, Operation op, Algorithm algorithm, Protocol protocol) {
  const NcclGeneration g = nccl_generation(site.gpu->architecture);
  if (protocol == Protocol::ll128 && !site.nvlink) return false;
  switch (algorithm) {
    case Algorithm::ring: return op != Operation::all_to_all && op != Operation::send_recv;
    case Algorithm::tree: return op == Operation::all_reduce;
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      // All-gathers use the switch only with registered buffers; nccl-tests does not register them.
      return protocol == Protocol::simple && op == Operation::all_reduce && site.multicast &&
             nccl_tables().of(g).nvls_efficiency_ratio > 0 && site.ranks / site.servers > 2 &&
             (algorithm == Algorithm::nvls ? site.servers == 1 || site.heads == site.ranks / site.servers
                                           : site.servers > 1);
    case Algorithm::collnet_direct:  // NVSwitches are required
      return protocol == Protocol::simple && op == Operation::all_reduce && site.heads > 0 && site.nvlink &&
             site.mesh_links == 0 && site.ranks / site.servers <= nccl_tables().collnet_most_gpus;
    default: return false;
  }
}

}  // namespace

std::uint32_t nccl_channels(const Site& site) {
  const NcclLinks links = links_of(site);
  return std::min(site.gpu->collective.channels, ring_channels(links, ring_graph(links)));
}

NcclPlan nccl_plan(const Site& site, Operation operation, Bytes bytes, std::optional<Algorithm> algorithm,
                   std::optional<Protocol> protocol) {
  NcclPlan best;
  best.algorithm = algorithm.value_or(Algorithm::ring);
  best.protocol = protocol.value_or(Protocol::simple);
  double least = 1e29;
  for (const Algorithm a :
       {Algorithm::ring, Algorithm::tree, Algorithm::nvls, Algorithm::nvls_tree, Algorithm::collnet_direct}) {
    for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
      if ((algorithm && *algorithm != a) || (protocol && *protocol != p)) continue;
      if (!allowed(site, operation, a, p)) continue;
      const double t = time_us(site, operation, bytes, a, p);
      if (t >= least) continue;
      least = t;
      best.algorithm = a;
      best.protocol = p;
    }
  }
  const NcclTables& nccl = nccl_tables();
  best.threads = nccl.most_threads.of(best.protocol);
  const bool in_switch = best.algorithm == Algorithm::nvls || best.algorithm == Algorithm::nvls_tree;
  best.channels = in_switch ? nvls_channels(site, best.algorithm) : most_channels(site);
  if (best.algorithm == Algorithm::collnet_direct && site.heads > 0) {
    best.channels = collnet_channels(site, bytes, best.channels);
    return best;
  }
  const Bytes threshold = static_cast<Bytes>(nccl.thread_bytes.of(best.protocol)) *
                          (best.protocol == Protocol::ll && best.algorithm == Algorithm::ring ? site.ranks : 1);
  while (!in_switch && bytes < best.channels * best.threads * threshold) {
    if (best.channels >= 2) {
      --best.channels;
    } else if (best.threads > nccl.least_threads && best.threads % (2 * nccl.least_threads) == 0) {
      best.threads /= 2;
    } else {
      break;
    }
  }
  return best;
}

namespace {

/// Rate of the NVLinks over that of their generation, with which NCCL plans.
double wire_ratio(const Site& site) {
  const gpu::GpuDatasheet::NvLink& nvlink = site.gpu->nvlink;
  const double planned = nvlink_of(*site.gpu).wire_gb_per_s;
  return site.nvlink && planned > 0 ? nvlink.gb_per_s / planned : 1;
}

/// Time in which the thread blocks of a member copy its part of a collective.
double copied_s(const Site& site, Operation operation, Bytes bytes, const NcclPlan& plan) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  const bool in_switch = plan.algorithm == Algorithm::nvls || plan.algorithm == Algorithm::nvls_tree;
  const double channel = in_switch                          ? c.nvls_gb_per_s
                         : plan.protocol == Protocol::ll128 ? c.ll128_gb_per_s
                                                            : c.simple_gb_per_s;
  const double passes = operation == Operation::all_reduce && !in_switch ? 2 : 1;
  return passes * static_cast<double>(bytes) * (site.ranks - 1) / site.ranks / (channel * plan.channels * 1e9);
}

}  // namespace

/// NCCL expects NVLinks of their generation's rate. Links of another rate change the time of the bytes inside a server,
/// down to what the thread blocks need to copy them.
double planned_s(const Site& site, Operation operation, Bytes bytes) {
  const double wires = site.servers == 1 ? wire_ratio(site) : 1;
  if (operation != Operation::all_to_all && operation != Operation::send_recv) {
    const NcclPlan plan = nccl_plan(site, operation, bytes, {}, {});
    const double all_us = time_us(site, operation, bytes, plan.algorithm, plan.protocol);
    const double fixed_us = std::min(all_us, time_us(site, operation, 0, plan.algorithm, plan.protocol));
    const double carried_us = all_us - fixed_us;
    const double copied_us = std::min(carried_us, copied_s(site, operation, bytes, plan) * 1e6);
    return (fixed_us + std::max(carried_us / wires, copied_us)) * 1e-6;
  }
  NcclLinks links = links_of(site);
  links.gpu *= wires;
  const double nic = links.nic * links.nics / links.gpus, all = static_cast<double>(bytes), peer = all / site.ranks;
  if (operation == Operation::send_recv) return all / (site.servers > 1 ? nic : links.gpu) * 1e-9;
  const double inside = peer * (links.gpus - 1) / links.gpu;
  const double across = site.servers > 1 ? peer * (site.ranks - links.gpus) / nic : 0;
  return std::max(inside, across) * 1e-9;
}

}  // namespace railyard::collective
