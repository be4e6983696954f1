// What a machine is made of, before any module exists: the typed form of `machine:` in a scenario with its datasheets
// resolved and overrides applied. Plain data; no SystemC. Keys in the datasheets are the field names below.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/datasheet.h"
#include "infiniband/routing.h"

namespace railyard::platforms {

/// A physical link class of a board, one direction. Overridable by its role name in machine.overrides.
struct LinkDatasheet {
  double gb_per_s = 0;      ///< line rate after encoding
  double latency_ns = 0;    ///< wire and PHY, one way
  double buffer_bytes = 0;  ///< receive buffer per virtual channel; 0: ample
  /// Of PCIe: packets of each kind that the receiver at either end takes, per virtual channel; 0: ample. What endpoints have
  /// asked for they always take.
  double posted_headers = 0, non_posted_headers = 0, completion_headers = 0;
};

struct PcieProtocol {  ///< datasheets/links/pcie.yaml: facts of the protocol
  double gen3_lane_gb_per_s = 0, gen4_lane_gb_per_s = 0, gen5_lane_gb_per_s = 0, gen6_lane_gb_per_s = 0;
  double write_overhead_bytes = 0;       ///< MWr64: framing, sequence number, LCRC, header
  double read_request_bytes = 0;         ///< MRd64
  double completion_overhead_bytes = 0;  ///< CplD
  double max_payload_bytes = 0;          ///< MPS the whole path agrees on
  double max_read_request_bytes = 0;     ///< MRRS of a NIC
  double gpu_payload_bytes = 0;          ///< per packet that a GPU writes, where it is less than MPS
  double gpu_read_request_bytes = 0;     ///< MRRS of a GPU's copy engine
  double gpu_read_tags = 0;              ///< its outstanding read requests
  double host_completion_bytes = 0;  ///< per completion of a root complex: a multiple of the read completion boundary
  double dllp_interval_bytes = 0;    ///< one Ack and one UpdateFC per so many wire bytes
  double dllp_bytes = 0;             ///< what they take on the reverse direction
};

struct PcieCredits {                       ///< datasheets/links/pcie_credits.yaml: what receivers advertise
  double unit_bytes = 0;                   ///< of a data credit
  double posted_headers_per_gb_per_s = 0;  ///< of the link's rate
  double non_posted_headers_per_gb_per_s = 0;
  double completion_headers_per_gb_per_s = 0;
};

struct NvLinkProtocol {  ///< datasheets/links/nvlink2.yaml to nvlink5.yaml, by the GPU's generation
  double flit_bytes = 0;
  double header_flits = 0;         ///< per packet with data
  double request_flits = 0;        ///< a read request
  double response_flits = 0;       ///< write acknowledgement on the reverse direction
  double writes_per_response = 1;  ///< packets that share one; those of a multicast have one each
  double flits_per_link_flit = 0;  ///< packet flits per flit of the data link layer; 0: it takes none
  double sm_store_payload_bytes = 0;
  double copy_engine_payload_bytes = 0;
  double sm_request_bytes = 0;  ///< read by one request of an SM
  double copy_engine_request_bytes = 0;
  double read_payload_bytes = 0;     ///< per packet of data read
  double reduced_payload_bytes = 0;  ///< per packet of an in-switch reduction's operands and result
  double interleave_bytes = 0;       ///< address granule of the stripes over planes
};

struct InfiniBandProtocol {  ///< datasheets/links/infiniband.yaml, or roce or efa by what the NIC speaks
  double mtu_bytes = 0;
  double packet_overhead_bytes = 0;  ///< headers, CRCs and gap of every packet
  double first_overhead_bytes = 0;   ///< RETH
};

struct C2cProtocol {  ///< datasheets/links/c2c.yaml: NVLink-C2C carries cache lines
  double line_bytes = 0;
  double overhead_bytes = 0;  ///< of a line, and of a request for one
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
  double far_peer_gb_per_s = 0;  ///< what two GPUs below different sockets write to each other, together; 0: no limit
};
struct HostMemoryDatasheet {
  double gb_per_s = 0;  ///< DRAM of one socket
  double read_latency_ns = 0;
  double buffer_bytes = 0;        ///< of writes, per virtual channel
  double bounce_chunk_bytes = 0;  ///< of the staging buffer between two GPUs
  double bounce_chunks = 0;
  double bounce_start_us = 0;  ///< copies between GPUs without peer access: of each chunk's copy in, and out
};
struct NvSwitchDatasheet {
  double hop_ns = 0;
  double buffer_bytes = 0;
  double reduction_slots = 0;  ///< results under way per link; 0: the switch neither reduces nor multicasts
  double reduction_slot_bytes = 0;
  double reduction_gb_per_s = 0;  ///< of results, per link
};
struct NicDatasheet {
  std::string name;
  std::string protocol;  ///< infiniband | roce | efa
  std::string network;   ///< the switch it meets unless the scenario says otherwise
  double gb_per_s = 0;   ///< network port
  std::uint32_t pcie_generation = 0;
  std::uint32_t pcie_lanes = 16;
  double post_ns = 380;                    ///< one host thread's time to post a work request
  double inline_bytes = 220;               ///< a host's work request carries the data up to so many
  double doorbell_ns = 0;                  ///< work request to first read request
  double transmit_ns = 0, receive_ns = 0;  ///< pipeline, each way
  double read_tags = 0;                    ///< outstanding PCIe read requests
  double buffer_bytes = 0;                 ///< read data waiting for the network, and receive buffer per virtual lane
};
struct IbSwitchDatasheet {
  std::string name;
  bool ethernet = false;
  double gb_per_s = 0;
  std::uint32_t ports = 0;
  double hop_ns = 0;
  double buffer_bytes = 0;
};

struct BoardDatasheet {
  std::string name;  ///< plx_box | dgx_a100 | dgx_h100 | dgx_b200 | gb200_nvl72
  std::uint32_t gpus = 8;
  std::uint32_t trays = 1;  ///< PCIe ends at a tray, and a socket meets the other one of its tray only
  std::uint32_t sockets = 2;
  std::uint32_t pcie_switches = 0;  ///< 0: GPUs and NICs hang at the sockets
  bool c2c = false;                 ///< GPUs meet their socket over NVLink-C2C
  bool amd = false;                 ///< CPUs are AMD's, which NCCL plans with
  std::uint32_t nics = 2;
  std::string gpu;          ///< default GPU datasheet
  std::string nic;          ///< default NIC datasheet
  std::string pcie_switch;  ///< default PCIe switch datasheet
  /// Links that the board has from each GPU to each NVSwitch; empty: no NVLink. A GPU with fewer spreads those it has over all
  /// of them (GroupSpec).
  std::vector<std::uint32_t> nvlink_planes;
};

enum class Uplink { dual_root, single_root, cascaded };
enum class NetworkKind { single_switch, leaf_spine };
enum class NvLinkBridge { none, pairs };

struct GroupSpec {
  std::string name;  ///< prefix in waveforms and reports: "prefill"
  std::uint32_t servers = 1;
  gpu::GpuDatasheet gpu;
  LinkDatasheet gpu_pcie;  ///< as this group's GPU runs it: groups may differ in PCIe generation; or its C2C link
  LinkDatasheet nvlink;    ///< one link, at this group's GPU's rate
  NvLinkProtocol nvlink_protocol;  ///< of its GPU's generation
  std::vector<std::uint32_t>
      nvlink_planes;     ///< links from each of its GPUs to each NVSwitch, or to the GPU it is bridged with
  bool bridged = false;  ///< NVLink joins GPUs 2i and 2i + 1 of a server, and no switch
};

struct MachineSpec {
  BoardDatasheet board;
  std::vector<GroupSpec> groups;  ///< in the order of the scenario
  Uplink uplink = Uplink::dual_root;
  bool acs = false;                   ///< PCIe switches send what comes from below upstream, peers' bytes too
  std::uint32_t nics_per_server = 2;  ///< spread evenly over its branches
  NicDatasheet nic;
  IbSwitchDatasheet ib_switch;
  NetworkKind network = NetworkKind::single_switch;
  bool rail_optimized = false;                                       ///< leaf r joins NIC r of every server
  infiniband::Routing routing = infiniband::Routing::deterministic;  ///< of the ways up from a leaf
  std::uint64_t seed = 1;                                            ///< of ECMP's hash
  std::uint32_t spines = 0;                                          ///< 0: as many as keep the tree non-blocking

  /// gpu_pcie and nvlink are those of the first group; a group's own are in its GroupSpec.
  LinkDatasheet gpu_pcie, nic_pcie, plx_uplink, plx_cascade, socket_link, nvlink, ib_cable;
  PcieSwitchDatasheet plx;
  RootComplexDatasheet root_complex;
  HostMemoryDatasheet host_memory;
  NvSwitchDatasheet nvswitch;
  PcieProtocol pcie;
  PcieCredits pcie_credits;
  C2cProtocol c2c;
  InfiniBandProtocol infiniband;
};

/// Servers, and NICs, of a whole machine.
inline std::uint32_t servers_of(const MachineSpec& spec) {
  std::uint32_t servers = 0;
  for (const GroupSpec& group : spec.groups) servers += group.servers;
  return servers;
}
inline std::uint32_t nics_of(const MachineSpec& spec) { return servers_of(spec) * spec.nics_per_server; }

/// The socket that a GPU's way to memory ends at.
std::uint32_t socket_of(const MachineSpec& spec, std::uint32_t slot);

/// Where GPUs and NICs hang in a server: its PCIe switches, or its sockets where it has none. Each has as many GPUs.
inline std::uint32_t branches_of(const BoardDatasheet& board) {
  return board.pcie_switches != 0 ? board.pcie_switches : board.sockets;
}

}  // namespace railyard::platforms
