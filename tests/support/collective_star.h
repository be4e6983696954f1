// A single collective on a star of memories around one ideal switch: the entry and end of each member, and the traffic
// on each member's link.
#pragma once

#include <vector>

#include "collective/collective.h"
#include "tests/support/simulation.h"
#include "transport/device/group_switch.h"

namespace railyard::test {

class CollectiveStar : public Simulation, public collective::CollectiveClient {
 public:
  /// @param transaction_bytes  0: automatic
  /// @param servers            number of equal servers of the members; the switch multicasts and reduces within each
  CollectiveStar(std::uint32_t members, const transport::LinkDirection& link, Bytes transaction_bytes = 0,
                 std::uint32_t servers = 1)
      : Simulation(transaction_bytes),
        done_at(members, Time::max()),
        collective_(fabric),
        switch_("crossbar", fabric.context()) {
    fabric.add_device(switch_);
    std::vector<std::vector<transport::Window>> of_server(servers);
    for (std::uint32_t m = 0; m < members; ++m) {
      attach(node(), switch_, link);
      group_.members.push_back(m);
      group_.server.push_back(m * servers / members);
      of_server[group_.server.back()].push_back(m);
    }
    for (const auto& windows : of_server) group_.multicast_group.push_back(fabric.add_group(windows));
  }
  const collective::Group& group() const { return group_; }

  /// Runs one collective; member m enters at entries[m] (0 if missing). @return the end of the last member
  Time run_once(const collective::CollectiveSpec& spec, const std::vector<Time>& entries = {}) {
    collective_.prepare(spec, group_, *this);
    for (std::uint32_t m = 0; m < group_.size(); ++m)
      fabric.calendar().at(m < entries.size() ? entries[m] : Time(), entrance_, 0, m);
    run();
    BOOST_TEST_REQUIRE((all_done_at != Time::max()));
    return all_done_at;
  }

  const collective::Collective& ran() const { return collective_; }
  Bytes sent(std::uint32_t member) const { return nodes[member].port(PortId(0)).counters.payload_bytes; }
  Bytes received(std::uint32_t member) const { return switch_.port(PortId(member)).counters.payload_bytes; }

  std::vector<Time> done_at;  ///< by member
  Time all_done_at = Time::max();

 private:
  void on_member_done(collective::Collective&, std::uint32_t member) override {
    BOOST_TEST_REQUIRE((done_at[member] == Time::max()));  // no member ends twice
    BOOST_TEST_REQUIRE((all_done_at == Time::max()));      // the collective ends after its members
    done_at[member] = fabric.now();
  }
  void on_collective_done(collective::Collective&) override {
    BOOST_TEST_REQUIRE((all_done_at == Time::max()));
    all_done_at = fabric.now();
  }

  struct Entrance : transport::CalendarClient {
    explicit Entrance(CollectiveStar& owner) : star(owner) {}
    void on_event(std::uint32_t, std::uint64_t member) override {
      star.collective_.enter(static_cast<std::uint32_t>(member));
    }
    CollectiveStar& star;
  };
  collective::Collective collective_;
  transport::GroupSwitch switch_;
  collective::Group group_;
  Entrance entrance_{*this};
};

inline collective::CollectiveSpec collective_of(collective::Operation operation, collective::Algorithm algorithm,
                                                Bytes bytes, std::uint32_t slices = 1) {
  collective::CollectiveSpec spec;
  spec.operation = operation;
  spec.algorithm = algorithm;
  spec.bytes = bytes;
  spec.slices = slices;
  return spec;
}

}  // namespace railyard::test
