// The room `platforms` builds machines from datasheets. MachineSpec says what to build, from a board, GPUs, NICs and
// switches; Machine builds the servers and the network, and fills the decoders of switches; FatTree decides trunks
// between them; BuiltPart is a folded machine. Simulation in sc_main owns the machine; workloads get GPUs from it.
//
// An elaborated machine: servers of GPUs, PCIe switches, NICs and NVSwitches, joined by an InfiniBand network. There is
// one builder for all box types; the board's datasheet has the differences between, say, a plx_box and a DGX.
//
//   plx_box    GPU -x16- PLX -x16- root complex. Two PLX per server, each with 4 GPUs and their NICs. Uplinks lead to
//              one root complex each (dual_root), to the same one (single_root), or from PLX1 to PLX0 (cascaded).
//              NVLink bridges may join pairs of GPUs
//   hgx_*_4gpu NVLinks from each GPU to each other one; GPUs and NICs at two sockets
//   dgx_*      four PCIe switches, each with 2 GPUs and their NICs, two switches per root complex, and NVSwitch planes
//   gb200_*    a rack is one server. GPUs (over C2C) and NICs connect to Grace sockets, with two sockets per tray.
//              Every GPU has one link to each NVSwitch of the rack
//
// NICs are numbered by server, then by PLX. Order of windows in the address space: GPUs, NICs, memories of CPU sockets,
// in a folded machine the GPUs again (BuiltPart), devices attached by users. A LID is the number of its NIC in the whole
// machine; in a folded machine, LIDs from the number of all NICs on lead to the same NICs over a spine.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gpu/gpu.h"
#include "gpu/memory_traffic.h"
#include "infiniband/aggregation_node.h"
#include "infiniband/ib_switch.h"
#include "infiniband/infiniband.h"
#include "infiniband/nic.h"
#include "nvlink/nvlink.h"
#include "pcie/host_memory.h"
#include "pcie/pcie.h"
#include "platforms/fat_tree.h"
#include "platforms/machine_spec.h"

namespace railyard::transport {
class Assembly;
}

namespace railyard::platforms {

/// Place of a GPU in the machine.
struct GpuPlace {
  std::uint32_t group = 0;
  std::uint32_t server = 0;  ///< in the machine
  std::uint32_t slot = 0;    ///< in its server
  std::uint32_t index_in_group = 0;
};

/// The first NIC of a branch, counted within its server. NIC k of n is at branch k * branches / n.
std::uint32_t first_nic_at(const MachineSpec& spec, std::uint32_t branch);
/// Number of a leaf's ports towards NICs. The same number of ports leads to spines.
std::uint32_t leaf_down_ports(const MachineSpec& spec);
/// The leaf of a NIC in a fat tree. Rail-optimised: NIC r of every server connects to the leaves of rail r.
/// Otherwise leaves are filled server by server. The last NIC is on the last leaf.
std::uint32_t leaf_of(const MachineSpec& spec, std::uint32_t nic);
/// Three tiers: the pod of a NIC, the leaves of a pod, and the cores that a spine of each pod reaches.
std::uint32_t pod_of(const MachineSpec& spec, std::uint32_t nic);
std::uint32_t leaves_of_pod(const MachineSpec& spec);
std::uint32_t cores_of_spine(const MachineSpec& spec);

/// Windows of GPUs come first.
inline std::uint32_t windows_of_gpus(const MachineSpec& spec) { return servers_of(spec) * spec.board.gpus; }
/// Of a folded machine: the first of the GPUs' windows for messages from other servers (gpu::Gpu::window_beyond()).
inline transport::Window first_beyond_of(const MachineSpec& spec) {
  return windows_of_gpus(spec) + nics_of(spec) + servers_of(spec) * spec.board.sockets;
}

/// One server. Its devices are its child modules, so names look like prefill0.plx1.port2.
class Server : public sc_core::sc_module {
 public:
  /// @param server  number in the machine, counted over servers that are built
  Server(sc_core::sc_module_name name, const MachineSpec& spec, std::uint32_t group, std::uint32_t server,
         transport::Assembly& fabric, const gpu::EgressPolicy& policy);

  std::vector<std::unique_ptr<gpu::Gpu>> gpus;
  std::vector<std::unique_ptr<infiniband::Nic>> nics;
  std::vector<std::unique_ptr<pcie::PlxSwitch>> plx;
  std::vector<std::unique_ptr<pcie::RootComplex>> roots;
  std::vector<std::unique_ptr<pcie::HostMemory>> hosts;  ///< by socket
  std::vector<std::unique_ptr<nvlink::NvSwitch>> nvswitches;

  /// Connects a device to a PCIe switch, or to a socket if the board has no PCIe switch. Switches above route to it as
  /// to the GPUs of the branch.
  void attach(const MachineSpec& spec, transport::Endpoint& device, std::uint32_t branch, const LinkDatasheet& link);
  /// The PCIe switch of a branch, or its root complex if the board has no PCIe switch.
  transport::Switch& switch_at(std::uint32_t branch) const;

 private:
  void build_hosts(const MachineSpec& spec, std::uint32_t server, transport::Assembly& fabric);
  void build_pcie(const MachineSpec& spec, const GroupSpec& group_spec);
  void build_nvlink(const MachineSpec& spec, const GroupSpec& group_spec);
  /// Calls on_gpu or on_nic for each GPU and NIC of a branch.
  template <class OnGpu, class OnNic>
  void for_each_at(const MachineSpec& spec, std::uint32_t branch, const OnGpu& on_gpu, const OnNic& on_nic) const;
  void build_uplinks(const MachineSpec& spec);
  void join_sockets(const MachineSpec& spec);
};

class Machine final : private gpu::EgressPolicy,
                      private infiniband::AggregationNode::Directory,
                      private transport::LinkObserver {
 public:
  Machine(const MachineSpec& spec, transport::Assembly& fabric);
  ~Machine();

  const MachineSpec& spec() const { return spec_; }
  std::size_t gpus() const { return gpus_.size(); }
  gpu::Gpu& gpu(GpuId id) { return *gpus_[id]; }
  std::vector<gpu::Gpu*> gpus(const std::vector<GpuId>& ids) const;
  const gpu::Gpu& gpu(GpuId id) const { return *gpus_[id]; }
  const GpuPlace& place(GpuId id) const { return places_[id]; }
  GpuId gpu_in_group(std::uint32_t group, std::uint32_t index_in_group) const;
  static transport::Window window(GpuId id) { return id.value(); }
  /// The memory of a GPU's socket.
  pcie::HostMemory& host_of(GpuId id) { return *servers_[place(id).server]->hosts[socket_of(spec_, place(id).slot)]; }

  /// Adds a device of the user, such as a generic_payload_adapter.h, to a PCIe switch of a server, or to a socket if
  /// the server has no PCIe switch. GPUs of its tray reach it over PCIe, other memories through the NIC of its branch.
  /// As an initiator it reaches the memories of its tray.
  /// @param device  its window is first_free_window() or later  @param link  both directions  @pre before elaboration
  ///                ends
  void attach(transport::Endpoint& device, std::uint32_t server, std::uint32_t branch, const LinkDatasheet& link);
  /// The first window after the machine's own windows.
  transport::Window first_free_window() const {
    return first_sum() + static_cast<transport::Window>(sum_nodes_.size());
  }

  /// HBM traffic of messages, by GPU.
  const gpu::MemoryTraffic& memory_traffic() const { return memory_traffic_; }

  std::size_t nics() const { return nics_.size(); }
  infiniband::Nic& nic(NicId id) { return *nics_[id]; }
  std::uint32_t nics_per_server() const { return nics_per_server_; }
  std::uint32_t group_of(NicId id) const {
    return place(GpuId(id.value() / nics_per_server_ * spec_.board.gpus)).group;
  }
  std::uint32_t index_in_group(NicId id) const;

  /// Sets the NIC that a GPU uses for messages to and from other servers. Default: the nearest NIC.
  void assign_nic(GpuId gpu, std::uint32_t nic_in_server) { nics_of_gpu_[gpu] = {nic_in_server, 1}; }
  /// A NIC of the GPU's tray: `number` modulo the number of NICs that the GPU reaches over PCIe.
  std::uint32_t nic_modulo(GpuId gpu, std::uint32_t number) const;
  /// The NIC of a GPU's messages on one queue pair. If the GPU has several NICs, its queue pairs are spread over them.
  NicId nic_of(GpuId gpu, std::uint32_t queue_pair = 0) const;

  /// For messages from and to the memory of a GPU's socket that use the NICs of this GPU.
  std::uint32_t queue_pairs_beside(GpuId gpu) const;

  /// Two GPUs of a server below different sockets, and the rate limit that they share.
  struct FarPair {
    GpuId one, other;
    const transport::Meter* meter = nullptr;
  };
  std::vector<FarPair> far_pairs() const;

  /// All switches of the network between servers.
  const std::vector<std::unique_ptr<infiniband::IbSwitch>>& network() const { return network_; }
  /// Their aggregation nodes (SHARP).
  const std::vector<std::unique_ptr<infiniband::AggregationNode>>& sum_nodes() const { return sum_nodes_; }
  const std::vector<std::unique_ptr<Server>>& servers() const { return servers_; }
  /// Both directions of the links between switches of a fat tree.
  struct BuiltTrunk {
    Trunk trunk;
    bool to_next_copy = false;
    transport::LinkEnd link;
  };
  const std::vector<BuiltTrunk>& trunks() const { return trunks_; }
  /// Builds all links between switches a second time ("next_"), for messages to the next copy, which have had the same links as
  /// all others. Both stand for one cable, of which they have different shares (sc_main/fold_shares.h).
  /// @pre before elaboration ends
  void separate_paths_to_next_copy();
  /// LID of a NIC of the whole machine for messages to the next copy, if they cross a spine.
  transport::Lid lid_to_next_copy(std::uint32_t nic) const { return nic + whole_servers_of(spec_) * nics_per_server_; }

 private:
  /// The shared rate limit of two GPUs below different sockets; null: no limit.
  transport::Meter* far_pair(const GpuPlace& a, const GpuPlace& b) const;
  /// NICs of one server.
  struct NicShare {
    std::uint32_t first = 0, count = 1;
  };
  /// Sends from a socket's memory to the network: its processor posts to a NIC of one of the socket's GPUs.
  class HostPort : public transport::Sender {
   public:
    HostPort(const Machine& machine, transport::Window host) : machine_(machine), host_(host) {}
    void send(transport::Message& message) override;
    transport::Path path_to(transport::Window destination, std::uint8_t traffic_class,
                            transport::Engine engine) const override;
    transport::Path path_of(const transport::Message& message) const override;

   private:
    const Machine& machine_;
    transport::Window host_;
  };
  gpu::Egress egress(transport::Window source, transport::Window destination, std::uint8_t traffic_class,
                     std::uint32_t queue_pair) const override;
  transport::Window first_host() const { return windows_of_gpus(spec_) + nics_of(spec_); }
  transport::Window first_beyond() const { return first_beyond_of(spec_); }
  /// Whether a window is a GPU's memory as messages from other servers reach it, in a folded machine.
  bool is_beyond(transport::Window window) const { return window >= first_beyond() && window < first_sum(); }
  /// Aggregation nodes follow.
  transport::Window first_sum() const { return first_beyond() + (spec_.part ? windows_of_gpus(spec_) : 0); }
  bool is_sum(transport::Window window) const { return window >= first_sum() && window < first_free_window(); }
  transport::Lid lid_of(transport::Window memory) const override;
  SumPath sum_path(transport::Window source, std::uint32_t number) const override;
  /// lid_to_next_copy(), or its own LID if the way turns around at a leaf.
  transport::Lid lid_beyond(const infiniband::Nic& nic) const;
  /// The GPU whose NICs a memory uses: the GPU itself; or the first GPU of a host's socket or of an attached device's
  /// branch.
  GpuId served_with(transport::Window memory) const;
  /// The NIC of a memory on one queue pair. A socket's memory has a set of queue pairs for each GPU of the socket, at its NICs.
  infiniband::Nic& nic_at(transport::Window memory, std::uint32_t queue_pair) const;
  void build_host_ports();
  /// The NICs at the GPU's own branch, or else at the nearest branch before it that has NICs. These NICs are divided
  /// equally among the GPUs they serve; if there are fewer NICs than GPUs, GPUs share them in turn.
  NicShare nearest_nics(GpuId gpu) const;
  struct Leaf {
    infiniband::IbSwitch* device = nullptr;
    std::vector<infiniband::Nic*> nics;
  };
  /// Two tiers: the only one. Ports of a leaf: to NICs, to spines; of a spine: to the leaves of its pod, to cores; of a core:
  /// to pods. Those to switches follow once more if ways to the next copy are parted.
  struct Pod {
    std::uint32_t number = 0;  ///< in the whole machine
    std::vector<infiniband::IbSwitch*> spines;
    std::vector<Leaf> leaves;
  };
  /// Adds an aggregation node to a switch.
  infiniband::AggregationNode& add_sum_node(infiniband::IbSwitch& at);
  /// Aggregation nodes of leaves and spines, if switches add.
  void build_sum_nodes();
  void build_single_switch();
  void build_fat_tree();
  /// @param place_below  by NIC of the whole machine: its place at its leaf
  void build_leaf(std::uint32_t number, const std::vector<infiniband::Nic*>& nics,
                  const std::vector<std::size_t>& place_below, Pod& pod);
  void build_cores();
  /// Connects two switches with a cable. @param trunk  either direction
  void join(infiniband::IbSwitch& lower, const std::string& up, infiniband::IbSwitch& upper, const std::string& down,
            Trunk trunk, bool to_next_copy);
  std::uint32_t built_leaves() const;
  /// Ports of a pod's spines, without those on parted ways to the next copy.
  std::uint32_t ports_of_spine(std::size_t pod) const;
  infiniband::IbSwitch& add_switch(const std::string& name);
  /// Which way the switches of a fat tree send to each NIC.
  void map_lids();
  /// The paths up from leaves and spines, over working links.
  void route_network();
  /// @param next  on parted ways to the next copy
  void route_network(bool next);
  /// After link failures: the wanted egress if it still works, or another egress that joins the two memories: PCIe
  /// instead of NVLink, or the next NICs of their servers.
  gpu::Egress path_left(transport::Window source, transport::Window destination, const gpu::Egress& wanted) const;
  gpu::Egress find_path(transport::Window source, transport::Window destination, gpu::Egress wanted) const;
  void on_links_changed() override;
  transport::LinkDirection to_switch() const;
  transport::LinkDirection to_nic() const;
  transport::LinkDirection between_switches() const;

  MachineSpec spec_;
  transport::Assembly& fabric_;
  std::uint32_t nics_per_server_ = 0;
  gpu::MemoryTraffic memory_traffic_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<infiniband::IbSwitch>> network_;
  std::vector<Pod> pods_;
  std::vector<std::unique_ptr<infiniband::AggregationNode>> sum_nodes_;
  std::map<const transport::Device*, const infiniband::AggregationNode*> sum_node_of_;  ///< by switch
  std::vector<infiniband::IbSwitch*> cores_;         ///< by spine of a pod, then by number
  std::vector<BuiltTrunk> trunks_;                   ///< of each link: up, down
  bool next_parted_ = false;                         ///< part_ways_to_next_copy()
  mutable std::vector<transport::Meter> far_pairs_;  ///< by server, lower slot and higher slot; empty: no limits
  std::deque<HostPort> host_ports_;
  Table<GpuId, gpu::Gpu*> gpus_;
  Table<GpuId, GpuPlace> places_;
  Table<NicId, infiniband::Nic*> nics_;
  Table<GpuId, NicShare> nics_of_gpu_;
  std::vector<std::uint32_t> first_gpu_of_group_;
  std::map<transport::Window, GpuId> attached_;  ///< attached devices, with the first GPU of their branch
  bool has_lost_links_ = false;
  /// Cache of way_left() since the last change: by source and destination, and by the wanted NICs.
  mutable std::map<std::tuple<transport::Window, transport::Window, const infiniband::Nic*, transport::Lid>,
                   gpu::Egress>
      paths_left_;
};

}  // namespace railyard::platforms
