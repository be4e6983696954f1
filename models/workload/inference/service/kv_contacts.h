// The first contact of two instances that move KV: before a rank of the one reads KV of the other for the first time, it gets the
// metadata of each rank from which it will read, and prepares descriptors of all their KV cache. A thread of the rank does
// this, beside the one that posts reads: reads from instances that it has met go on, and requests whose KV is in a new one wait. As
// in vLLM's NixlConnector (nixl/base_worker.py: _background_nixl_handshake, add_remote_agent).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "workload/inference/engine/instance.h"

namespace railyard::workload::inference {

class KvContactsClient {
 public:
  virtual void on_met(const Instance& from, const Instance& to) = 0;

 protected:
  ~KvContactsClient() = default;
};

class KvContacts : private JobClient, private JobNamer {
 public:
  /// Call before the simulation starts.
  /// @param instances  all of the service, by id
  /// @param have_met   those that are there at the start
  KvContacts(std::vector<Instance*> instances, bool have_met, Executor& executor, KvContactsClient& client);

  bool have_met(const Instance& from, const Instance& to) { return contact({from.id(), to.id()}).is_met; }
  /// A handshake that is under way, by rank of the instance that reads.
  struct Handshake {
    std::vector<JobRef> jobs;
    std::vector<Time> earliest;  ///< when it may be over
  };
  /// Begins the handshake, unless it is under way. @pre !have_met()
  /// @param times  by rank of `to`
  const Handshake& meet(const Instance& from, const Instance& to, const std::vector<Time>& times);
  /// The instance has begun anew: it knows nobody, and nobody knows it.
  void begun_anew(const Instance& instance);

 private:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;  ///< ids of the instances that give and take KV
  struct Contact : Handshake {
    bool is_met = false;
    std::uint32_t left = 0;    ///< jobs
    std::uint16_t number = 0;  ///< of the handshake; 0: not begun
  };
  // KvHandshake_PP[p]_TP[t]_FromInst[a]_ToInst[b], of rank p*tp+t of b.
  struct Fields {
    std::uint16_t from, to, rank, number;
  };

  Contact& contact(const Pair& pair);
  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "host"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }
  HostWork host_work(std::uint64_t) const override { return HostWork::handshakes; }

  std::vector<Instance*> instances_;
  bool had_met_;
  Executor& executor_;
  KvContactsClient& client_;
  std::vector<std::vector<gpu::Stream*>> threads_;  ///< by instance that takes KV, and rank
  std::map<Pair, Contact> contacts_;
  std::uint16_t begun_ = 0;  ///< handshakes
};

}  // namespace railyard::workload::inference
