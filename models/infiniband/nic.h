// An InfiniBand NIC with GPUDirect RDMA. An RDMA write reads the source GPU's memory over PCIe (read requests of MRRS, as many
// in flight as it has tags and buffer), sends what comes back as packets of the MTU, and at the far side the receiving NIC
// writes the destination GPU's memory over PCIe. Nothing is staged whole: reads, network and writes are coupled train by train.
//
// Messages of one queue pair (source, destination, class, channel) keep their order; queue pairs take turns.
#pragma once

#include <array>
#include <unordered_map>

#include "transport/credit_window.h"
#include "transport/endpoint.h"
#include "transport/path.h"

namespace railyard::infiniband {

struct NicTiming {
  Time doorbell;            ///< work request to first read request
  Time transmit;            ///< read data arrived to network port
  Bytes read_bytes = 0;     ///< outstanding read requests: tags x MRRS
  Bytes buffer_bytes = 0;   ///< read data asked for and not yet on the network
};

class Nic : public transport::Endpoint {
 public:
  Nic(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window, transport::Lid lid,
      const NicTiming& timing);

  /// Ports must be added in this order.
  static constexpr std::uint32_t kPciePort = 0;
  static constexpr std::uint32_t kNetworkPort = 1;
  transport::Lid lid() const { return lid_; }
  const NicTiming& timing() const { return timing_; }

  /// RDMA write of a message whose source memory is reachable over PCIe, to the NIC at `remote`.
  void post(transport::Message& message, transport::Lid remote);
  /// Hops and turn-arounds from the source memory, read through its `memory_port`, to the destination.
  transport::Path path(const transport::Endpoint& memory, PortId memory_port, Time memory_latency,
                       transport::Window destination, transport::Lid remote) const;

  PortId decode(std::uint64_t address, transport::Lid lid, PortId ingress) const override;

 protected:
  void receive(transport::Transaction& transaction) override;
  void departed(transport::Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

 private:
  struct WorkRequest {
    transport::Message* message = nullptr;
    transport::Lid remote = 0;
    Bytes left_bytes = 0;
    bool first = true;
  };
  struct QueuePair {
    transport::Ring<WorkRequest> work;
    std::uint32_t transmit_requester = 0;
    transport::Lid remote = 0;
    std::uint8_t channel = 0;
  };
  /// Reads for one virtual channel: its queue pairs take turns, one read request is staged at a time.
  struct ReadEngine {
    transport::RequesterSet waiting;
    std::uint32_t requester = 0;
    std::uint32_t forward_requester = 0;
    bool made = false;
    bool staged = false;
    Time retry = Time::max();  ///< the pending wake-up, if any
  };
  static constexpr std::uint32_t kPostTag = kFirstEndpointTag;
  static constexpr std::uint32_t kTransmitTag = kFirstEndpointTag + 1;
  static constexpr std::uint32_t kForwardTag = kFirstEndpointTag + 2;
  static constexpr std::uint32_t kReadTag = kFirstEndpointTag + 3;

  PortId pcie() const { return PortId(kPciePort); }
  PortId network() const { return PortId(kNetworkPort); }
  ReadEngine& engine(std::uint8_t channel);
  void start_work();
  /// Stages the next read request of a channel, if tags and buffer allow; otherwise comes back when they do.
  void read(std::uint8_t channel);
  void transmit(transport::Transaction& transaction);
  void forward(transport::Transaction& transaction);

  transport::Lid lid_;
  NicTiming timing_;
  std::vector<QueuePair> queue_pairs_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
  std::array<ReadEngine, transport::kVirtualChannels> engines_;
  transport::CreditWindow reads_;
  transport::CreditWindow buffer_;
  transport::Ring<std::pair<transport::Message*, transport::Lid>> posts_;  ///< doorbells rung, in order
};

}  // namespace railyard::infiniband
