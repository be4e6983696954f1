// A crossbar that copies and reduces for groups of memories, each behind a port of its own: virtual output queues, multicast,
// and one reduction unit per port.
//
// Multicast (NVLS multimem.st): what comes in once is copied to every member's port, the source's own if it is a member.
// Copies arbitrate separately; the input buffer and its credit are held until the last copy's tail has left.
//
// Reduction (NVLS multimem.ld_reduce): a request that comes in at a port waits there for room in the port's result slots, is
// then copied to every member like a multicast, and the members' responses are absorbed into the slot: responses always sink,
// so requests and responses cannot deadlock. The result starts at the latest operand's head (or first packet, towards a faster
// link) when the unit is free; its tail leaves not before the latest operand's, nor before the unit has reduced it. The slot is
// free when the result's tail leaves. As everywhere (egress_port.h), W bytes of slots are counted in whole trains and paced, so
// that a lone requester short of slots gets exactly W per no-load round trip, at any train size.
#pragma once

#include <memory>
#include <vector>

#include "transport/device/path.h"
#include "transport/device/switch.h"

namespace railyard::transport {

/// What a port's reduction unit has.
struct ReductionUnit {
  Bytes slot_bytes = 0;  ///< results under way; 0: ample
  Rate rate;             ///< of results; zero: as fast as the link
};

class GroupSwitch : public Switch {
 public:
  GroupSwitch(sc_core::sc_module_name name, FabricContext& context)
      : Switch(name, context, DecodeBy::window, Queues::by_input_and_output) {}

  /// @pre before elaboration ends
  void set_reduction(PortId port, const ReductionUnit& unit);
  /// Results per second that a lone requester at `port` gets at most from operands that take `round_trip` from fan-out to
  /// result; zero: no limit below the link's.
  Rate reduction_limit(PortId port, Time round_trip) const;

 protected:
  void receive(Transaction& transaction) override;
  void left(Transaction& transaction, PortId out, Time leaves) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

 private:
  static constexpr std::uint32_t kRequestTag = kFirstSwitchTag;
  static constexpr std::uint32_t kReserveTag = kFirstSwitchTag + 1;
  static constexpr std::uint32_t kOperandTag = kFirstSwitchTag + 2;
  static constexpr std::uint32_t kResultTag = kFirstSwitchTag + 3;

  struct Unit {
    ReductionUnit spec;
    TransactionQueue waiting;  ///< requests without a slot
    CreditWindow slots;
    Bytes largest = 0;         ///< train so far
    Time retry = Time::max();  ///< the pending wake-up
    Time pace;                 ///< the next request may fan out
    ByteClock window;          ///< W / round trip of the group asked last
    bool paced = false;
    GroupId group = ~GroupId(0);  ///< which that is
    Time free;                    ///< of results
    ByteClock reducer;
  };
  Unit& unit(PortId port);
  const std::vector<Window>& members(const Transaction& t) const { return context_.groups[t.group]; }
  PortId port_of(Window member) const;
  /// The longest time from fanning out a request of `group` to the head of its result, alone.
  Time round_trip(GroupId group) const;
  /// Sends a copy towards every member; `at_once`: as of now, else when it is ready.
  void copy(Transaction& transaction, bool at_once);
  void reserve(PortId port);
  void operand(Transaction& transaction);
  void result(Fork& fork);
  Fork& fork_of(Transaction& transaction);
  void release(Fork& fork);

  std::vector<std::unique_ptr<Unit>> units_;  ///< by port
  std::deque<Fork> forks_;
  Fork* free_forks_ = nullptr;
};

/// Adds to a path one lane of a multicast that leaves `source` through `out`: to the member that is reached last.
void add_multicast_lane(Path& path, const Endpoint& source, PortId out, const std::vector<Window>& members,
                        std::uint32_t weight);
/// Adds to a path one lane of a reduction asked through `out`: the request's way and the memory's latency are fixed, the
/// slowest member's operand and the result are the hops.
void add_reduction_lane(Path& path, const Endpoint& source, PortId out, const std::vector<Window>& members,
                        std::uint32_t weight);

}  // namespace railyard::transport
