// A switch. At each output, the switch arbitrates among inputs whose front transaction is decoded to this output.
// Transactions cut through. Kinds of switches differ in the organisation of input buffers: with one queue per virtual
// virtual channel, a blocked front blocks the queue; with one queue per virtual channel and output (virtual output
// queues), it does not. Buffer space and credits are per input and virtual channel in both kinds.
#pragma once

#include <array>
#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

/// Decodes a transaction's destination: memory windows for NVLink and PCIe, local identifiers for InfiniBand. Keys are kept in
/// pages, because most switches of a large machine map few of them.
class AddressDecoder {
 public:
  void map(std::uint32_t key, PortId port) {
    const std::uint32_t page = key / kPage;
    if (page >= pages_.size()) pages_.resize(page + 1, kNone);
    if (pages_[page] == kNone) {
      pages_[page] = static_cast<std::uint32_t>(ports_.size());
      ports_.emplace_back();
    }
    ports_[pages_[page]][key % kPage] = port;
  }
  /// Maps a key to the port of another key, if that key has its own port.
  void map_beside(std::uint32_t key, std::uint32_t other) {
    if (const PortId port = own(other); port.valid()) map(key, port);
  }
  /// Default for unmapped keys (a PCIe switch's upstream port). A key from that port itself is not decoded.
  void set_default(PortId port) { default_ = port; }
  /// @return an invalid id if the key is unknown
  PortId find(std::uint32_t key, PortId ingress = PortId()) const {
    if (const PortId port = own(key); port.valid()) return port;
    return default_ == ingress ? PortId() : default_;
  }

 private:
  static constexpr std::uint32_t kPage = 64, kNone = ~0u;
  /// Invalid if the key is not mapped.
  PortId own(std::uint32_t key) const {
    const std::uint32_t page = key / kPage;
    return page < pages_.size() && pages_[page] != kNone ? ports_[pages_[page]][key % kPage] : PortId();
  }
  std::vector<std::uint32_t> pages_;  ///< by key / kPage: place in ports_, or kNone
  std::vector<std::array<PortId, kPage>> ports_;
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
