// The room `gpu` is one GPU. Gpu is its endpoint on the fabric: it owns the SmArray, which shares SMs among kernels and
// collectives, the Hbm with its MemoryTraffic, and Streams, in which Tasks run in order. GpuDatasheet has its facts and
// constants. The executor begins tasks; the machine gives the EgressPolicy of its messages; the room `kernels` gives
// times.
//
// A GPU on the fabric: an endpoint with one port per NVSwitch plane, a PCIe port, an SM array, HBM, and a policy that
// picks the egress of each message. NICs read the GPU's memory (GPUDirect); every device may write it. After the
// egress, the switches decide the path.
#pragma once

#include <memory>
#include <vector>

#include "base/cpu.h"
#include "gpu/hbm.h"
#include "gpu/sm_array.h"
#include "nvlink/nvlink.h"
#include "pcie/copy_engine.h"
#include "transport/device/reader.h"
#include "transport/device/routes.h"

namespace railyard::infiniband {
class Nic;
}

namespace railyard::gpu {

struct GpuDatasheet;

/// How a message leaves its GPU.
struct Egress {
  enum class Via : std::uint8_t {
    local,
    nvlink,
    pcie,
    bounce,
    nic,
    none
  } via = Via::local;                    ///< none: failed links have cut the destination off
  pcie::HostMemory* host = nullptr;      ///< via bounce: the host memory to bounce off
  infiniband::Nic* nic = nullptr;        ///< via nic: the NIC that sends
  transport::Lid remote = 0;             ///< via nic: the NIC of the destination
  bool one_of_several = false;           ///< via nic: other queue pairs use other NICs
  transport::Meter* far_pair = nullptr;  ///< via pcie: the limit of SMs on two GPUs below different sockets; null: none
};

/// Chooses the egress by source, destination, class and queue pair. The machine implements it, as it holds the boards.
class EgressPolicy {
 public:
  virtual Egress egress(transport::Window source, transport::Window destination, std::uint8_t traffic_class,
                        std::uint32_t queue_pair) const = 0;
  /// The way of what the network adds (SHARP): the NIC of a memory, and the aggregation nodes from its leaf to the root with a
  /// number.
  struct SumPath {
    const infiniband::Nic* nic = nullptr;
    std::vector<transport::Window> nodes;  ///< empty: the network does not add
  };
  virtual SumPath sum_path(transport::Window, [[maybe_unused]] std::uint32_t number) const { return {}; }

 protected:
  ~EgressPolicy() = default;
};

class Gpu : public transport::Reader, public transport::Sender, private pcie::CopyEngine {
 public:
  struct Config {
    const GpuDatasheet* datasheet = nullptr;
    std::vector<std::uint32_t> nvlink_planes;  ///< links to each plane; empty: none
    std::uint32_t mesh_gpus = 0;               ///< each plane leads to another GPU of so many; 0: to an NVSwitch
    Rate nvlink_rate;                          ///< per link
    transport::LinkDirection nvlink;           ///< one link; a bundle of n links has n times its rate and buffer
    Bytes stripe_bytes = 0;                    ///< address interleave over planes
    nvlink::EnginePackets sm, copy_engine;
    bool groups = false;  ///< the NVSwitches multicast and reduce
    transport::LinkDirection pcie;
    Bytes pcie_write_bytes = 0;  ///< payload per packet of the GPU's writes; 0: the link's
    transport::ReadLimits pcie_reads;
    std::uint32_t server = 0;             ///< the server of the GPU
    transport::Window beyond = 0;         ///< window_beyond()
    Cpu cpu = Cpu::xeon_sapphire_rapids;  ///< of the server
  };
  Gpu(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window, const Config& config,
      const EgressPolicy& policy);

  /// GPUs of one server reach each other without a network.
  std::uint32_t server() const { return config_.server; }
  /// Of a folded machine: the window under which messages from another server reach this memory, in place of the like
  /// memory of a server that is not built.
  transport::Window window_beyond() const { return config_.beyond; }
  Cpu cpu() const { return config_.cpu; }
  const GpuDatasheet& datasheet() const { return *config_.datasheet; }
  SmArray& sms() { return sms_; }
  Hbm& hbm() { return hbm_; }
  const SmArray& sms() const { return sms_; }
  const Hbm& hbm() const { return hbm_; }
  PortId nvlink(std::uint32_t plane) const { return PortId(plane); }
  PortId pcie() const { return PortId(static_cast<std::uint32_t>(config_.nvlink_planes.size())); }

  std::vector<std::uint64_t> traits(PortId) const override;
  /// Whether messages to that memory cross NVSwitches.
  bool reaches_over_nvlink(transport::Window destination) const;
  /// Whether the NVSwitches multicast and reduce for groups (NVLS).
  bool multicasts() const { return config_.groups && !config_.nvlink_planes.empty(); }
  /// NVLinks from this GPU to another one of its mesh; 0: NVSwitches, or no NVLink.
  std::uint32_t mesh_links() const { return config_.mesh_gpus == 0 ? 0 : config_.nvlink_planes.front(); }
  EgressPolicy::SumPath sum_path(std::uint32_t number) const { return policy_.sum_path(window(), number); }
  /// Whether working NVLink links lead to that memory.
  bool has_nvlink_to(transport::Window destination) const { return !stripes_to(destination).empty(); }
  /// Latency of a NIC's read request at the HBM. It limits how soon the NIC can reuse its tags.
  Time read_latency() const override { return memory_latency(); }
  void send(transport::Message& message) override;
  bool send_again(transport::Message& message, std::uint64_t address, Bytes bytes) override;
  void links_changed() override {
    open_stripes_.clear();
    Reader::links_changed();
  }
  /// Enables copies between the GPU's memory and a host's.
  void reaches(pcie::HostMemory& host);
  transport::Path path_to(transport::Window destination, std::uint8_t traffic_class,
                          transport::Engine engine) const override;
  transport::Path path_of(const transport::Message& message) const override;

 protected:
  void receive(transport::Transaction& transaction) override;

 private:
  void fetch(transport::Message& message, pcie::HostMemory& from, Bytes bytes) override;
  void stage(transport::Message& message, pcie::HostMemory& into, Bytes bytes) override;
  transport::Path fetch_path(const pcie::HostMemory& from) const override;
  /// Path of the GPU's writes over PCIe to an address.
  transport::Path pcie_path(std::uint64_t address) const;
  Time memory_latency() const;
  void copy_locally(transport::Message& message);
  Part written_over_pcie(transport::Message& message, std::uint64_t address, Bytes bytes) const;
  void send_over_nvlink(transport::Message& message, std::uint64_t address, Bytes bytes);
  /// The address interleave over the planes that lead to a memory and still work.
  const nvlink::Stripes& stripes_to(transport::Window destination) const;
  const nvlink::Stripes& stripes_over(transport::GroupId group) const;
  nvlink::Stripes stripes_where_open(const std::vector<transport::Window>& members) const;
  /// Payload per NVLink packet of a write, or per request of a read or reduction, by the engine of the message.
  Bytes nvlink_packet_bytes(transport::Engine engine, transport::MessageKind kind) const;
  transport::Path read_path_of(const transport::Message& message) const;
  transport::Path group_path_of(const transport::Message& message) const;

  Config config_;
  const EgressPolicy& policy_;
  SmArray sms_;
  Hbm hbm_;
  nvlink::Stripes stripes_;
  /// Stripes over working links if links can fail: by destination, or from kGroupKey on by group. Computed at the first
  /// use after a change.
  mutable std::unordered_map<std::uint64_t, nvlink::Stripes> open_stripes_;
  std::vector<pcie::HostMemory*> fetched_from_;  ///< by flow of reads; null: the memory of a peer
  std::vector<Bytes> on_plane_;                  // a member, to avoid an allocation per message
};

}  // namespace railyard::gpu
