#include "collective/program.h"

#include <algorithm>
#include <array>

#include "gpu/kernels/device_terms.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::collective {

const char* initials(Operation operation) {
  constexpr std::array<const char*, 7> kInitials{"AR", "AG", "RS", "BC", "A2A", "SR", "R"};
  return kInitials[static_cast<std::size_t>(operation)];
}

std::uint32_t Group::members_per_server() const {
  const std::uint32_t each = size() / servers();
  for (std::uint32_t m = 0; m < size(); ++m)
    if (server_of(m) != m / each) return 0;
  return each * servers() == size() ? each : 0;
}

bool Group::all_are_heads() const {
  for (std::uint32_t m = 0; m < size(); ++m)
    if (!is_head(m)) return false;
  return true;
}

namespace {

/// Sums in switches and networks have kernels for Simple only; sends and receives have none for LL128 (NVIDIA/nccl v2.29.2
/// src/graph/tuning.cc, src/device/sendrecv.h). The engines' kernels poll their data.
const char* unsupported_protocol(const CollectiveSpec& spec) {
  switch (spec.algorithm) {
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
    case Algorithm::collnet_direct:
      return spec.protocol == Protocol::simple ? nullptr
                                               : "nvls, nvls_tree and collnet_direct support only protocol simple";
    case Algorithm::one_shot:
    case Algorithm::two_shot:
      return spec.protocol == Protocol::ll ? nullptr : "one_shot and two_shot support only protocol ll";
    case Algorithm::direct:
    case Algorithm::pxn:
      return spec.protocol != Protocol::ll128 ? nullptr : "direct and pxn support only protocols simple and ll";
    default: return nullptr;
  }
}

}  // namespace

const char* unsupported(const CollectiveSpec& spec, const Group& group) {
  if (!group.parts.empty()) return unsupported(spec, group.parts.front());
  if (const char* why = unsupported_protocol(spec)) return why;
  const Operation op = spec.operation;
  if (!spec.shares.is_even() && (op != Operation::all_to_all || spec.shares.of->size() != group.size()))
    return "shares need an all_to_all, and one for each member";
  const bool reduces_or_gathers =
      op == Operation::all_reduce || op == Operation::all_gather || op == Operation::reduce_scatter;
  if (spec.tokens.runs()) {
    if (op != Operation::all_to_all) return "tokens need an all_to_all";
    return group.members_per_server() != 0 ? nullptr : "tokens need the same number of ranks on every server";
  }
  switch (spec.algorithm) {
    case Algorithm::ring:
      return reduces_or_gathers || is_rooted(op)
                 ? nullptr
                 : "ring supports all_reduce, all_gather, reduce_scatter, broadcast and reduce";
    case Algorithm::tree:
      return op == Operation::all_reduce || op == Operation::broadcast ? nullptr
                                                                       : "tree supports all_reduce and broadcast";
    case Algorithm::nvls:
      if (!reduces_or_gathers) return "nvls supports all_reduce, all_gather and reduce_scatter";
      if (group.servers() != 1 && (op != Operation::all_reduce || !group.all_are_heads()))
        return "nvls works within one server, or adds in the network with a NIC for each member "
               "(machine.network.sharp); use nvls_tree for several servers";
      return group.multicast_group.empty() ? "nvls needs NVSwitches that support multicast" : nullptr;
    case Algorithm::nvls_tree:
      if (op != Operation::all_reduce) return "nvls_tree supports only all_reduce";
      if (group.servers() == 1) return "nvls_tree needs several servers; use nvls for one server";
      if (group.multicast_group.empty()) return "nvls_tree needs NVSwitches that support multicast";
      return group.members_per_server() != 0 ? nullptr : "nvls_tree needs the same number of ranks on every server";
    case Algorithm::one_shot:
    case Algorithm::two_shot:
      return op == Operation::all_reduce ? nullptr : "one_shot and two_shot support only all_reduce";
    case Algorithm::hierarchical:
      if (op != Operation::all_reduce) return "hierarchical supports only all_reduce";
      return group.members_per_server() != 0 ? nullptr : "hierarchical needs the same number of ranks on every server";
    case Algorithm::direct:
      return op == Operation::all_to_all || op == Operation::send_recv
                 ? nullptr
                 : "direct supports all_to_all and send_recv; no library gathers, scatters, broadcasts or reduces so";
    case Algorithm::collnet_direct:
      if (op != Operation::all_reduce) return "collnet_direct supports only all_reduce";
      return !group.sum_nodes.empty() ? nullptr
                                      : "collnet_direct needs several servers and machine.network.sharp: true";
    case Algorithm::pxn:
      if (op != Operation::all_to_all) return "pxn supports only all_to_all";
      if (group.servers() == 1 || group.members_per_server() == 1)
        return "pxn needs several servers with several ranks each, which relay for each other; use direct";
      return group.members_per_server() != 0 ? nullptr : "pxn needs the same number of ranks on every server";
  }
  return nullptr;
}

std::unique_ptr<Program> make_program(const CollectiveSpec& spec, const Group& group) {
  if (!group.parts.empty()) return make_in_parts(spec, group);
  if (spec.tokens.runs()) return make_token_exchange(spec, group);
  switch (spec.algorithm) {
    case Algorithm::ring: return make_ring(spec, group);
    case Algorithm::tree: return make_tree(spec, group);
    case Algorithm::nvls:
    case Algorithm::nvls_tree: return make_nvls(spec, group);
    case Algorithm::collnet_direct: return make_collnet_direct(spec, group);
    case Algorithm::hierarchical: return make_hierarchical(spec, group);
    case Algorithm::one_shot:
    case Algorithm::two_shot: return make_exchange(spec, group);
    case Algorithm::direct:
    case Algorithm::pxn: break;
  }
  return spec.operation == Operation::send_recv ? make_send_recv(spec, group) : make_all_to_all(spec, group);
}

std::vector<std::vector<std::uint32_t>> chains_of(const Group& group, std::uint32_t entry) {
  std::vector<std::vector<std::uint32_t>> chains(group.servers());
  for (std::uint32_t m = 0; m < group.size(); ++m) chains[group.server_of(m)].push_back(m);
  if (group.mesh) {
    for (std::uint32_t order = 0; order < entry; ++order) std::next_permutation(chains[0].begin() + 1, chains[0].end());
    return chains;
  }
  for (auto& chain : chains)
    std::rotate(chain.begin(), chain.begin() + entry % static_cast<std::uint32_t>(chain.size()), chain.end());
  return chains;
}

std::uint32_t entries_of(const Group& group) {
  if (group.mesh) {
    std::uint32_t orders = 1;
    for (std::uint32_t others = 2; others < group.size(); ++others) orders *= others;
    return orders;
  }
  if (group.servers() == 1) return 1;
  std::uint32_t fewest = group.size();
  for (const auto& chain : chains_of(group, 0)) fewest = std::min(fewest, static_cast<std::uint32_t>(chain.size()));
  return fewest;
}

BinaryTree BinaryTree::of(std::uint32_t size, std::uint32_t which) {
  BinaryTree tree;
  tree.parent.assign(size, kNone);
  tree.children.resize(size);
  const auto place = [&](std::uint32_t node) {
    if (which == 0) return node;
    return size % 2 == 0 ? size - 1 - node : (node + 1) % size;
  };
  // The parent of node k > 0 with lowest set bit b is k with this bit cleared and the next higher bit set. If that node
  // does not exist, the parent is k with the bit cleared. Node 0 is the root and has one child.
  for (std::uint32_t k = 1; k < size; ++k) {
    const std::uint32_t bit = k & (~k + 1);
    std::uint32_t up = (k ^ bit) | bit << 1;
    if (up >= size) up = k ^ bit;
    tree.parent[place(k)] = place(up);
    tree.children[place(up)].push_back(place(k));
  }
  return tree;
}

gpu::CtaFootprint cta_of(const CollectiveSpec& spec) {
  // DeepEP's kernels fill an SM: __launch_bounds__(threads, 1), and 96 to 217 KiB of shared memory. Here those of dispatch inside
  // a server count.
  constexpr std::uint32_t kDeepEpThreads = 768, kDeepEpRegisters = 80;
  constexpr double kDeepEpSharedKib = 192;
  constexpr std::uint32_t kRegisterBytes = 4, kNcclRegisters = 96, kEngineRegisters = 64;
  const bool engine = spec.algorithm == Algorithm::one_shot || spec.algorithm == Algorithm::two_shot;
  gpu::CtaFootprint cta;
  if (spec.tokens.runs())
    return {kDeepEpThreads, kDeepEpThreads * kDeepEpRegisters * kRegisterBytes / gpu::kBytesPerKib, kDeepEpSharedKib};
  cta.threads = engine || spec.protocol == Protocol::ll ? 512 : 640;
  cta.registers_kib = cta.threads * (engine ? kEngineRegisters : kNcclRegisters) * kRegisterBytes / gpu::kBytesPerKib;
  return cta;
}

}  // namespace railyard::collective
