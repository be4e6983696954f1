// A switch: every input port has one queue per virtual channel, every output is arbitrated among the inputs whose front
// transaction its address decoder sends there (so a blocked front blocks what is behind it), and transactions cut through.
#pragma once

#include <vector>

#include "transport/device.h"

namespace railyard::transport {

/// Routes by what a transaction carries: memory windows for NVLink and PCIe, local identifiers for InfiniBand.
class AddressDecoder {
 public:
  void map(std::uint32_t key, PortId port) {
    if (key >= ports_.size()) ports_.resize(key + 1);
    ports_[key] = port;
  }
  /// Everything not mapped goes there (a PCIe switch's upstream port).
  void set_default(PortId port) { default_ = port; }
  PortId find(std::uint32_t key) const {
    return key < ports_.size() && ports_[key].valid() ? ports_[key] : default_;
  }

 private:
  std::vector<PortId> ports_;
  PortId default_;
};

class Switch : public Device {
 public:
  enum class DecodeBy { window, lid };
  Switch(sc_core::sc_module_name name, FabricContext& context, DecodeBy decode_by);

  AddressDecoder& decoder() { return decoder_; }
  PortId decode(std::uint64_t address, Lid lid, PortId ingress) const override;

 protected:
  void receive(Transaction& transaction) override;
  const Transaction& front(PortId out, std::uint8_t channel, std::uint32_t requester) override;
  Transaction& take(PortId out, std::uint8_t channel, std::uint32_t requester) override;
  void departed(Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;
  /// The head (or, towards a faster output, the first packet) of a transaction is here.
  void arrive(Transaction& transaction);
  void end_of_elaboration() override;

  static constexpr std::uint32_t kArriveTag = kFirstOwnTag;

 private:
  TransactionQueue& queue(std::uint32_t input, std::uint8_t channel) { return queues_[input * kVirtualChannels + channel]; }
  AddressDecoder decoder_;
  DecodeBy decode_by_;
  std::vector<TransactionQueue> queues_;  ///< by input port and virtual channel
};

}  // namespace railyard::transport
