#include "sc_main/scenario/import/cluster_links.h"

#include <set>

#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/tree.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

/// Far more than a link's rate and its round trip need.
constexpr std::uint64_t kNoLimitGbPerS = 1'000'000, kNoLimitBytes = 1'000'000'000;

/// The value of all dimensions.
NodePtr one_value(const NodePtr& root, const std::string& key) {
  const NodePtr node = value_at(root, key);
  if (node->kind != Node::Kind::sequence) return node;
  if (node->items.empty()) throw InputError(node->origin, key + ": is empty; accepted: a number");
  for (const NodePtr& item : node->items)
    if (item->text != node->items.front()->text)
      throw InputError(item->origin, key + ": " + in_quotes(item->text) +
                                         " differs from the first dimension; --links " +
                                         "as-given takes one value for all dimensions");
  return node->items.front();
}

/// A number that cluster_record() has checked.
double number_in(const NodePtr& node, const std::string& key) {
  Field checked;
  checked.range(0, 1e12);
  return read_number(checked, *node, key);
}

}  // namespace

std::string path_between(const GpuRange& gpus, const platforms::MachineSpec& machine, const gpu::GpuDatasheet& gpu) {
  const platforms::BoardDatasheet& board = machine.board;
  const std::uint32_t last = gpus.first + gpus.count - 1;
  if (gpus.first / board.gpus != last / board.gpus) return "in several servers, joined by the network";
  if (gpu.nvlink.links > 0 && !gpu.nvlink.bridge && board.nvlink_mesh) return "joined by NVLinks";
  if (gpu.nvlink.links > 0 && !gpu.nvlink.bridge && !board.nvlink_planes.empty()) return "joined by NVSwitches";
  std::set<std::uint32_t> branches, sockets;
  for (std::uint32_t g = gpus.first; g <= last; ++g) {
    const std::uint32_t slot = g % board.gpus;
    branches.insert(slot / (board.gpus / platforms::branches_of(board)));
    sockets.insert(platforms::socket_of(machine, slot));
  }
  std::string path = "below one socket";
  if (sockets.size() > 1) {
    path = "below different sockets";
  } else if (board.pcie_switches != 0) {
    path = branches.size() > 1 ? "below several PCIe switches of one socket" : "below one PCIe switch";
  }
  return gpu.pcie.p2p ? path : path + ", without peer access: their bytes cross host memory";
}

NodePtr given_links(const NodePtr& root, const platforms::MachineSpec& machine, const gpu::GpuDatasheet& gpu) {
  const platforms::BoardDatasheet& board = machine.board;
  const NodePtr rate = one_value(root, "link_bw"), latency = one_value(root, "link_latency");
  const auto gb_per_s = [&](double of_links) {
    return word(number_text(number_in(rate, "link_bw") / of_links), rate->origin);
  };
  const auto ns = [&](double links) {
    return word(number_text(number_in(latency, "link_latency") / links), latency->origin);
  };
  const auto fixed = [&](std::uint64_t value) { return number(value, rate->origin); };
  const auto group = [&](const Members& members) { return mapping(rate->origin, members); };
  const bool is_nvlink =
      gpu.nvlink.links > 0 && !gpu.nvlink.bridge && (board.nvlink_mesh || !board.nvlink_planes.empty());
  if (is_nvlink) {
    // Of a mesh, each GPU's links to one other GPU; otherwise all of them, into the switches and out of them.
    const double links = gpu.nvlink.links / (board.nvlink_mesh ? board.gpus - 1.0 : 1.0);
    Members keys{
        {"gpu", group({{"nvlink", group({{"gb_per_s", gb_per_s(links)}})}})},
        {"nvlink", group({{"latency_ns", ns(board.nvlink_mesh ? 1 : 2)}, {"buffer_bytes", fixed(0)}})},
        {"nvlink_protocol",
         group({{"header_flits", fixed(0)}, {"response_flits", fixed(0)}, {"flits_per_link_flit", fixed(0)}})}};
    if (!board.nvlink_mesh)
      keys.emplace_back("nvswitch", group({{"hop_ns", fixed(0)}, {"buffer_bytes", fixed(kNoLimitBytes)}}));
    return group(keys);
  }
  const auto unlimited = [&](Members members) {
    for (const char* key : {"buffer_bytes", "posted_headers", "non_posted_headers", "completion_headers"})
      members.emplace_back(key, fixed(0));
    return group(members);
  };
  const auto any_rate = [&] { return unlimited({{"gb_per_s", fixed(kNoLimitGbPerS)}, {"latency_ns", fixed(0)}}); };
  Members keys{{"gpu", group({{"pcie", group({{"p2p", flag(true, rate->origin)}})}})},
               {"gpu_pcie", unlimited({{"gb_per_s", gb_per_s(1)}, {"latency_ns", ns(2)}})},
               {"pcie", group({{"write_overhead_bytes", fixed(0)}, {"dllp_bytes", fixed(0)}})},
               {"root_complex",
                group({{"hop_ns", fixed(0)}, {"far_peer_gb_per_s", fixed(0)}, {"buffer_bytes", fixed(kNoLimitBytes)}})},
               {"socket_link",
                group({{"gb_per_s", fixed(kNoLimitGbPerS)}, {"latency_ns", fixed(0)}, {"buffer_bytes", fixed(0)}})}};
  if (board.pcie_switches != 0) {
    keys.emplace_back("plx", group({{"hop_ns", fixed(0)}, {"buffer_bytes", fixed(kNoLimitBytes)}}));
    keys.emplace_back("plx_uplink", any_rate());
  }
  return group(keys);
}

}  // namespace railyard::scenario
