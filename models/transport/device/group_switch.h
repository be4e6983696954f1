// A crossbar that copies and reduces for groups of memories, each behind its own port: virtual output queues,
// multicast, and one reduction unit per port.
//
// Multicast (NVLS multimem.st): an incoming transaction is copied to every member's port, including the source's port
// if it is a member. Copies arbitrate separately. The input buffer and its credit are held until the last copy's tail
// has left.
//
// Reduction (NVLS multimem.ld_reduce): an incoming request waits for room in the port's result slots. Then it is copied
// to every member like a multicast. The members' responses are absorbed into the slot; responses always sink, so
// requests and responses cannot deadlock. The result starts at the latest operand's head (or first packet, towards a
// faster link) when the unit is free. Its tail leaves after the latest operand's tail and after the unit has reduced
// it; then the slot is free. As in egress_port.h, W bytes of slots are counted in whole trains and paced, so a single
// requester that lacks slots gets exactly W per no-load round trip, at any train size.
#pragma once

#include <memory>
#include <vector>

#include "transport/device/path.h"
#include "transport/device/switch.h"

namespace railyard::transport {

/// The resources of a port's reduction unit.
struct ReductionUnit {
  Bytes slot_bytes = 0;  ///< results in flight; 0: unlimited
  Rate rate;             ///< of results; zero: as fast as the link
};

class GroupSwitch : public Switch {
 public:
  GroupSwitch(sc_core::sc_module_name name, FabricContext& context)
      : Switch(name, context, DecodeBy::window, Queues::by_input_and_output) {}

  /// @pre before elaboration ends
  void set_reduction(PortId port, const ReductionUnit& unit);
  std::vector<std::uint64_t> traits(PortId port) const override;
  /// The highest rate of results for a single requester at `port`, if its operands take `round_trip` from fan-out to
  /// result; zero: limited only by the link.
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
    Bytes largest = 0;         ///< the largest train so far
    Time retry = Time::max();  ///< the pending wake-up
    Time pace;                 ///< earliest fan-out of the next request
    ByteClock window;          ///< W / round trip of the latest group
    bool paced = false;
    GroupId group = ~GroupId(0);  ///< the latest group
    Time free;                    ///< the unit is free for the next result
    ByteClock reducer;
  };
  Unit& unit(PortId port);
  const std::vector<Window>& members(const Transaction& t) const { return context_.groups[t.group]; }
  PortId port_of(Window member) const;
  /// The longest time from the fan-out of a request of `group` to the head of its result, without contention.
  Time round_trip(GroupId group) const;
  /// Sends a copy to every member; `at_once`: now, otherwise when the transaction is ready.
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

/// Adds to a path one lane of a multicast that leaves `source` through `out`: the lane to the member that is reached
/// last.
void add_multicast_lane(Path& path, const Endpoint& source, PortId out, const std::vector<Window>& members,
                        std::uint32_t weight);
/// Adds to a path one lane of a reduction requested through `out`. The request's path and the memory's latency are the
/// fixed part; the slowest member's operand and the result are the hops.
void add_reduction_lane(Path& path, const Endpoint& source, PortId out, const std::vector<Window>& members,
                        std::uint32_t weight);

}  // namespace railyard::transport
