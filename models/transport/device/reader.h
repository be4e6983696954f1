// An endpoint that reads what it moves: an engine that asks other memories for a message's bytes, as many at a time as it has
// tags and room for. NICs read what they send (GPUDirect), copy engines of GPUs what they fetch out of host memory or a peer.
//
// Messages of one flow (memory, destination, class, channel) keep their order; flows of a virtual channel take turns, virtual
// channels share by priority and weight as at a port. A device that passes on what it has read keeps it in a buffer per virtual
// channel, so that one that is blocked does not stop another. As a link with a small buffer, a reader with few tags is paced:
// tags x MRRS per no-load read round trip, exactly, at any transaction size.
#pragma once

#include <array>
#include <unordered_map>

#include "transport/device/endpoint.h"
#include "transport/device/path.h"
#include "transport/link/byte_clock.h"
#include "transport/link/credit_window.h"

namespace railyard::transport {

struct ReadLimits {
  Bytes read_bytes = 0;     ///< outstanding read requests: tags x MRRS; 0: no limit
  Bytes buffer_bytes = 0;   ///< per virtual channel, asked for and not yet let go; 0: no limit
  Time pass_on;             ///< data read to when it can leave: how much longer than a tag the buffer is held
  Bytes request_bytes = 0;  ///< asked for by one request (MRRS); 0: the link's
};

class Reader : public Endpoint {
 public:
  /// @param read_port  requests leave there and completions come in; added by the derived class
  Reader(sc_core::sc_module_name name, FabricContext& context, Window window, PortId read_port,
         const ReadLimits& limits);

  /// The way of bytes that this engine reads out of a memory: the completions', paced as the engine is.
  Path pull_path(Window memory) const;
  void links_changed() override;
  void take_back(PortId out) override;
  void read_lost(Transaction& transaction) override;

 protected:
  /// The flow of a message out of a memory: numbered as they come.
  std::uint32_t flow_of(const Message& message, Window memory);
  /// The flow of a read that this engine has asked for.
  static std::uint32_t flow_of(const Transaction& read) { return static_cast<std::uint32_t>(read.requester - 1); }
  /// Reads so many bytes of a message, after what its flow was asked for before; where lost links forbid it, gives them up.
  void pull(std::uint32_t flow, Message& message, Bytes bytes);
  /// Whether the links of a request to a memory and of its completion are there.
  bool is_readable(Window memory) const;
  /// Whether what a flow would read of a message now can go where it is to go.
  virtual bool can_read(std::uint32_t flow, const Message&) const { return is_readable(flows_[flow].memory); }
  /// So many bytes that it was to read are given up.
  virtual void unread(Bytes) {}
  /// A completion's head was sent here: its tags come home with its tail. Its buffer space is held until let_go().
  void completed(Transaction& transaction);
  void let_go(std::uint8_t channel, Bytes bytes, Time when) {
    if (limits_.buffer_bytes != 0) channels_[channel].buffer.give_back(when, bytes);
  }
  /// Stages the read requests that tags, buffers and pace allow now; otherwise comes back when they do.
  void read();

  void departed(Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;
  static constexpr std::uint32_t kReadTag = kFirstEndpointTag;
  static constexpr std::uint32_t kFirstReaderTag = kFirstEndpointTag + 1;

 private:
  struct Work {
    Message* message = nullptr;
    Bytes left_bytes = 0;
    bool first = true;
  };
  struct Flow {
    Window memory = 0;
    Ring<Work> work;
    std::uint8_t channel = 0;
    ByteClock pace;  ///< of reads from its memory, when only they use the tags
    bool paced = false;
  };
  /// Its flows take turns, one read request is staged at a time.
  struct Channel {
    RequesterSet waiting;
    CreditWindow buffer;
    std::uint32_t requester = 0;
    std::uint64_t served = 0;  ///< read bytes over weight
    bool made = false;
    bool staged = false;
  };

  /// Gives up what a flow has not read yet.
  void give_up(Flow& flow, std::uint32_t number);
  /// Paces its reads by what tags and buffer allow on the way from its memory.
  void set_pace(Flow& flow);
  void stage_read(Channel& channel, std::uint8_t number, Bytes bytes);
  /// Bytes of a flow's next read. @pre it has work
  Bytes next_read(std::uint32_t flow) const;
  /// When this channel may read `bytes` more; Time::max() when only a departure or a completion can help.
  Time readable(Channel& channel, Bytes bytes);
  /// Tags and buffer over the no-load time that a read of MRRS holds them, and the header credits that requests come by where
  /// those are fewer; zero: no limit.
  Rate read_limit(const Path& read, const std::vector<Hop>& request) const;

  PortId read_port_;
  ReadLimits limits_;
  std::vector<Flow> flows_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
  std::array<Channel, kClassChannels> channels_;
  std::uint32_t waiting_channels_ = 0;  ///< bit per channel: some flow has bytes to read
  CreditWindow reads_;
  Bytes largest_read_ = 0;
  Time pace_;                 ///< no read before
  Time retry_ = Time::max();  ///< the pending wake-up, if any
};

}  // namespace railyard::transport
