// Which members of a group run in a collective, numbered from 0, and who receives what they send.
//
// Of a folded group (spec.h), clients see only the members that exist. Three ways, by the program:
//   alike   all members do the same (Program::is_alike): those that exist run. What one of them sends to a member of another
//           copy is received in its own copy, as what the member before it sends
//   turned  the members of a server do the same, each from its own place (Program::turns()): of a server that does not exist,
//           the first member runs for all. It receives from itself what the others send to it
//   else    all members run
#pragma once

#include <cstdint>
#include <vector>

#include "collective/program.h"
#include "transport/study/fidelity_choice.h"

namespace railyard::collective {

class RunningMembers {
 public:
  /// What a transfer raises when it arrives.
  struct Landing {
    std::uint32_t number = 0, thread = 0, lane = 0;
  };

  /// @pre both outlive this
  void find(const Group& group, const Program& program);

  std::uint32_t size() const { return size_; }
  /// The group's number of a member that runs.
  std::uint32_t member_of(std::uint32_t number) const { return running_.empty() ? number : running_[number]; }
  bool exists(std::uint32_t number) const { return group_->exists(member_of(number)); }
  std::uint32_t server_of(std::uint32_t number) const { return group_->server_of(member_of(number)); }
  /// For how many members of its server this one runs.
  std::uint32_t runs_for(std::uint32_t number) const { return turned_ && !exists(number) ? places_ : 1; }
  /// Lanes of a thread: of a member that runs for others, a set for each of them.
  std::uint32_t lanes() const { return program_->lanes() * (turned_ ? places_ : 1); }

  std::uint32_t seen_by_clients() const { return seen_.empty() ? size_ : static_cast<std::uint32_t>(seen_.size()); }
  /// The number of a member that clients see.
  std::uint32_t seen(std::uint32_t member) const { return seen_.empty() ? member : seen_[member]; }
  /// The client's member that exists and is like this one.
  std::uint32_t client_of(std::uint32_t number) const { return client_of_.empty() ? number : client_of_[number]; }
  /// Several copies exist, and members that clients see end when the last of them ends.
  bool end_together() const { return end_together_; }

  /// The memory to which a transfer from the member `from` to one member goes.
  transport::Window destination(std::uint32_t from, const Transfer& t) const;
  /// How many copies after its own the receiver's is, where the transfer goes to another copy and is received in its own;
  /// otherwise 0.
  std::uint32_t copies_apart(std::uint32_t from, const Transfer& t) const;

  /// Calls `with` with the number of each member that runs on a server.
  template <class With>
  void for_server(std::uint32_t server, With with) const {
    for (std::uint32_t m = first_on_[server]; m < first_on_[server + 1]; ++m) with(m);
  }
  /// Calls `with` for each Landing of a transfer from the member `from` to one member.
  template <class With>
  void for_each_landing(std::uint32_t from, const Transfer& t, With with) const {
    const std::uint32_t to = number_of_.empty() ? t.to : number_of_[first_of_[from] + t.to];
    if (!turned_ || (exists(from) && exists(to))) {
      with(Landing{to, t.thread, t.lane});
      return;
    }
    const std::uint32_t place = t.to % places_;
    if (!exists(to)) {
      // Like members of a server that exists send at the same time. What reaches the first member counts for all; room for
      // the others is counted in lanes of their own.
      const std::uint32_t set = exists(from) ? place : 0;
      const Program::Point at = program_->turned({t.thread, t.lane}, place);
      with(Landing{to, at.thread, at.lane + set * program_->lanes()});
      return;
    }
    for (std::uint32_t k = 0; k < places_; ++k) {
      const Program::Point at = program_->turned({t.thread, t.lane}, places_ - k);
      with(Landing{to - place + (place + k) % places_, at.thread, at.lane});
    }
  }
  /// The same for a transfer to all members of its server.
  template <class With>
  void for_each_landing_on_server(std::uint32_t from, std::uint32_t thread, std::uint32_t lane, With with) const {
    for_server(server_of(from), [&](std::uint32_t m) {
      if (runs_for(m) == 1) with(Landing{m, thread, lane});
      for (std::uint32_t k = 0; k < places_ && runs_for(m) != 1; ++k) {
        const Program::Point at = program_->turned({thread, lane}, k);
        with(Landing{m, at.thread, at.lane});
      }
    });
  }

 private:
  void find_receivers(const std::vector<std::uint32_t>& numbers);

  const Group* group_ = nullptr;
  const Program* program_ = nullptr;
  std::uint32_t size_ = 0;
  bool alike_ = false, turned_ = false, end_together_ = false;
  std::uint32_t places_ = 1;  ///< members of a server, where `turned`
  // Of a folded group, else empty: members by number, numbers of the members that clients see.
  std::vector<std::uint32_t> running_, seen_;
  std::vector<std::uint32_t> client_of_;  ///< by number
  /// Numbers by member, for each copy that sends; where a sender's numbers begin, by its number.
  std::vector<std::uint32_t> number_of_, first_of_;
  std::vector<std::uint32_t> first_on_;  ///< by server: the first number on it or a later one
};

/// What the members that exist of a folded group send to other servers.
struct NetworkTraffic {
  std::vector<transport::Traffic> pairs;
  bool beyond_next_copy = false;  ///< some of it goes further than to the next copy
  bool fans_out = false;          ///< a thread sends to several members
};
/// @pre as make_program()
NetworkTraffic network_traffic(const CollectiveSpec& spec, const Group& group);

}  // namespace railyard::collective
