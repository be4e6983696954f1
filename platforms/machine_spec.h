// The description of a machine before any module exists: the typed form of `machine:` in a scenario, with datasheets
// resolved and overrides applied. Plain data; no SystemC. Keys in the datasheets are the field names below.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "gpu/datasheet.h"
#include "infiniband/routing.h"

namespace railyard::platforms {

/// One direction of a kind of link on a board. machine.overrides changes it under the name of its role.
struct LinkDatasheet {
  double gb_per_s = 0;      ///< line rate after encoding
  double latency_ns = 0;    ///< wire and PHY, one direction
  double buffer_bytes = 0;  ///< receive buffer per virtual channel; 0: unlimited
  /// PCIe: header credits, the number of packets of each kind that the receiver at either end accepts, per virtual
  /// channel; 0: unlimited. Endpoints always accept completions of their own requests.
  double posted_headers = 0, non_posted_headers = 0, completion_headers = 0;
};

struct PcieProtocol {  ///< datasheets/links/pcie.yaml: facts of the protocol
  double gen3_lane_gb_per_s = 0, gen4_lane_gb_per_s = 0, gen5_lane_gb_per_s = 0, gen6_lane_gb_per_s = 0;
  double write_overhead_bytes = 0;       ///< MWr64: framing, sequence number, LCRC, header
  double read_request_bytes = 0;         ///< MRd64
  double completion_overhead_bytes = 0;  ///< CplD
  double max_payload_bytes = 0;          ///< MPS of the whole path
  double max_read_request_bytes = 0;     ///< MRRS of a NIC
  double gpu_payload_bytes = 0;          ///< payload per packet of a GPU's writes, if less than MPS
  double gpu_read_request_bytes = 0;     ///< MRRS of a GPU's copy engine
  double gpu_read_tags = 0;              ///< outstanding read requests of a GPU's copy engine
  double host_completion_bytes =
      0;  ///< payload per completion of a root complex: a multiple of the read completion boundary
  double dllp_interval_bytes = 0;  ///< wire bytes per pair of DLLPs: one Ack and one UpdateFC
  double dllp_bytes = 0;           ///< bytes of such a pair in the reverse direction
};

struct PcieCredits {                       ///< datasheets/links/pcie_credits.yaml: credits that receivers advertise
  double unit_bytes = 0;                   ///< bytes of a data credit
  double posted_headers_per_gb_per_s = 0;  ///< header credits per GB/s of the link's rate
  double non_posted_headers_per_gb_per_s = 0;
  double completion_headers_per_gb_per_s = 0;
};

struct NvLinkProtocol {  ///< datasheets/links/nvlink2.yaml to nvlink5.yaml, by the GPU's generation
  double flit_bytes = 0;
  double header_flits = 0;         ///< per packet with data
  double request_flits = 0;        ///< per read request
  double response_flits = 0;       ///< per write response, in the reverse direction
  double writes_per_response = 1;  ///< packets that share a write response; each packet of a multicast has its own
  double flits_per_link_flit = 0;  ///< packet flits per flit of the data link layer; 0: that layer uses none
  double sm_store_payload_bytes = 0;
  double copy_engine_payload_bytes = 0;
  double sm_request_bytes = 0;  ///< bytes that one request of an SM reads
  double copy_engine_request_bytes = 0;
  double read_payload_bytes = 0;     ///< per packet of read data
  double reduced_payload_bytes = 0;  ///< per packet of operands or result of an in-switch reduction
  double interleave_bytes = 0;       ///< address granule of the stripes over planes
};

struct InfiniBandProtocol {  ///< datasheets/links/infiniband.yaml, roce.yaml or efa.yaml: the protocol of the NIC
  double mtu_bytes = 0;
  double packet_overhead_bytes = 0;  ///< headers, CRCs and gap of every packet
  double first_overhead_bytes = 0;   ///< RETH
};

struct C2cProtocol {  ///< datasheets/links/c2c.yaml: NVLink-C2C carries cache lines
  double line_bytes = 0;
  double overhead_bytes = 0;  ///< per line, and per request for a line
};

struct PcieSwitchDatasheet {
  std::string name;
  double hop_ns = 0;
  std::uint32_t generation = 0;
  double buffer_bytes = 0;
};
struct RootComplexDatasheet {
  std::uint32_t generation = 0;
  double hop_ns = 0;
  double buffer_bytes = 0;
  double far_peer_gb_per_s =
      0;  ///< limit for writes of SMs between two GPUs below different sockets, both directions; 0: none
};
struct HostMemoryDatasheet {
  double gb_per_s = 0;  ///< DRAM of one socket
  double bytes = 0;     ///< the same; 0: not known
  double read_latency_ns = 0;
  double buffer_bytes = 0;        ///< buffer for writes, per virtual channel
  double bounce_chunk_bytes = 0;  ///< size of a chunk in the staging buffer between two GPUs
  double bounce_chunks = 0;
  double bounce_start_us = 0;  ///< copies between GPUs without peer access: time to start each chunk's copy, in and out
};
struct NvSwitchDatasheet {
  double hop_ns = 0;
  double buffer_bytes = 0;
  double reduction_slots = 0;  ///< results in progress per link; 0: the switch neither reduces nor multicasts
  double reduction_slot_bytes = 0;
  double reduction_gb_per_s = 0;  ///< rate of results, per link
};
struct NicDatasheet {
  std::string name;
  std::string protocol;  ///< infiniband | roce | efa
  std::string network;   ///< default switch of the network
  double gb_per_s = 0;   ///< network port
  std::uint32_t pcie_generation = 0;
  std::uint32_t pcie_lanes = 16;
  double post_ns = 380;                    ///< time of a host thread to post a work request
  double inline_bytes = 220;               ///< up to this size, a host's work request carries the data
  double doorbell_ns = 0;                  ///< from the work request to the first read request
  double transmit_ns = 0, receive_ns = 0;  ///< pipeline in each direction
  double read_tags = 0;                    ///< outstanding PCIe read requests
  double buffer_bytes = 0;  ///< buffer for read data that waits for the network, and receive buffer per lane
};
struct IbSwitchDatasheet {
  std::string name;
  bool ethernet = false;
  double gb_per_s = 0;
  std::uint32_t ports = 0;
  double hop_ns = 0;
  double buffer_bytes = 0;
  double aggregation_ns = 0;  ///< SHARP: time from the last message of a sum to the sum; 0: the switch does not add
  double power_w = 0;         ///< of the whole switch; 0: not known
};
struct ServerPowerDatasheet {  ///< of a server without the boards of its GPUs
  double base_w = 0;           ///< 0: not known
  double gpus_ratio = 0;       ///< what it draws beyond base_w, as a share of what its GPUs draw
};

struct BoardDatasheet {
  std::string name;  ///< plx_box | hgx_a100_4gpu | hgx_h100_4gpu | dgx_a100 | dgx_h100 | dgx_b200 | gb200_nvl72
  std::uint32_t gpus = 8;
  std::uint32_t trays = 1;  ///< PCIe and socket links do not leave a tray
  std::uint32_t sockets = 2;
  std::uint32_t pcie_switches = 0;  ///< 0: GPUs and NICs connect to the sockets
  bool c2c = false;                 ///< GPUs connect to their socket over NVLink-C2C
  Cpu cpu = Cpu::xeon_sapphire_rapids;
  std::uint32_t nics = 2;
  std::string gpu;             ///< default GPU datasheet
  std::string nic;             ///< default NIC datasheet
  std::string pcie_switch;     ///< default PCIe switch datasheet
  std::string network_source;  ///< of the default NICs
  /// Links of the board from each GPU to each NVSwitch; empty: no NVLink. A GPU with fewer links spreads them over all
  /// NVSwitches (GroupSpec).
  std::vector<std::uint32_t> nvlink_planes;
  bool nvlink_mesh = false;  ///< NVLinks lead from each GPU to each other one of its server; there is no NVSwitch
};

enum class Uplink { dual_root, single_root, cascaded };
enum class NetworkKind { single_switch, leaf_spine };
enum class NvLinkBridge { none, pairs };

struct GroupSpec {
  std::string name;  ///< prefix in waveforms and reports: "prefill"
  std::uint32_t servers = 1;
  gpu::GpuDatasheet gpu;
  LinkDatasheet gpu_pcie;  ///< PCIe link of this group's GPU (generations may differ between groups), or its C2C link
  LinkDatasheet nvlink;    ///< one link, at the rate of this group's GPU
  NvLinkProtocol nvlink_protocol;  ///< of the generation of this group's GPU
  std::vector<std::uint32_t>
      nvlink_planes;  ///< links from each GPU of the group to each NVSwitch, or in a mesh to each
                      ///< other GPU, in the order of their slots
  /// Number of neighbours that NVLinks join directly, each to each other one: 2 with bridges, all GPUs of a board without
  /// NVSwitches. 0: NVSwitches, or no NVLink.
  std::uint32_t nvlink_mesh = 0;
};

/// Whether NVLinks join two GPUs of a server directly.
inline bool in_one_mesh(const GroupSpec& group, std::uint32_t slot, std::uint32_t other_slot) {
  return group.nvlink_mesh != 0 && slot / group.nvlink_mesh == other_slot / group.nvlink_mesh;
}
/// The plane of a GPU in a mesh that leads to another GPU of this mesh.
inline std::uint32_t plane_to(const GroupSpec& group, std::uint32_t slot, std::uint32_t other_slot) {
  return other_slot % group.nvlink_mesh - (other_slot > slot ? 1 : 0);
}

/// Of the network's switches.
enum class Tier : std::uint8_t { leaf, spine, core };

/// The part of a machine that is built, for one that is folded: other copies of its servers do what these do. Messages to the
/// memory of a copy that is not built leave by their NIC and come back by the NIC of the part's own memory; or by NVLink, where
/// all copies are in one server, joined by NVSwitches.
struct BuiltPart {
  std::uint32_t servers = 0;           ///< of the whole machine
  std::vector<std::uint32_t> numbers;  ///< in the whole machine, of each server that is built, ascending
  Tier turns_at = Tier::leaf;          ///< the tier at which the way to the next copy turns around
  bool in_one_server = false;          ///< all copies are GPUs of this server; it is built with all its GPUs
};

struct MachineSpec {
  BoardDatasheet board;
  std::vector<GroupSpec> groups;  ///< in the order of the scenario
  Uplink uplink = Uplink::dual_root;
  bool acs = false;                   ///< PCIe switches send all trains from below upstream, including those to peers
  std::uint32_t nics_per_server = 2;  ///< spread evenly over the branches
  NicDatasheet nic;
  IbSwitchDatasheet ib_switch;
  NetworkKind network = NetworkKind::single_switch;
  bool sharp = false;                                                ///< switches add for collectives
  bool rail_optimized = false;                                       ///< leaf r joins NIC r of every server
  infiniband::Routing routing = infiniband::Routing::deterministic;  ///< choice among the paths up from a leaf
  std::uint64_t seed = 1;                                            ///< of ECMP's hash
  std::uint32_t tiers = 2;                                           ///< of a fat tree: 2 or 3
  std::uint32_t spines = 0;                                          ///< of each pod; 0: enough for a non-blocking tree
  std::uint32_t pod_leaves = 0;                                      ///< three tiers; 0: half of a switch's ports
  std::uint32_t cores = 0;        ///< three tiers: cores that a spine reaches; 0: enough for a non-blocking tree
  std::optional<BuiltPart> part;  ///< none: all of the machine is built

  /// gpu_pcie and nvlink are those of the first group. Each GroupSpec has the values of its group.
  LinkDatasheet gpu_pcie, nic_pcie, plx_uplink, plx_cascade, socket_link, nvlink, ib_cable;
  PcieSwitchDatasheet plx;
  RootComplexDatasheet root_complex;
  HostMemoryDatasheet host_memory;
  NvSwitchDatasheet nvswitch;
  ServerPowerDatasheet server_power;
  PcieProtocol pcie;
  PcieCredits pcie_credits;
  C2cProtocol c2c;
  InfiniBandProtocol infiniband;
};

/// Numbers of servers and NICs that are built.
inline std::uint32_t servers_of(const MachineSpec& spec) {
  std::uint32_t servers = 0;
  for (const GroupSpec& group : spec.groups) servers += group.servers;
  return servers;
}
inline std::uint32_t nics_of(const MachineSpec& spec) { return servers_of(spec) * spec.nics_per_server; }
/// Numbers of servers of the whole machine, and the number in it of a server that is built.
inline std::uint32_t whole_servers_of(const MachineSpec& spec) {
  return spec.part ? spec.part->servers : servers_of(spec);
}
inline std::uint32_t servers_of_whole(const MachineSpec& spec, const GroupSpec& group) {
  return spec.part ? spec.part->servers : group.servers;
}
inline std::uint32_t number_in_whole(const MachineSpec& spec, std::uint32_t server) {
  return spec.part ? spec.part->numbers[server] : server;
}

/// Number of branches of a server, to which GPUs and NICs connect: its PCIe switches, or its sockets if it has no PCIe
/// switches. All branches have the same number of GPUs.
inline std::uint32_t branches_of(const BoardDatasheet& board) {
  return board.pcie_switches != 0 ? board.pcie_switches : board.sockets;
}

/// The socket to whose root complex a GPU is connected. The scenario loader uses it, too, without the machine.
inline std::uint32_t socket_of(const MachineSpec& spec, std::uint32_t slot) {
  const std::uint32_t branch = slot / (spec.board.gpus / branches_of(spec.board));
  if (spec.board.pcie_switches == 0) return branch;
  return spec.uplink == Uplink::dual_root ? branch * spec.board.sockets / spec.board.pcie_switches : 0;
}

}  // namespace railyard::platforms
