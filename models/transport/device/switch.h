// A switch. At each output, the switch arbitrates among inputs whose front transaction is decoded to this output.
// Transactions cut through. Kinds of switches differ in the organisation of input buffers: with one queue per virtual
// virtual channel, a blocked front blocks the queue; with one queue per virtual channel and output (virtual output
// queues), it does not. Buffer space and credits are per input and virtual channel in both kinds.
#pragma once

#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

/// Decodes a transaction's destination: memory windows for NVLink and PCIe, local identifiers for InfiniBand.
class AddressDecoder {
 public:
  void map(std::uint32_t key, PortId port) {
    if (key >= ports_.size()) ports_.resize(key + 1);
    ports_[key] = port;
  }
  /// Maps a key to the port of another key, if that key has its own port.
  void map_beside(std::uint32_t key, std::uint32_t other) {
    if (maps(other)) map(key, PortId(ports_[other]));
  }
  /// Default for unmapped keys (a PCIe switch's upstream port). A key from that port itself is not decoded.
  void set_default(PortId port) { default_ = port; }
  /// @return an invalid id if the key is unknown
  PortId find(std::uint32_t key, PortId ingress = PortId()) const {
    if (maps(key)) return ports_[key];
    return default_ == ingress ? PortId() : default_;
  }

 private:
  bool maps(std::uint32_t key) const { return key < ports_.size() && ports_[key].valid(); }
  std::vector<PortId> ports_;
  PortId default_;
};

class Switch : public Device {
 public:
  enum class DecodeBy { window, lid };
  enum class Queues { by_input, by_input_and_output };
  Switch(sc_core::sc_module_name name, FabricContext& context, DecodeBy decode_by, Queues queues = Queues::by_input);

  AddressDecoder& decoder() { return decoder_; }
  PortId decode(std::uint64_t address, Lid lid, PortId ingress) const override;
  std::vector<std::uint64_t> traits(PortId) const override {
    return {static_cast<std::uint64_t>(decode_by_), static_cast<std::uint64_t>(queues_by_)};
  }
  /// Transactions that wait for a failed link take another path, behind waiting transactions there, or are given up.
  void take_back(PortId out) override;

 protected:
  void receive(Transaction& transaction) override;
  const Transaction& front(PortId out, std::uint8_t vc, std::uint32_t requester) override;
  Transaction& take(PortId out, std::uint8_t vc, std::uint32_t requester) override;
  void departed(Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;
  /// The earliest start of a transaction towards `out`: its head is here or, towards a faster link, its first packet is
  /// complete.
  Time ready(const Transaction& transaction, PortId out) const;
  /// The transaction is ready: queues it for its egress.
  void arrive(Transaction& transaction);
  /// The tail of a transaction leaves at `leaves`: returns the buffer of its input.
  virtual void left(Transaction& transaction, PortId out, Time leaves);
  /// The egress of a transaction; decided once, at reception.
  virtual PortId route(const Transaction& transaction) {
    return decode(transaction.address, transaction.lid, transaction.ingress);
  }

  static constexpr std::uint32_t kArriveTag = kFirstOwnTag;
  static constexpr std::uint32_t kFirstSwitchTag = kFirstOwnTag + 1;

 private:
  /// No path is left from here: frees the buffer and reports the bytes as lost.
  void give_up(Transaction& transaction);
  TransactionQueue& queue(PortId out, std::uint8_t vc, std::uint32_t input);
  AddressDecoder decoder_;
  DecodeBy decode_by_;
  Queues queues_by_;
  /// By input port; a row per virtual channel, or per output and virtual channel, created at first use.
  std::vector<std::vector<TransactionQueue>> queues_;
};

}  // namespace railyard::transport
