// The first contact of two instances that move KV, or of two attention replicas, each of which is an engine of its own here (vLLM: with
// an engine id and a side channel of its own). Before a rank reads KV of another instance for the first time, or writes KV there, it
// gets the metadata of each rank with which it will do so, and prepares descriptors of all their KV cache. A thread of the rank
// does this, beside the one that posts: transfers with instances that it has met go on, and requests whose KV goes to or comes from a
// new one wait. As in vLLM's NixlConnector (nixl/base_worker.py: _background_nixl_handshake, add_remote_agent).
//
// An instance that will be written to announces its blocks to the other one, for which it needs metadata, too, and no
// descriptors; the other one has a handshake when it has KV to write and knows the announcement (nixl/push_worker.py:
// _send_registration_to_p with notif_agents_only, _do_start_push_kv).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "workload/inference/service/kv_end.h"

namespace railyard::workload::inference {

class KvContactsClient {
 public:
  virtual void on_met(const KvEnd& from, const KvEnd& to) = 0;

 protected:
  ~KvContactsClient() = default;
};

class KvContacts final : private JobClient, private JobNamer {
 public:
  /// Call before the simulation starts.
  /// @param instances  all of the service, by id
  /// @param have_met   those that are there at the start
  /// @param writes     the instance with the KV writes it; else the other one reads it
  KvContacts(std::vector<Instance*> instances, bool have_met, bool writes, Executor& executor,
             KvContactsClient& client);

  bool have_met(const KvEnd& from, const KvEnd& to) { return contact(from, to).is_met; }
  /// A handshake that is under way, by rank of the instance that reads.
  struct Handshake {
    std::vector<JobRef> jobs;
    std::vector<Time> earliest;  ///< when it may be over
  };
  /// Begins the handshake, unless it is under way. @pre !have_met()
  /// @param times  by rank of `to`
  const Handshake& meet(const KvEnd& from, const KvEnd& to, const std::vector<Time>& times);

  /// Whether KV of `from` may wait for a handshake, or behind KV that does.
  bool is_meeting(const Instance& from) const {
    return std::any_of(contacts_.begin(), contacts_.end(), [&](const auto& each) {
      return each.first.first.first == from.id() && each.second.number != 0 && !each.second.is_met;
    });
  }
  /// Ranks of `to` announce their blocks, unless they do so already. @pre !have_met()
  /// @param times  by rank of `to`
  void announce(const KvEnd& from, const KvEnd& to, const std::vector<Time>& times);
  /// Begins the handshake of a rank of `from`, unless it has begun. @pre announce(), !have_met()
  /// @param after  the KV that the rank writes first
  /// @param times  by rank of `from`; none: the rank writes nothing there
  JobRef meet(const KvEnd& from, const KvEnd& to, std::uint32_t rank, const std::vector<JobRef>& after,
              const std::vector<Time>& times);
  /// The instance has begun anew: it knows nobody, and nobody knows it.
  void begun_anew(const Instance& instance);

 private:
  using Number = std::pair<std::uint32_t, std::uint32_t>;
  using Pair = std::pair<Number, Number>;  ///< ends that give and take KV
  struct Contact : Handshake {
    bool is_met = false;
    std::uint32_t left = 0;             ///< ranks whose handshake is not over
    std::vector<bool> has_begun;        ///< by rank of the instance that writes
    std::vector<JobRef> announcements;  ///< by rank of the instance that is written to
    std::uint32_t number = 0;           ///< of the handshake; 0: not begun
  };
  // KvHandshake_PP[p]_TP[t]_FromInst[a]_ToInst[b], of a rank of b, or of a if it writes; KvAnnounce, of a rank of b. With replicas,
  // _FromReplica[i]_ToReplica[j] follows.
  struct Fields {
    std::uint32_t rank : 31, announces : 1;
    std::uint32_t number;  ///< of the handshake
  };
  struct Ends {
    KvEnd from, to;
  };

  Contact& contact(const KvEnd& from, const KvEnd& to);
  const Ends& ends(const Fields& fields) const { return begun_[fields.number - 1]; }
  const KvEnd& owner(const Fields& fields) const {
    return writes_ && !fields.announces ? ends(fields).from : ends(fields).to;
  }
  /// Numbers a handshake of two ends.
  std::uint32_t begin(const KvEnd& from, const KvEnd& to);
  JobRef emit(Time time, const Fields& fields, const std::vector<JobRef>& after);
  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "host"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }
  HostWork host_work(std::uint64_t) const override { return HostWork::handshakes; }

  std::vector<Instance*> instances_;
  bool had_met_, writes_;
  Executor& executor_;
  KvContactsClient& client_;
  std::vector<std::vector<gpu::Stream*>> threads_;  ///< by instance that has handshakes, and rank
  std::map<Pair, Contact> contacts_;
  std::vector<Ends> begun_;  ///< handshakes, by number from 1 on
};

}  // namespace railyard::workload::inference
