// A switch: every output is arbitrated among the inputs whose front transaction its address decoder sends there, and
// transactions cut through. How an input's buffer is organised is the switch's kind: one queue per virtual channel, so that a
// blocked front blocks what is behind it, or one per virtual channel and output (virtual output queues), so that it does not.
// Buffer space and credits are per input and channel either way.
#pragma once

#include <vector>

#include "transport/device/device.h"

namespace railyard::transport {

/// Routes by what a transaction carries: memory windows for NVLink and PCIe, local identifiers for InfiniBand.
class AddressDecoder {
 public:
  void map(std::uint32_t key, PortId port) {
    if (key >= ports_.size()) ports_.resize(key + 1);
    ports_[key] = port;
  }
  /// Maps a key to the port of another one, if that has a port of its own.
  void map_beside(std::uint32_t key, std::uint32_t other) {
    if (maps(other)) map(key, PortId(ports_[other]));
  }
  /// Everything not mapped goes there (a PCIe switch's upstream port), unless it came from there: then it is nobody's.
  void set_default(PortId port) { default_ = port; }
  /// @return an invalid id where nobody has the key
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
  /// What waits for a lost link takes another way from here, behind what is there already, or is given up.
  void take_back(PortId out) override;

 protected:
  void receive(Transaction& transaction) override;
  const Transaction& front(PortId out, std::uint8_t channel, std::uint32_t requester) override;
  Transaction& take(PortId out, std::uint8_t channel, std::uint32_t requester) override;
  void departed(Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;
  /// When a transaction can start towards `out`: its head is here or, towards a faster link, its first packet is whole.
  Time ready(const Transaction& transaction, PortId out) const;
  /// It is ready: queues it for its egress.
  void arrive(Transaction& transaction);
  /// The tail of a transaction leaves at `leaves`: gives back what held it, its input's buffer.
  virtual void left(Transaction& transaction, PortId out, Time leaves);
  /// The port that a transaction leaves through; decided once, when it is received.
  virtual PortId route(const Transaction& transaction) {
    return decode(transaction.address, transaction.lid, transaction.ingress);
  }

  static constexpr std::uint32_t kArriveTag = kFirstOwnTag;
  static constexpr std::uint32_t kFirstSwitchTag = kFirstOwnTag + 1;

 private:
  /// It has no way from here: its buffer is free and its bytes are lost.
  void give_up(Transaction& transaction);
  TransactionQueue& queue(PortId out, std::uint8_t channel, std::uint32_t input);
  AddressDecoder decoder_;
  DecodeBy decode_by_;
  Queues queues_by_;
  /// By input port; a row per virtual channel, or per output and virtual channel, made when first used.
  std::vector<std::vector<TransactionQueue>> queues_;
};

}  // namespace railyard::transport
