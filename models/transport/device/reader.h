// An endpoint that reads the bytes it moves: an engine that reads a message's bytes from other memories, limited by its
// tags and its buffer. NICs read the bytes they send (GPUDirect); copy engines of GPUs read from host memory or a peer.
//
// Messages of one flow (memory, destination, class, queue pair) keep their order. Flows of a virtual channel take
// turns; virtual channels share by priority and weight as at a port. A device that forwards read bytes has a buffer per
// virtual channel, so a blocked virtual channel does not block other virtual channels. Like a link with a small buffer,
// a reader with few tags is paced: exactly tags x MRRS per no-load read round trip, at any transaction size.
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
  Bytes buffer_bytes = 0;   ///< per virtual channel, requested and not yet released; 0: no limit
  Time pass_on;             ///< time from read to departure: the buffer is held longer than a tag by this time
  Bytes request_bytes = 0;  ///< bytes per request (MRRS); 0: the link's
};

class Reader : public Endpoint {
 public:
  /// @param read_port  port for requests and completions; added by the derived class
  Reader(sc_core::sc_module_name name, FabricContext& context, Window window, PortId read_port,
         const ReadLimits& limits);

  /// The path of bytes that this engine reads from a memory: the path of completions, paced by the engine.
  Path pull_path(Window memory) const;
  void links_changed() override;
  void take_back(PortId out) override;
  void read_lost(Transaction& transaction) override;

 protected:
  /// The flow of a message that is read from a memory; flows are numbered in order of first use.
  std::uint32_t flow_of(const Message& message, Window memory);
  /// The flow of a read of this engine.
  static std::uint32_t flow_of(const Transaction& read) { return static_cast<std::uint32_t>(read.requester - 1); }
  /// Reads `bytes` of a message after earlier bytes of its flow. If failed links prevent the read, gives the bytes up.
  void pull(std::uint32_t flow, Message& message, Bytes bytes);
  /// True if the links of a request to a memory and of its completion have not failed.
  bool is_readable(Window memory) const;
  /// True if bytes that a flow would read now can reach their destination.
  virtual bool can_read(std::uint32_t flow, const Message&) const { return is_readable(flows_[flow].memory); }
  /// The given number of bytes will not be read.
  virtual void unread(Bytes) {}
  /// A completion's head was sent to this engine: its tags are free at its tail. Its buffer space is held until
  /// let_go().
  void completed(Transaction& transaction);
  void let_go(std::uint8_t vc, Bytes bytes, Time when) {
    if (limits_.buffer_bytes != 0) vcs_[vc].buffer.give_back(when, bytes);
  }
  /// Stages the read requests that tags, buffers and pace allow now; otherwise schedules a retry.
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
    std::uint8_t vc = 0;
    ByteClock pace;  ///< of reads from its memory, if no other memory's reads use the tags
    bool paced = false;
  };
  /// The flows of a virtual channel take turns; one read request is staged at a time.
  struct VcState {
    RequesterSet waiting;
    CreditWindow buffer;
    std::uint32_t requester = 0;
    std::uint64_t served = 0;  ///< bytes read, divided by the weight
    bool made = false;
    bool staged = false;
  };

  /// Gives up the unread bytes of a flow.
  void give_up(Flow& flow, std::uint32_t number);
  /// Sets the pace of a flow's reads by the tags and the buffer on the path from its memory.
  void set_pace(Flow& flow);
  void stage_read(VcState& state, std::uint8_t number, Bytes bytes);
  /// Size of a flow's next read. @pre the flow has bytes to read
  Bytes next_read(std::uint32_t flow) const;
  /// The instant from which this virtual channel can read `bytes` more; Time::max(): only after a departure or a
  /// completion.
  Time readable(VcState& state, Bytes bytes);
  /// Tags and buffer divided by the no-load time for which a read of MRRS holds them, or the rate of requests by header
  /// credits if this is lower; zero: no limit.
  Rate read_limit(const Path& read, const std::vector<Hop>& request) const;

  PortId read_port_;
  ReadLimits limits_;
  std::vector<Flow> flows_;
  std::unordered_map<RequesterKey, std::uint32_t, RequesterKeyHash> by_key_;
  std::array<VcState, kClassVcs> vcs_;
  std::uint32_t waiting_vcs_ = 0;  ///< bit per virtual channel: a flow has bytes to read
  CreditWindow reads_;
  Bytes largest_read_ = 0;
  Time pace_;                 ///< no read can start earlier
  Time retry_ = Time::max();  ///< the pending wake-up, if any
};

}  // namespace railyard::transport
