// A GPU on the fabric: an endpoint with one port per NVSwitch plane and a PCIe port, an SM array, HBM, and the rule that
// picks a message's egress. Its memory is read by NICs (GPUDirect) and written by anyone; where bytes go after that,
// switches decide.
#pragma once

#include <memory>
#include <vector>

#include "gpu/datasheet.h"
#include "gpu/sm_array.h"
#include "nvlink/nvlink.h"
#include "pcie/copy_engine.h"
#include "transport/device/reader.h"
#include "transport/device/routes.h"

namespace railyard::infiniband {
class Nic;
}

namespace railyard::gpu {

/// How a message leaves its GPU.
struct Egress {
  enum class Via : std::uint8_t {
    local,
    nvlink,
    pcie,
    bounce,
    nic,
    none
  } via = Via::local;                    ///< none: lost links have cut it off
  pcie::HostMemory* host = nullptr;      ///< via bounce: off which memory
  infiniband::Nic* nic = nullptr;        ///< via nic: which
  transport::Lid remote = 0;             ///< via nic: the destination's NIC
  bool one_of_several = false;           ///< via nic: other channels take other NICs
  transport::Meter* far_pair = nullptr;  ///< via pcie: of two GPUs below different sockets, where those slow them down
};

/// Chooses by source, destination, class and channel; the machine knows who shares a board with whom.
class EgressPolicy {
 public:
  virtual Egress egress(transport::Window source, transport::Window destination, std::uint8_t traffic_class,
                        std::uint32_t channel) const = 0;

 protected:
  ~EgressPolicy() = default;
};

class Gpu : public transport::Reader, public transport::Sender, private pcie::CopyEngine {
 public:
  struct Config {
    const GpuDatasheet* datasheet = nullptr;
    std::vector<std::uint32_t> nvlink_planes;  ///< links to each plane; empty: none
    Rate nvlink_rate;                          ///< per link
    transport::LinkDirection nvlink;           ///< of one link; a bundle has that many times its rate and buffer
    Bytes stripe_bytes = 0;                    ///< address interleave over planes
    nvlink::EnginePackets sm, copy_engine;
    bool groups = false;  ///< its NVSwitches copy and reduce
    transport::LinkDirection pcie;
    Bytes pcie_write_bytes = 0;  ///< payload per packet that it writes; 0: the link's
    transport::ReadLimits pcie_reads;
    std::uint32_t server = 0;  ///< whose board it is on
    bool amd_host = false;     ///< whose CPUs are AMD's
  };
  Gpu(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window, const Config& config,
      const EgressPolicy& policy);

  /// GPUs of one server reach each other without a network.
  std::uint32_t server() const { return config_.server; }
  bool has_amd_host() const { return config_.amd_host; }
  const GpuDatasheet& datasheet() const { return *config_.datasheet; }
  SmArray& sms() { return sms_; }
  Hbm& hbm() { return hbm_; }
  const SmArray& sms() const { return sms_; }
  const Hbm& hbm() const { return hbm_; }
  PortId nvlink(std::uint32_t plane) const { return PortId(plane); }
  PortId pcie() const { return PortId(static_cast<std::uint32_t>(config_.nvlink_planes.size())); }

  /// Whether messages to that memory cross NVSwitches.
  bool reaches_over_nvlink(transport::Window destination) const;
  /// Whether its NVSwitches copy and reduce for groups: NVLS.
  bool multicasts() const { return config_.groups && !config_.nvlink_planes.empty(); }
  /// Whether links are left that join them by NVLink.
  bool has_nvlink_to(transport::Window destination) const { return !stripes_to(destination).empty(); }
  /// A NIC's read request out of HBM; what paces the NIC's tags.
  Time read_latency() const override { return memory_latency(); }
  void send(transport::Message& message) override;
  bool send_again(transport::Message& message, std::uint64_t address, Bytes bytes) override;
  void links_changed() override {
    open_stripes_.clear();
    Reader::links_changed();
  }
  /// Copies of its memory to and from a host's.
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
  /// Its writes over PCIe to an address.
  transport::Path pcie_path(std::uint64_t address) const;
  Time memory_latency() const { return Time::nanoseconds(config_.datasheet->hbm.read_latency_ns); }
  void copy_locally(transport::Message& message);
  Part written_over_pcie(transport::Message& message, std::uint64_t address, Bytes bytes) const;
  void send_over_nvlink(transport::Message& message, std::uint64_t address, Bytes bytes);
  /// The interleave over the planes that are left.
  const nvlink::Stripes& stripes_to(transport::Window destination) const;
  const nvlink::Stripes& stripes_over(transport::GroupId group) const;
  nvlink::Stripes stripes_where_open(const std::vector<transport::Window>& members) const;
  /// Payload per NVLink packet that the message's engine writes, or per request that it reads or reduces with.
  Bytes nvlink_packet_bytes(transport::Engine engine, transport::MessageKind kind) const;
  transport::Path read_path_of(const transport::Message& message) const;
  transport::Path group_path_of(const transport::Message& message) const;

  Config config_;
  const EgressPolicy& policy_;
  SmArray sms_;
  Hbm hbm_;
  nvlink::Stripes stripes_;
  /// Where links can be lost, by destination, or by group from kGroupKey on; made when first used after a change.
  mutable std::unordered_map<std::uint64_t, nvlink::Stripes> open_stripes_;
  std::vector<pcie::HostMemory*> fetched_from_;  ///< by flow of reads; null: a peer's memory
  std::vector<Bytes> on_plane_;                  // kept to spare an allocation per message
};

}  // namespace railyard::gpu
