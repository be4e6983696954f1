#include "collective/tuner.h"

#include <algorithm>
#include <cmath>

#include "collective/custom_all_reduce.h"
#include "collective/nccl_graph.h"
#include "collective/program.h"
#include "gpu/datasheet.h"

namespace railyard::collective {

namespace {

// Userbuffers: a CTA has 1024 threads, each of which has eight words of 16 bytes under way (MAX_THREADS, UNROLL_MC).
constexpr Bytes kRegisteredBytesInFlight = 1024 * 8 * 16;
// A part is what a channel carries of a message: at least and at most these shares of a step, inside a server and beyond.
struct PartBytes {
  Bytes least, most;
};
PartBytes part_bytes(Bytes step, bool one_server) {
  return one_server ? PartBytes{step / 8, step * 32} : PartBytes{step / 2, step};
}
constexpr std::uint32_t kThreadsPerWarp = 32;
constexpr std::uint32_t kLlWireBytes = 2;  // for each byte in LL

Time us(double value) { return Time::seconds(value * 1e-6); }

/// Without peer access, and between two CPUs, NCCL's transport is shared memory of the host (src/transport/shm.cc).
bool through_host(const Site& site) { return !site.nvlink && (!site.gpu->pcie.p2p || site.roots > 1); }

/// Payload of a channel in LL128. The datasheet has the rate of each while all of them share a limit of their GPU; fewer
/// channels run faster, up to the rate that NCCL plans for one.
Rate ll128_rate(const gpu::GpuDatasheet& gpu, std::uint32_t channels) {
  const double all = gpu.collective.ll128_gb_per_s * gpu.collective.channels;
  const double one = nccl_tables().of(nccl_generation(gpu.architecture)).ring_ll128_gb_per_s;
  return Rate::gb_per_s(std::min(std::max(gpu.collective.ll128_gb_per_s, one), all / channels));
}

/// Rate of the copies of lone GPUs in LL128. Each line has a flag, so a receiver reads lines and writes them to the buffer of the
/// next proxy while others arrive (NVIDIA/nccl v2.29.2 src/device/prims_ll128.h); proxies send whole chunks. Channels share the
/// NICs. At the end of a chunk, at least the last lines remain, else what is read more slowly than it arrives.
Rate ll128_lone_copy_rate(const Site& site, Rate channel, std::uint32_t channels, Bytes chunk) {
  const NcclTables& nccl = nccl_tables();
  const double arrives_gb_per_s = site.network_gb_per_s * std::min(1.0, static_cast<double>(site.nics) / channels);
  const double copy_ns = 1 / channel.gb_per_s(), arrive_ns = 128.0 / 120 / arrives_gb_per_s;  // of a byte
  const double lines =
      static_cast<double>(nccl.ll128_line_bytes * nccl.most_threads.ll128) / static_cast<double>(chunk);
  return Rate::gb_per_s(1 / std::max(copy_ns - arrive_ns, copy_ns * std::min(1.0, lines)));
}

/// Cost of the steps of a protocol on this GPU.
StepCost cost_of(const Site& site, Protocol protocol, std::uint32_t channels, std::uint32_t threads) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  const NcclTables& nccl = nccl_tables();
  const double width = static_cast<double>(threads) / nccl.most_threads.of(protocol);
  StepCost cost;
  switch (protocol) {
    case Protocol::ll:
      cost.step = Time::nanoseconds(c.ll_step_ns + c.ll_wide_step_ns * width);
      cost.line_bytes = nccl.ll_line_bytes * threads;
      cost.wire_numerator = kLlWireBytes;
      cost.line = Time::nanoseconds(c.ll_line_ns);
      if (through_host(site)) cost.polled_line = Time::nanoseconds(nccl.fitted.host_line_ns);
      cost.proxy_rate = Rate::gb_per_s((is_amd(site.cpu) ? nccl.amd_ll_gb_per_s : nccl.intel_ll_gb_per_s).more /
                                       nccl.fitted.ll_proxies);
      break;
    case Protocol::ll128:
      cost.step = Time::nanoseconds(c.ll128_step_ns);
      cost.channel_rate = ll128_rate(*site.gpu, channels);
      cost.wire_numerator = 128;
      cost.wire_denominator = 120;
      break;
    case Protocol::simple:
      cost.step = Time::nanoseconds(c.simple_step_ns);
      cost.channel_rate = Rate::gb_per_s(c.simple_gb_per_s);
      break;
  }
  const double proxy_us = nccl.fitted.proxy_us * (protocol == Protocol::simple ? nccl.fitted.simple_posts : 1);
  cost.network_send = cost.network_receive = us(proxy_us);
  return cost;
}

/// A graph saves what it saves at any kernel: NCCL's prologue remains.
double launch_us(const gpu::GpuDatasheet& gpu, bool in_graph) {
  const double saved = in_graph ? std::max(0.0, gpu.kernel.stream_launch_us - gpu.kernel.launch_us) : 0;
  return std::max(0.0, gpu.collective.launch_us - saved);
}

Time launch_of(const CollectiveRequest& request, const Site& site, double width) {
  return us(launch_us(*site.gpu, request.in_graph) + site.gpu->collective.wide_launch_us * width);
}

std::uint32_t power_of_two_from(std::uint32_t value) {
  std::uint32_t power = 1;
  while (power < value) power *= 2;
  return power;
}

/// Most channels of all messages of a member (ncclTopoComputeP2pChannels).
std::uint32_t point_to_point_channels(const Site& site) { return power_of_two_from(nccl_channels(site)); }

/// Most channels of one message.
std::uint32_t channels_per_peer(const Site& site) {
  const NcclTables::PointToPoint& p2p = nccl_tables().point_to_point;
  std::uint32_t channels = p2p.pcie_channels_per_peer;
  if (site.servers > 1) {
    const double needed = std::ceil(site.network_gb_per_s / p2p.network_channel_gb_per_s);
    channels = std::max(p2p.least_network_channels, static_cast<std::uint32_t>(needed));
  } else if (site.nvlink) {
    channels = 2 * (site.mesh_links != 0 ? site.mesh_links : site.gpu->nvlink.links);
  }
  return std::min(power_of_two_from(channels), point_to_point_channels(site));
}

struct Parts {
  std::uint32_t channels = 1;  ///< of one message: its parts
  Protocol protocol = Protocol::simple;
};

/// How NCCL divides a message (addP2pToPlan).
Parts parts_of(const CollectiveRequest& request, const Site& site, Bytes message) {
  const std::uint32_t most = channels_per_peer(site), all = point_to_point_channels(site);
  std::uint32_t least = most;
  while (least * site.ranks > all && least > 1) least /= 2;
  const NcclTables::PointToPoint& p2p = nccl_tables().point_to_point;
  const NcclMessageRules rules = rules_of(request.nccl_version);
  Parts parts;
  if (rules.by_message) {
    const std::uint32_t counted = rules.counts_channels ? most : 1;
    parts.protocol = message <= counted * p2p.ll_part_bytes ? Protocol::ll : Protocol::simple;
  }
  if (request.protocol) parts.protocol = *request.protocol;
  const Bytes simple_step = site.nvlink && site.servers == 1 ? p2p.nvlink_step_bytes : p2p.other_step_bytes;
  const Bytes step = rules.by_message && parts.protocol == Protocol::ll ? p2p.ll_step_bytes : simple_step;
  const PartBytes bounds = part_bytes(step, site.servers == 1);
  parts.channels =
      static_cast<std::uint32_t>(std::max<Bytes>(1, std::min<Bytes>(least, ceil_div(message, bounds.least))));
  while (ceil_div(message, parts.channels) > bounds.most && parts.channels <= most / 2) parts.channels *= 2;
  if (!rules.by_message && !request.protocol && message <= parts.channels * p2p.ll_part_bytes)
    parts.protocol = Protocol::ll;
  return parts;
}

/// NCCL's sends and receives.
void plan_point_to_point(CollectiveSpec& spec, const CollectiveRequest& request, const Site& site) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  const NcclTables& nccl = nccl_tables();
  const NcclTables::PointToPoint& p2p = nccl.point_to_point;
  const bool to_all = spec.operation == Operation::all_to_all;
  const Parts parts = parts_of(request, site, to_all ? spec.bytes / std::max(1u, site.ranks) : spec.bytes);
  spec.protocol = parts.protocol;
  spec.channels = to_all ? std::min(parts.channels * site.ranks, point_to_point_channels(site)) : parts.channels;
  if (site.most_channels > 0) spec.channels = std::min(spec.channels, site.most_channels);
  spec.cost = cost_of(site, spec.protocol, spec.channels, p2p.receiving_warps * kThreadsPerWarp);
  if (to_all && spec.protocol == Protocol::simple) spec.cost.channel_rate = Rate::gb_per_s(c.p2p_gb_per_s);
  spec.cost.copy_rate = Rate::gb_per_s(c.p2p_copy_gb_per_s);
  spec.chunk_bytes = spec.protocol == Protocol::ll      ? nccl.slot_bytes.ll
                     : site.nvlink && site.servers == 1 ? p2p.nvlink_step_bytes
                                                        : p2p.other_step_bytes;
  spec.slots = nccl.slots;
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
  const Bytes chunk = halved(nccl_tables().slot_bytes.ll128, of_channel, steps * 64 / per_server, 128 << 10);
  return halved(chunk, of_channel, steps * 16 / per_server, 32 << 10);
}

/// The chunk of in-switch kernels: smaller if each head of each channel would have only a few chunks.
Bytes nvls_chunk(const Site& site, Algorithm algorithm, Bytes of_channel) {
  const NcclTables& nccl = nccl_tables();
  const Bytes heads = std::clamp(site.ranks / site.servers, 1u, nccl.most_heads);
  struct Rule {
    Bytes rounds, chunk;
  };
  static constexpr Rule kNvls[] = {{64, 64 << 10}, {8, 32 << 10}, {2, 16 << 10}},
                        kNvlsTree[] = {{4, 64 << 10}, {1, 32 << 10}};
  Bytes chunk =
      algorithm == Algorithm::nvls_tree && site.servers >= 4 ? nccl.nvls_tree_far_chunk_bytes : nccl.nvls_chunk_bytes;
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

/// The chunk of CollNetDirect: smaller until each head of each channel has enough chunks for the depth of the exchange, which is
/// two, or one on servers with one member.
Bytes collnet_chunk(const Site& site, Bytes of_channel) {
  const double depth = site.ranks > site.servers ? 2 : 1;
  const Bytes of_head = of_channel / std::max(1u, site.heads);
  const Bytes chunk = halved(nccl_tables().slot_bytes.simple, of_head, depth * 64, 128 << 10);
  return halved(chunk, of_head, depth * 8, 32 << 10);
}

void plan_nccl(CollectiveSpec& spec, const CollectiveRequest& request, const Group& group, const Site& site) {
  if (spec.operation == Operation::all_to_all || spec.operation == Operation::send_recv ||
      request.algorithm == Algorithm::direct || request.algorithm == Algorithm::pxn) {
    spec.algorithm = request.algorithm.value_or(spec.operation == Operation::all_to_all && site.nvlink &&
                                                        group.servers() > 1 && group.members_per_server() > 1
                                                    ? Algorithm::pxn
                                                    : Algorithm::direct);
    plan_point_to_point(spec, request, site);
    return;
  }
  const NcclTables& nccl = nccl_tables();
  const NcclPlan plan = nccl_plan(site, spec.operation, spec.bytes, request.algorithm, request.protocol);
  spec.algorithm = plan.algorithm;
  spec.protocol = plan.protocol;
  spec.channels = plan.channels;
  spec.cost = cost_of(site, plan.protocol, plan.channels, plan.threads);
  spec.slots = nccl.slots;
  const Bytes of_channel = spec.bytes / plan.channels;
  if (plan.algorithm == Algorithm::nvls || plan.algorithm == Algorithm::nvls_tree) {
    const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
    spec.cost.step = Time::nanoseconds(c.nvls_step_ns);
    spec.cost.channel_rate = Rate::gb_per_s(c.nvls_gb_per_s);
    spec.chunk_bytes = nvls_chunk(site, plan.algorithm, of_channel);
  } else if (plan.algorithm == Algorithm::collnet_direct) {
    spec.chunk_bytes = collnet_chunk(site, of_channel);
  } else if (plan.protocol == Protocol::simple) {
    spec.chunk_bytes = nccl.slot_bytes.simple;
    if (plan.algorithm == Algorithm::ring && !is_rooted(spec.operation)) {
      spec.chunk_bytes *= nccl.ring_slots;
      spec.slices = nccl.ring_slices;
      spec.slots = nccl.slots / (nccl.ring_slots / nccl.ring_slices);
    }
  } else {
    const bool shrinks = plan.algorithm == Algorithm::tree && plan.protocol == Protocol::ll128;
    spec.chunk_bytes = plan.protocol == Protocol::ll ? nccl.slot_bytes.ll
                       : shrinks                     ? tree_ll128_chunk(site, of_channel)
                                                     : nccl.slot_bytes.ll128;
    if (plan.protocol == Protocol::ll128 && site.servers > 1 && site.ranks == site.servers)
      spec.cost.copy_rate = ll128_lone_copy_rate(site, spec.cost.channel_rate, plan.channels, spec.chunk_bytes);
    const bool in_host = plan.protocol == Protocol::ll && through_host(site);
    if (is_rooted(spec.operation) || in_host) {
      // Every line has a flag of its own, so it is forwarded before the chunk is complete. Only where lines are slow does this
      // count in rings and trees that reduce.
      const Bytes go = (plan.protocol == Protocol::ll ? nccl.ll_line_bytes : nccl.ll128_line_bytes) * plan.threads;
      const bool whole = is_rooted(spec.operation) || plan.algorithm == Algorithm::tree;
      const Bytes share = whole ? of_channel : of_channel / site.ranks;
      const Bytes chunk = std::min(spec.chunk_bytes, share);
      spec.slices = static_cast<std::uint32_t>(std::max<Bytes>(1, ceil_div(chunk, go)));
      spec.slots = nccl.slots * spec.slices;
    }
  }
  spec.launch = launch_of(request, site, static_cast<double>(plan.threads) / nccl.most_threads.of(plan.protocol));
}

bool runs_registered(const CollectiveRequest& request, const Site& site) {
  const bool moves_shards =
      request.operation == Operation::all_gather || request.operation == Operation::reduce_scatter;
  return request.registered && moves_shards && site.multicast && site.servers == 1;
}

/// Loads and stores share the port of an SM: a CTA that copies by them moved 47 GB/s on an H100, at a higher clock
/// (validation/measured.csv, copy by few blocks).
double port_gb_per_s(const gpu::GpuDatasheet& gpu) { return gpu.l2.bytes_per_sm_clock * gpu.clock_hz() * 1e-9 / 2; }

void plan_registered(CollectiveSpec& spec, const CollectiveRequest& request, const Site& site) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  spec.algorithm = Algorithm::nvls;
  spec.registered = true;
  spec.channels = site.most_channels > 0 ? site.most_channels : c.nvls_channels;
  spec.chunk_bytes = kRegisteredBytesInFlight;
  spec.cost.step = Time::nanoseconds(c.custom_fence_ns);
  // The latency of a load from a peer stands for that of a load of a sum.
  const double pulls = static_cast<double>(kRegisteredBytesInFlight) / c.custom_pull_ns;
  spec.cost.channel_rate = Rate::gb_per_s(std::min(pulls, port_gb_per_s(*site.gpu)));
  spec.launch = us(launch_us(*site.gpu, request.in_graph));
}

/// An algorithm or protocol of NCCL that a caller asks for is run by NCCL.
bool has_custom_kernel(const CollectiveRequest& request, const Site& site) {
  if (request.algorithm || request.protocol) return false;
  const Bytes most = custom_kernel(request.engine, site).most();
  return request.operation == Operation::all_reduce && most > 0 && request.bytes <= most;
}

/// Rate at which all CTAs of a kernel read from their peers: the bytes in flight, in each latency of a read.
double pull_gb_per_s(const PullKernel& kernel, const Site& site) {
  return kernel.bytes_in_flight(site.ranks) / site.gpu->collective.custom_pull_ns;
}

void plan_custom(CollectiveSpec& spec, const CollectiveRequest& request, const Site& site) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  const CustomKernel kernel = custom_kernel(request.engine, site);
  spec.algorithm =
      request.algorithm.value_or(request.bytes <= kernel.one_shot ? Algorithm::one_shot : Algorithm::two_shot);
  spec.protocol = request.protocol.value_or(Protocol::ll);  // data or flags are polled, without a fence
  spec.channels = c.channels;
  const auto of_channel = [&](double gb_per_s) {
    return Rate::bytes_per_second(static_cast<std::uint64_t>(gb_per_s * 1e9) / c.channels);
  };
  if (spec.algorithm == Algorithm::one_shot) {
    // A kernel that pulls begins and ends with an exchange of flags. Otherwise the data carries its flags.
    if (kernel.pull) spec.barriers_before = spec.barriers_after = 1;
    spec.cost.step = Time::nanoseconds(c.custom_step_ns);
  } else {
    // Three actions, each with a fence as in NCCL's Simple: the data must be visible before the flag. The kernels of
    // the engines read data that these actions write, so an action stands for a barrier and a round trip.
    spec.cost.step = Time::nanoseconds(c.custom_fence_ns);
  }
  spec.cost.copy_rate = of_channel(c.custom_gb_per_s);
  spec.cost.channel_rate =
      of_channel(kernel.pull ? std::min(c.custom_gb_per_s, pull_gb_per_s(*kernel.pull, site)) : c.custom_gb_per_s);
  spec.launch = us(c.graph_launch_us);
}

/// Outside a graph, the host calls kernel by kernel. An engine then copies the input of an all-reduce first, into a
/// registered buffer or into the output; a graph's buffers are registered.
void call_from_host(CollectiveSpec& spec, double call_us, const gpu::GpuDatasheet& gpu) {
  const double copied_us = 2e-3 * static_cast<double>(spec.bytes) / (gpu.hbm.gb_per_s * gpu.hbm.stream_ratio);
  if (spec.operation == Operation::all_reduce) spec.launch += us(gpu.kernel.launch_us + copied_us);
  spec.host = us(call_us);
}

}  // namespace

CollectiveSpec choose(const CollectiveRequest& request, const Group& group, const Site& site) {
  CollectiveSpec spec;
  spec.operation = request.operation;
  spec.bytes = request.bytes;
  spec.root = request.root;
  spec.both_directions = request.both_directions;
  spec.takes_sms = request.takes_sms;
  spec.traffic_class = request.traffic_class;
  spec.queue_pair_set = request.queue_pair_set.value_or(0);
  const bool shots = request.algorithm == Algorithm::one_shot || request.algorithm == Algorithm::two_shot;
  if (shots || has_custom_kernel(request, site)) {
    plan_custom(spec, request, site);
  } else if (runs_registered(request, site)) {
    plan_registered(spec, request, site);
  } else {
    plan_nccl(spec, request, group, site);
  }
  const double call_us = request.in_graph ? 0 : request.engine.eager_call_us(site.cpu);
  if (call_us > 0) call_from_host(spec, call_us, *site.gpu);
  return spec;
}

CollectiveSpec choose_tokens(const CollectiveRequest& request, const Site& site, Bytes bytes,
                             const TokenExchange& tokens) {
  const DeepEpChunks& chunks = *deepep_chunks(site.ranks);
  const bool combines = tokens.leg == TokenExchange::Leg::combine, crosses = site.servers > 1;
  CollectiveSpec spec;
  spec.operation = Operation::all_to_all;
  spec.algorithm = Algorithm::direct;
  spec.bytes = bytes;
  spec.traffic_class = request.traffic_class;
  spec.queue_pair_set = request.queue_pair_set.value_or(0);
  spec.tokens = tokens;
  spec.channels = kDeepEpSms;
  const std::uint32_t nvlink = combines ? chunks.combine_nvlink : chunks.dispatch_nvlink;
  const std::uint32_t network = combines ? chunks.combine_network : chunks.dispatch_network;
  const std::uint32_t chunk = crosses ? network : nvlink;
  spec.chunk_bytes = chunk * tokens.token_bytes;
  spec.slots = (crosses ? kDeepEpRoomNetwork : chunks.room_nvlink) / chunk;
  spec.cost.step = Time::nanoseconds(site.gpu->collective.custom_fence_ns);  // of a chunk, before its flag
  spec.cost.channel_rate = Rate::gb_per_s(port_gb_per_s(*site.gpu));
  spec.launch = us(launch_us(*site.gpu, request.in_graph));
  return spec;
}

Time least_launch(const CollectiveRequest& request, const Site& site) {
  const gpu::GpuDatasheet::Collective& c = site.gpu->collective;
  return us(std::min(launch_us(*site.gpu, request.in_graph), c.graph_launch_us));
}

}  // namespace railyard::collective
