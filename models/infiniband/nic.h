// The room `infiniband` has networks of NICs and switches: InfiniBand, RoCE and EFA, which differ in their Protocol of
// packets and in datasheets. A Nic sends messages of its GPUs, and reads remote memory; an IbSwitch routes by LID with
// a choice of ports (routing.h, ecmp.h); an AggregationNode adds in a switch (SHARP). The machine builds and routes
// them; a GPU posts messages to its NIC.
//
// An InfiniBand NIC with GPUDirect RDMA. For an RDMA write, the NIC reads the memory of the source GPU over PCIe
// (transport/reader.h: read requests of MRRS; tags and buffer limit the number in flight) and sends the read data as
// packets of the MTU. The receiving NIC writes the memory of the destination GPU over PCIe. No message is staged
// completely: reads, network and writes are coupled train by train. A queue pair is a flow of the reader: source,
// destination, class, queue pair.
//
// For an RDMA read, the NIC sends a request over the network. The NIC of the memory that is read answers by itself: it
// sends the bytes as for a write, but needs no work request and no doorbell.
#pragma once

#include <array>
#include <optional>

#include "transport/device/reader.h"

namespace railyard::infiniband {

struct NicTiming {
  Time doorbell;  ///< from the work request to the first PCIe read, or to the transmit pipeline if none is needed
  Time transmit;  ///< from the arrival of read data to the network port
  Bytes read_bytes = 0;    ///< most bytes of outstanding read requests: tags x MRRS; 0: no limit
  Bytes buffer_bytes = 0;  ///< per virtual channel: requested data that is not yet on the network; 0: no limit
  Bytes inline_bytes = 0;  ///< up to this size, a host's work request carries the data, and nothing is read
};

class Nic : public transport::Reader {
 public:
  Nic(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window, transport::Lid lid,
      const NicTiming& timing);

  /// Ports must be added in this order.
  static constexpr std::uint32_t kPciePort = 0;
  static constexpr std::uint32_t kNetworkPort = 1;
  bool is_memory() const override { return false; }
  transport::Lid lid() const { return lid_; }
  const NicTiming& timing() const { return timing_; }

  /// RDMA write or read of `bytes` of a message, with the NIC at `remote`. @pre either memory is reachable over PCIe from
  /// its NIC
  void post(transport::Message& message, transport::Lid remote, Bytes bytes);
  /// The same for a whole message that the host's processor posts. Small writes are part of the work request.
  void post_from_host(transport::Message& message, transport::Lid remote);
  /// Whether all links on the path of such a message work.
  bool reaches(transport::Window source, transport::Window destination, transport::Lid remote) const;
  /// Hops and turn-arounds from the source memory, read over PCIe, to the destination.
  transport::Path path(transport::Window memory, transport::Window destination, transport::Lid remote) const;
  /// Of an RDMA read from `memory`, whose NIC is at `remote`, into `destination`.
  transport::Path read_path(transport::Window memory, transport::Window destination, transport::Lid remote) const;
  /// path() for messages that the host's processor posts.
  transport::Path path_from_host(transport::Window memory, transport::Window destination, transport::Lid remote) const;

  PortId decode(std::uint64_t address, transport::Lid lid, PortId ingress) const override;

 protected:
  void receive(transport::Transaction& transaction) override;
  void departed(transport::Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;
  void cut_off(transport::Transaction& transaction, PortId out) override;
  bool can_read(std::uint32_t flow, const transport::Message& message) const override;
  void unread(Bytes bytes) override { queued(network(), -static_cast<std::int64_t>(bytes)); }

 private:
  struct WorkRequest {
    transport::Message* message = nullptr;
    transport::Lid remote = 0;
    Bytes bytes = 0;
  };
  struct QueuePair {
    std::uint32_t transmit_requester = 0;
    transport::Lid remote = 0;
    std::uint8_t vc = 0;
  };
  static constexpr std::uint32_t kPostTag = kFirstReaderTag;
  static constexpr std::uint32_t kTransmitTag = kFirstReaderTag + 1;
  static constexpr std::uint32_t kForwardTag = kFirstReaderTag + 2;
  static constexpr std::uint32_t kDirectTag = kFirstReaderTag + 3;
  static constexpr std::uint32_t kAnswerTag = kFirstReaderTag + 4;

  PortId pcie() const { return PortId(kPciePort); }
  PortId network() const { return PortId(kNetworkPort); }
  static WorkRequest next_of(transport::Ring<WorkRequest>& posts);
  void post_direct(const WorkRequest& work);
  void start_direct();
  /// Sends the request of an RDMA read.
  void ask(const WorkRequest& work);
  /// Carries out the request of another NIC's RDMA read.
  void answer_read(transport::Transaction& request);
  /// Reads the bytes of a message from their memory, and sends them to the NIC at `remote`.
  void carry(const WorkRequest& work);
  transport::Path carried_path(transport::Window memory, transport::Window destination, transport::Lid remote) const;
  void transmit(transport::Transaction& transaction);
  void forward(transport::Transaction& transaction);

  transport::Lid lid_;
  NicTiming timing_;
  std::vector<QueuePair> queue_pairs_;  ///< by flow
  std::array<std::optional<std::uint32_t>, transport::kClassVcs> forward_requesters_;
  transport::Ring<WorkRequest> posts_;         ///< doorbells rung, in order
  transport::Ring<WorkRequest> direct_posts_;  ///< the same for work that reads no memory here: RDMA reads, inline data
};

}  // namespace railyard::infiniband
