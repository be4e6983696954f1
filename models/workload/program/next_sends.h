// The horizon of a communicator of ranks with programs (rank_programs.h): when it begins its next collective or transfer, at the
// earliest. Each member has a place in its rank's program before which it does not begin, and the last of them decides.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "transport/fabric.h"
#include "transport/horizon.h"
#include "workload/program/program_clock.h"

namespace railyard::workload {

class NextSends final : public transport::Horizon {
 public:
  /// A member. What is not emitted yet begins behind all that its rank's program has by now, if it follows the program.
  struct Follows {
    const ProgramClock* clock;
    bool program;
  };

  /// @param name  for BrokenHorizon
  NextSends(std::string name, const transport::Fabric& fabric, const std::vector<Follows>& members);

  /// A collective of this member is emitted, behind its others. @param place  it begins there, or later
  void emitted(std::uint32_t member, Time place) { members_[member].places.push_back(place); }
  void begun(std::uint32_t member);
  void done(std::uint32_t member);

 private:
  Time next() override;
  struct Member {
    Follows follows;
    std::deque<Time> places;  ///< of collectives that are emitted, and have not begun here
    std::uint64_t begun = 0, done = 0;
  };

  const transport::Fabric& fabric_;
  std::vector<Member> members_;
  std::uint64_t begun_ = 0, done_ = 0;  ///< on all members
};

}  // namespace railyard::workload
