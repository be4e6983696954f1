#include "collective/tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "collective/nccl_graph.h"
#include "collective/program.h"
#include "infiniband/nic.h"
#include "transport/fabric.h"

namespace railyard::collective {

namespace {

// ---- NCCL's own constants for its choice (v2.29.2, the version of the open tables for Hopper and Blackwell).
// Arrays over protocols are [Simple, LL, LL128], as in the enum.

constexpr std::size_t kProtocols = 3;
using PerProtocol = std::array<double, kProtocols>;

constexpr PerProtocol kRingBaseUs{8.4, 6.6, 14.0}, kTreeBaseUs{8.4, 6.8, 14.0};
struct HopUs {
  PerProtocol tree, ring;
  double nvls;
  double nvls_tree;
};
constexpr HopUs kNvlinkHopUs{{4.0, 0.6, 1.25}, {3.4, 0.6, 1.9}, 25, 25};
constexpr HopUs kPcieHopUs{{4.0, 1.0, 1.9}, {5.7, 1.0, 2.5}, 0, 0};
constexpr HopUs kNetworkHopUs{{14, 5.0, 8.5}, {14, 2.7, 4.0}, 18, 20.9};
// Per inner hop of a ring across servers, by CPU: Intel and others, AMD. Simple: three times this.
constexpr double kNetworkOverheadUs[2] = {1, 2};
// Rings across servers have a plateau: in Simple, from kPlateauBytes per channel and rank on, the latency of an
// all-reduce counts more.
constexpr double kPlateau = 1.4, kVoltaPlateau = 1.9;
constexpr Bytes kPlateauBytes = 64;

// Time of a proxy, at each end, to see a slot and post it. NCCL plans with 1 us per step on Intel hosts and 2 us on AMD
// hosts, and with more if a flag follows the data.
constexpr double kProxyUs = 2, kSimpleProxyUs = 4;

// By generation and [one server, two servers, more].
constexpr double kLlMostGbPerS[4] = {39, 87.7, 141, 282};  // one server
constexpr double kRingLl128GbPerS[4][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {34.5, 34.6, 34.5}};
constexpr double kTreeLl128GbPerS[4][3] = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
constexpr double kTreeGbPerS[4][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
constexpr double kNvlsTreeGbPerS[4][3] = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.8}};
constexpr double kNvlsEfficiency[4] = {0, 0, 0.85, 0.74};
// LL between servers: by CPU (Intel and others, AMD), and [two servers, more].
constexpr double kLlNetworkMostGbPerS[2][2] = {{39, 20.4}, {22.5, 19}};
// For servers with one GPU: this GPU receives from both children of the tree.
constexpr double kPlainTreeShare = 0.85;
constexpr double kNever = 1e30;
// Correction for the middle of the size range, in which a single tree is slower than its bandwidth; by floor(log2(bytes
// / 64)). Trees use one entry fewer than in-switch trees.
constexpr std::uint32_t kTreeSizes = 23, kNvlsTreeSizes = 24;
constexpr double kTreeCorrection[kProtocols][kNvlsTreeSizes] = {
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1}};
// Planned rate of a link, by generation of NVLink (index) and of PCIe x16.
constexpr double kNvlinkGbPerS[6] = {0, 18, 20, 20, 20.6, 40.1};
double pcie_gb_per_s(std::uint32_t generation) { return 3.0 * std::pow(2, static_cast<double>(generation) - 1); }

constexpr std::uint32_t kMostThreads[kProtocols] = {512, 512, 640};
constexpr std::uint32_t kThreadThreshold[kProtocols] = {64, 8, 8};  // bytes per thread; LL rings: times the ranks
constexpr std::uint32_t kLeastThreads = 64;
// Bytes that a step of one channel moves. Simple: a chunk of four slots of 512 KiB, in two slices, if a ring reduces,
// scatters or gathers; otherwise one slot. LL and LL128: the data of one slot. There are eight slots between two
// neighbours.
constexpr Bytes kSimpleSlotBytes = 512 << 10, kLlSlotBytes = 32 << 10, kLl128SlotBytes = 576'000;
constexpr std::uint32_t kRingSlots = 4, kRingSlices = 2, kSlots = 8;
constexpr Bytes kNvlsChunkBytes = 128 << 10, kNvlsTreeFarChunkBytes = 64 << 10;
constexpr std::uint32_t kBlackwellNvlsTreeChannels = 32;
constexpr Bytes kLlPointToPointBytes = 32 << 10;  // per peer; small messages use two channels
constexpr std::uint32_t kChannelsPerPeer = 16;
// Data that a thread moves at once: a line of LL; eight words of LL128 without their flags.
constexpr Bytes kLlLineBytesPerThread = 8, kLl128LineBytesPerThread = 60;

std::size_t scale_of(std::uint32_t servers) { return servers == 1 ? 0 : servers == 2 ? 1 : 2; }
/// Rounded down.
std::uint32_t log2_of(std::uint64_t value) {
  std::uint32_t log2 = 0;
  while (value >>= 1) ++log2;
  return log2;
}

/// The links that a search for graphs divides among channels.
NcclLinks links_of(const Site& site) {
  const gpu::GpuDatasheet& gpu = *site.gpu;
  const double pcie = pcie_gb_per_s(gpu.pcie.generation) * gpu.pcie.lanes / 16;
  NcclLinks links;
  links.generation = nccl_generation(gpu.architecture);
  links.gpus = std::max(1u, site.ranks / site.servers);
  links.gpu = site.nvlink ? kNvlinkGbPerS[std::min<std::uint32_t>(gpu.nvlink.generation, 5)] * gpu.nvlink.links : pcie;
  links.gpu_to_nic = !site.nvlink;
  links.nics = site.servers > 1 ? site.nics : 0;
  links.nic = std::min(site.network_gb_per_s, pcie);
  return links;
}

/// Rings inside one server use the number of channels in the datasheet, also over PCIe and NVLink bridges.
NcclGraph rings_of(const Site& site, const NcclLinks& links) {
  NcclGraph rings = ring_graph(links);
  if (site.servers > 1) return rings;
  const double all = site.nvlink ? rings.channels * rings.intra : links.gpu;
  rings.channels = std::max(1u, site.gpu->collective.channels / 2);
  rings.intra = rings.inter = all / rings.channels;
  return rings;
}

/// NCCL plans two servers with the rate inside a server, and more servers with the rate of the network.
double planned_gb_per_s(const Site& site, const NcclGraph& graph) {
  return graph.channels * (site.servers <= 2 ? graph.intra : graph.inter);
}

double ll_most_gb_per_s(const Site& site, NcclGeneration generation) {
  if (site.servers == 1) return kLlMostGbPerS[static_cast<std::size_t>(generation)];
  return kLlNetworkMostGbPerS[site.amd_hosts ? 1 : 0][site.servers == 2 ? 0 : 1];
}

/// `channels`, or fewer by the user's limit.
std::uint32_t limited(const Site& site, std::uint32_t channels) {
  return std::max(1u, site.most_channels > 0 ? std::min(channels, site.most_channels) : channels);
}

/// Number of CTAs of rings and trees.
std::uint32_t most_channels(const Site& site) {
  const std::uint32_t most = limited(site, site.gpu->collective.channels);
  if (site.servers == 1) return most;
  const NcclLinks links = links_of(site);
  return std::min(most, ring_channels(links, ring_graph(links)));
}

double ring_us(const Site& site, Operation op, Bytes bytes, Protocol protocol) {
  const auto p = static_cast<std::size_t>(protocol);
  const NcclLinks links = links_of(site);
  const NcclGraph graph = rings_of(site, links);
  const auto g = static_cast<std::size_t>(links.generation);
  const std::size_t scale = scale_of(site.servers);
  const double n = site.ranks, servers = site.servers;
  const bool all_reduce = op == Operation::all_reduce, broadcast = op == Operation::broadcast;
  const double steps = all_reduce ? 2 * (n - 1) : broadcast ? n : n - 1;
  const HopUs& hop = site.nvlink ? kNvlinkHopUs : kPcieHopUs;
  double gb_per_s = planned_gb_per_s(site, graph);
  if (protocol == Protocol::ll) gb_per_s = std::min(ll_most_gb_per_s(site, links.generation), 0.5 * gb_per_s);
  if (protocol == Protocol::ll128) gb_per_s = std::min(0.92 * gb_per_s, graph.channels * kRingLl128GbPerS[g][scale]);
  double latency_us = kRingBaseUs[p];
  if (broadcast && site.servers == 1) {
    latency_us += hop.ring[p];  // if all channels run in the same direction
  } else if (broadcast) {
    latency_us += steps * (protocol == Protocol::simple ? kNetworkHopUs.tree : kNetworkHopUs.ring)[p];
  } else {
    const double over_network = (all_reduce ? 2 : 1) * (servers - 1);
    const double post = kNetworkOverheadUs[site.amd_hosts ? 1 : 0];
    const double overhead = site.servers > 1 ? post * (protocol == Protocol::simple ? 3 : 1) : 0;
    const double network = (links.gpus == 1 ? kNetworkHopUs.tree : kNetworkHopUs.ring)[p];
    latency_us += (steps - over_network) * std::max(hop.ring[p], overhead) + over_network * network;
    const bool plateau = protocol == Protocol::simple && site.servers > 1 && all_reduce &&
                         bytes / (most_channels(site) * site.ranks) >= kPlateauBytes;
    if (plateau) latency_us *= links.generation == NcclGeneration::volta ? kVoltaPlateau : kPlateau;
  }
  return latency_us + static_cast<double>(bytes) * steps / (1000 * gb_per_s * n);
}

/// Share of a tree's bandwidth that NCCL expects at a size.
double tree_share(Protocol protocol, Bytes bytes, std::uint32_t sizes) {
  const std::uint32_t size = log2_of(bytes / 64);
  return bytes >= 64 && size < sizes ? kTreeCorrection[static_cast<std::size_t>(protocol)][size] : 1;
}

double tree_us(const Site& site, Bytes bytes, Protocol protocol) {
  const auto p = static_cast<std::size_t>(protocol);
  const NcclLinks links = links_of(site);
  const NcclGraph graph = tree_graph(links, rings_of(site, links));
  const auto g = static_cast<std::size_t>(links.generation);
  const std::size_t scale = scale_of(site.servers);
  const double channels = graph.channels;
  const HopUs& hop = site.nvlink ? kNvlinkHopUs : kPcieHopUs;
  double gb_per_s = std::min(0.92 * planned_gb_per_s(site, graph), channels * kTreeGbPerS[g][scale]);
  if (protocol == Protocol::ll) gb_per_s = std::min(gb_per_s / 3.8, ll_most_gb_per_s(site, links.generation));
  if (protocol == Protocol::ll128)
    gb_per_s = std::min(gb_per_s * (site.servers > 1 ? 120.0 / 128 : 7.0 / 9), channels * kTreeLl128GbPerS[g][scale]);
  if (links.gpus == 1) gb_per_s *= kPlainTreeShare;
  gb_per_s *= 0.5 * tree_share(protocol, bytes, kTreeSizes);
  const double latency_us =
      kTreeBaseUs[p] + 2 * ((links.gpus - 1) * hop.tree[p] + log2_of(site.servers) * kNetworkHopUs.tree[p]);
  return latency_us + static_cast<double>(bytes) / (1000 * gb_per_s);
}

/// Planned time of an all-reduce in the switches.
double nvls_us(const Site& site, Bytes bytes, Algorithm algorithm) {
  const NcclLinks links = links_of(site);
  const NcclGraph graph = nvls_graph(links);
  if (graph.channels < 2) return kNever;
  const auto g = static_cast<std::size_t>(links.generation);
  const double n = site.ranks, heads = graph.channels;
  const bool over_network = algorithm == Algorithm::nvls_tree;
  double head = 2 * graph.intra * kNvlsEfficiency[g] * (heads - 1) / heads;
  head = std::min(head, graph.inter * (over_network && site.servers == 2 ? 2 : 1));
  double latency_us = kNvlinkHopUs.nvls;
  if (over_network) {
    head = std::min(head, kNvlsTreeGbPerS[g][scale_of(site.servers)]);
    latency_us += 2 * log2_of(site.servers) * kNetworkHopUs.nvls_tree;
  }
  double gb_per_s = heads * head * n / (2 * (n - 1));
  const bool grace = site.gpu->c2c.gb_per_s > 0;
  if (over_network && links.generation == NcclGeneration::blackwell && !grace)
    gb_per_s *= tree_share(Protocol::simple, bytes, kNvlsTreeSizes);
  return latency_us + static_cast<double>(bytes) / (1000 * gb_per_s);
}

double time_us(const Site& site, Operation op, Bytes bytes, Algorithm algorithm, Protocol protocol) {
  switch (algorithm) {
    case Algorithm::ring: return ring_us(site, op, bytes, protocol);
    case Algorithm::tree: return tree_us(site, bytes, protocol);
    case Algorithm::nvls:
    case Algorithm::nvls_tree: return nvls_us(site, bytes, algorithm);
    default: return kNever;
  }
}

/// Number of CTAs of in-switch kernels.
std::uint32_t nvls_channels(const Site& site) {
  const bool blackwell = nccl_generation(site.gpu->architecture) == NcclGeneration::blackwell;
  return limited(site, blackwell && site.servers > 1 ? kBlackwellNvlsTreeChannels : site.gpu->collective.nvls_channels);
}

/// Whether NCCL considers this combination.
bool allowed(const Site& site, Operation op, Algorithm algorithm, Protocol protocol) {
  const NcclGeneration g = nccl_generation(site.gpu->architecture);
  if (protocol == Protocol::ll128 && (!site.nvlink || g == NcclGeneration::volta)) return false;
  switch (algorithm) {
    case Algorithm::ring: return op != Operation::all_to_all && op != Operation::send_recv;
    case Algorithm::tree: return op == Operation::all_reduce;
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      // All-gathers use the switch only with registered buffers; nccl-tests does not register them.
      return protocol == Protocol::simple && op == Operation::all_reduce && site.multicast &&
             kNvlsEfficiency[static_cast<std::size_t>(g)] > 0 && site.ranks / site.servers > 2 &&
             (algorithm == Algorithm::nvls) == (site.servers == 1);
    default: return false;
  }
}

Time us(double value) { return Time::seconds(value * 1e-6); }

/// Cost of the steps of a protocol on this GPU.
StepCost cost_of(const Site& site, Protocol protocol, std::uint32_t threads) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  const double width = static_cast<double>(threads) / kMostThreads[static_cast<std::size_t>(protocol)];
  StepCost cost;
  switch (protocol) {
    case Protocol::ll:
      cost.step = Time::nanoseconds(c.ll_step_ns + c.ll_wide_step_ns * width);
      cost.line_bytes = kLlLineBytesPerThread * threads;
      cost.line = Time::nanoseconds(c.ll_line_ns);
      cost.wire_numerator = 2;
      break;
    case Protocol::ll128:
      cost.step = Time::nanoseconds(c.ll128_step_ns);
      cost.channel_rate = Rate::gb_per_s(c.ll128_gb_per_s);
      cost.wire_numerator = 128;
      cost.wire_denominator = 120;
      break;
    case Protocol::simple:
      cost.step = Time::nanoseconds(c.simple_step_ns);
      cost.channel_rate = Rate::gb_per_s(c.simple_gb_per_s);
      break;
  }
  const double proxy_us = protocol == Protocol::simple ? kSimpleProxyUs : kProxyUs;
  cost.network_send = cost.network_receive = us(proxy_us);
  return cost;
}

Time launch_of(const Request& request, const Site& site, double width) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  return us((request.in_graph ? c.graph_launch_us : c.launch_us) + c.wide_launch_us * width);
}

/// NCCL's sends and receives: each peer gets its share of the channels.
void plan_point_to_point(CollectiveSpec& spec, const Request& request, const Site& site) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  const bool to_all = spec.operation == Operation::all_to_all;
  const std::uint32_t peers = to_all ? std::max(1u, site.ranks - 1) : 1;
  const std::uint32_t per_peer = std::max(1u, std::min(kChannelsPerPeer, c.channels / std::min(peers, 8u)));
  const Bytes each = to_all ? spec.bytes / std::max(1u, site.ranks) : spec.bytes;
  spec.channels = std::min(c.channels, per_peer * peers);
  spec.protocol = request.protocol.value_or(each <= kLlPointToPointBytes ? Protocol::ll : Protocol::simple);
  spec.cost = cost_of(site, spec.protocol, kMostThreads[static_cast<std::size_t>(spec.protocol)]);
  if (to_all && spec.protocol == Protocol::simple) spec.cost.channel_rate = Rate::gb_per_s(c.p2p_gb_per_s);
  spec.chunk_bytes = to_all ? 0 : spec.protocol == Protocol::simple ? kSimpleSlotBytes : kLlSlotBytes;
  spec.slots = to_all ? 0 : kSlots;
  spec.launch = launch_of(request, site, 1) + us(c.p2p_launch_us);
}

/// Halves a chunk until a channel's share of the bytes has at least `chunks` chunks, but not below `least`.
Bytes halved(Bytes chunk, Bytes of_channel, double chunks, Bytes least) {
  while (chunk > least && static_cast<double>(of_channel / chunk) < chunks) chunk /= 2;
  return chunk;
}

/// The chunk of a tree in LL128, by depth and number of members per server.
Bytes tree_ll128_chunk(const Site& site, Bytes of_channel) {
  const double per_server = static_cast<double>(site.ranks) / site.servers;
  const double steps = 1 + std::floor(std::log2(site.servers)) + 0.1 * per_server;
  const Bytes chunk = halved(kLl128SlotBytes, of_channel, steps * 64 / per_server, 128 << 10);
  return halved(chunk, of_channel, steps * 16 / per_server, 32 << 10);
}

/// The chunk of in-switch kernels: smaller if each head of each channel would have only a few chunks.
Bytes nvls_chunk(const Site& site, Algorithm algorithm, Bytes of_channel) {
  const Bytes heads = std::max(1u, site.ranks / site.servers);
  struct Rule {
    Bytes rounds, chunk;
  };
  static constexpr Rule kNvls[] = {{64, 64 << 10}, {8, 32 << 10}, {2, 16 << 10}},
                        kNvlsTree[] = {{4, 64 << 10}, {1, 32 << 10}};
  Bytes chunk = algorithm == Algorithm::nvls_tree && site.servers >= 4 ? kNvlsTreeFarChunkBytes : kNvlsChunkBytes;
  const auto apply = [&](const Rule& rule) {
    if (of_channel < rule.rounds * heads * chunk) chunk = std::min(chunk, rule.chunk);
  };
  if (algorithm == Algorithm::nvls) {
    for (const Rule& rule : kNvls) apply(rule);
  } else {
    for (const Rule& rule : kNvlsTree) apply(rule);
  }
  return chunk;
}

void plan_nccl(CollectiveSpec& spec, const Request& request, const Group& group, const Site& site) {
  if (spec.operation == Operation::all_to_all || spec.operation == Operation::send_recv ||
      request.algorithm == Algorithm::direct || request.algorithm == Algorithm::pxn) {
    spec.algorithm = request.algorithm.value_or(spec.operation == Operation::all_to_all && site.nvlink &&
                                                        group.servers() > 1 && group.members_per_server() > 1
                                                    ? Algorithm::pxn
                                                    : Algorithm::direct);
    plan_point_to_point(spec, request, site);
    return;
  }
  const Plan plan = nccl_plan(site, spec.operation, spec.bytes, request.algorithm, request.protocol);
  spec.algorithm = plan.algorithm;
  spec.protocol = plan.protocol;
  spec.channels = plan.channels;
  spec.cost = cost_of(site, plan.protocol, plan.threads);
  spec.slots = kSlots;
  const Bytes of_channel = spec.bytes / plan.channels;
  if (plan.algorithm == Algorithm::nvls || plan.algorithm == Algorithm::nvls_tree) {
    const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
    spec.cost.step = Time::nanoseconds(c.nvls_step_ns);
    spec.cost.channel_rate = Rate::gb_per_s(c.nvls_gb_per_s);
    spec.chunk_bytes = nvls_chunk(site, plan.algorithm, of_channel);
  } else if (plan.protocol == Protocol::simple) {
    spec.chunk_bytes = kSimpleSlotBytes;
    if (plan.algorithm == Algorithm::ring && spec.operation != Operation::broadcast) {
      spec.chunk_bytes *= kRingSlots;
      spec.slices = kRingSlices;
      spec.slots = kSlots / (kRingSlots / kRingSlices);
    }
  } else {
    const bool shrinks = plan.algorithm == Algorithm::tree && plan.protocol == Protocol::ll128;
    spec.chunk_bytes = plan.protocol == Protocol::ll ? kLlSlotBytes
                       : shrinks                     ? tree_ll128_chunk(site, of_channel)
                                                     : kLl128SlotBytes;
    if (spec.operation == Operation::broadcast) {
      // Every line has a flag of its own, so a chain forwards each line before the chunk is complete.
      const Bytes go =
          (plan.protocol == Protocol::ll ? kLlLineBytesPerThread : kLl128LineBytesPerThread) * plan.threads;
      const Bytes chunk = std::min(spec.chunk_bytes, of_channel);
      spec.slices = static_cast<std::uint32_t>(std::max<Bytes>(1, ceil_div(chunk, go)));
      spec.slots = kSlots * spec.slices;
    }
  }
  spec.launch = launch_of(request, site,
                          static_cast<double>(plan.threads) / kMostThreads[static_cast<std::size_t>(plan.protocol)]);
}

/// Largest vector of a serving engine's own kernel. NCCL runs larger vectors, other operations and several servers.
constexpr Bytes kCustomMostBytes = 8 << 20;
// Largest vector of a one-shot all-reduce, by ranks (vllm-project/vllm csrc/custom_all_reduce.cuh); always with two
// ranks.
Bytes one_shot_most(std::uint32_t ranks) {
  return ranks <= 2 ? kCustomMostBytes : ranks <= 4 ? (512 << 10) - 1 : (256 << 10) - 1;
}
// The workspace of TensorRT-LLM's one-shot kernel. Above this size TensorRT-LLM uses NCCL.
Bytes trtllm_most(std::uint32_t ranks) { return ranks <= 2 ? 4 << 20 : ranks <= 4 ? 1 << 20 : 256 << 10; }

bool has_custom_kernel(const Request& request, const Site& site) {
  return request.library != Library::nccl && request.operation == Operation::all_reduce && site.servers == 1 &&
         request.bytes <= (request.library == Library::trtllm ? trtllm_most(site.ranks) : kCustomMostBytes) &&
         (site.nvlink || site.ranks <= 2);  // over PCIe the custom kernels serve only two ranks
}

void plan_custom(CollectiveSpec& spec, const Request& request, const Site& site) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  const bool one_shot = request.library == Library::trtllm || request.bytes <= one_shot_most(site.ranks);
  spec.algorithm = request.algorithm.value_or(one_shot ? Algorithm::one_shot : Algorithm::two_shot);
  spec.protocol = Protocol::ll;  // data or flags are polled, without a fence
  spec.channels = c.channels;
  if (spec.algorithm == Algorithm::one_shot) {
    // vLLM's kernel begins and ends with an exchange of flags. In the kernels of the other engines the data carries its
    // flags.
    if (request.library == Library::vllm) spec.barriers_before = spec.barriers_after = 1;
    spec.cost.step = Time::nanoseconds(c.custom_step_ns);
  } else {
    // Three actions, each with a fence as in NCCL's Simple: the data must be visible before the flag. The kernels of
    // the engines read data that these actions write, so an action stands for a barrier and a round trip. This fits the
    // open measurements.
    spec.cost.step = Time::nanoseconds(c.simple_step_ns);
  }
  spec.cost.channel_rate = Rate::bytes_per_second(static_cast<std::uint64_t>(c.custom_gb_per_s * 1e9) / c.channels);
  spec.launch = us(c.graph_launch_us);
  if (!request.in_graph) spec.host = us(c.eager_us);
}

}  // namespace

Site site_of(const std::vector<gpu::Gpu*>& gpus, const Group& group, const transport::Fabric& fabric) {
  Site site;
  site.gpu = &gpus.front()->datasheet();
  site.ranks = group.size();
  site.servers = group.servers();
  site.nvlink = gpus.size() > 1;
  for (std::size_t i = 1; i < gpus.size(); ++i)
    if (group.server_of(static_cast<std::uint32_t>(i)) == 0)
      site.nvlink = site.nvlink && gpus[0]->reaches_over_nvlink(gpus[i]->window());
  site.multicast = !group.multicast_group.empty();
  site.amd_hosts = gpus.front()->has_amd_host();
  std::set<const transport::Device*> nics;  // of the senders
  for (std::uint32_t m = 0; m < group.size() && site.servers > 1 && group.server_of(m) == 0; ++m) {
    const transport::Path path = fabric.path(group.members[m], group.members.back(), 0);
    const std::vector<transport::Hop>& hops = path.lanes.front().hops;
    const auto nic = std::find_if(hops.begin(), hops.end(), [](const transport::Hop& hop) {
      return dynamic_cast<const infiniband::Nic*>(hop.device) != nullptr;
    });
    if (nic != hops.end()) nics.insert(nic->device);
    site.network_gb_per_s = hops.front().link().rate.gb_per_s();
    for (const transport::Hop& hop : hops)
      site.network_gb_per_s = std::min(site.network_gb_per_s, hop.link().rate.gb_per_s());
  }
  site.nics = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(nics.size()));
  return site;
}

Plan nccl_plan(const Site& site, Operation operation, Bytes bytes, std::optional<Algorithm> algorithm,
               std::optional<Protocol> protocol) {
  Plan best;
  best.algorithm = algorithm.value_or(Algorithm::ring);
  best.protocol = protocol.value_or(Protocol::simple);
  double least = 1e29;
  for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::nvls, Algorithm::nvls_tree}) {
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
  const auto p = static_cast<std::size_t>(best.protocol);
  best.threads = kMostThreads[p];
  const bool in_switch = best.algorithm == Algorithm::nvls || best.algorithm == Algorithm::nvls_tree;
  best.channels = in_switch ? nvls_channels(site) : most_channels(site);
  const Bytes threshold = static_cast<Bytes>(kThreadThreshold[p]) *
                          (best.protocol == Protocol::ll && best.algorithm == Algorithm::ring ? site.ranks : 1);
  while (!in_switch && bytes < best.channels * best.threads * threshold) {
    if (best.channels >= 2) {
      --best.channels;
    } else if (best.threads > kLeastThreads && best.threads % (2 * kLeastThreads) == 0) {
      best.threads /= 2;
    } else {
      break;
    }
  }
  return best;
}

CollectiveSpec choose(const Request& request, const Group& group, const Site& site) {
  CollectiveSpec spec;
  spec.operation = request.operation;
  spec.bytes = request.bytes;
  spec.root = request.root;
  spec.both_directions = request.both_directions;
  spec.traffic_class = request.traffic_class;
  const bool shots = request.algorithm == Algorithm::one_shot || request.algorithm == Algorithm::two_shot;
  if (shots || has_custom_kernel(request, site)) {
    plan_custom(spec, request, site);
  } else {
    plan_nccl(spec, request, group, site);
    if (request.library != Library::nccl && !request.in_graph) spec.host = us(site.gpu->collective.eager_us);
  }
  return spec;
}

Time least_launch(const Request& request, const Site& site) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  return us(request.in_graph ? c.graph_launch_us : std::min(c.launch_us, c.graph_launch_us));
}

}  // namespace railyard::collective
