// What a router knows of the instances. Engines report their load and the blocks that enter and leave their prefix index; the router
// hears a report after a delay. Its own history is exact: which requests it has sent where, and which have their first token or
// have ended.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "workload/engine_listener.h"
#include "workload/inference/routing/prefix_index.h"
#include "workload/inference/routing/routing_policy.h"

namespace railyard::workload::inference {

/// Where an instance has KV.
enum class KvPlace : std::uint8_t { gpus, host, disks };

class RouterView {
 public:
  /// An instance.
  struct Member {
    std::uint32_t max_seqs = 0, max_batched_tokens = 0;
    std::uint32_t blocks = 0;  ///< of its KV cache, without the reserved one
    std::uint32_t block_tokens = 0;
  };
  /// @param members       by id
  /// @param delay         from an event in an engine until the router knows of it
  /// @param has_contents  it follows contents of prompts; if not, no block is shared
  RouterView(const std::vector<Member>& members, Time delay, bool has_contents);

  // Reports. Instants do not decrease.
  void on_load(std::uint32_t instance, const EngineLoad& load, Time now);
  void on_stored(std::uint32_t instance, BlockPool::Content content, Time now, KvPlace place = KvPlace::gpus);
  void on_removed(std::uint32_t instance, BlockPool::Content content, Time now, KvPlace place = KvPlace::gpus);
  /// The router looks at what it has heard until `now`.
  void hear(Time now);

  // Its own history. A request may be in two instances, one after the other.
  void on_sent(std::uint32_t instance, Asked& asked, Time now);
  void on_first_token(std::uint32_t request, std::uint32_t instance);
  void on_ended(std::uint32_t request, std::uint32_t instance);

  const Member& member(std::uint32_t instance) const { return instances_[instance].member; }
  /// As last heard.
  const EngineLoad& load(std::uint32_t instance) const { return instances_[instance].heard; }
  /// Sent there, and not ended.
  std::uint32_t requests(std::uint32_t instance) const {
    return static_cast<std::uint32_t>(instances_[instance].requests.size());
  }
  /// Prompt tokens that were not found in the instance's prefix index, of requests without a first token.
  std::uint64_t prefill_tokens(std::uint32_t instance) const { return instances_[instance].prefill_tokens; }
  /// Different blocks of the prompts of these requests, if this request is one of them.
  std::uint64_t blocks_with(std::uint32_t instance, Asked& asked) const;
  /// The first blocks of the prompt that are in the instance's prefix index, as last heard.
  std::uint64_t cached_blocks(std::uint32_t instance, Asked& asked) const;
  /// And those that follow them in its host memory, and those that follow these on its disks.
  struct Copies {
    std::uint64_t host = 0, disks = 0;
  };
  Copies copied_blocks(std::uint32_t instance, Asked& asked) const;
  /// Requests sent there in the last 60 s.
  std::uint32_t recent(std::uint32_t instance) const {
    return static_cast<std::uint32_t>(instances_[instance].recent.size());
  }
  /// For how long something has been different in the instance from what the router knows; 0: nothing is.
  Time out_of_date(std::uint32_t instance, Time now) const;

 private:
  struct Report {
    enum class What : std::uint8_t { load, stored, removed } what;
    std::uint32_t instance = 0;
    Time at;
    EngineLoad load;
    BlockPool::Content content = 0;
    KvPlace place = KvPlace::gpus;
  };
  struct Sent {
    bool is_prefilling = true;
    std::uint64_t prefill_tokens = 0;
    std::uint64_t own_blocks = 0;  ///< of its prompt, that no other request can share
    Asked::Contents contents;
  };
  struct Instance {
    Member member;
    EngineLoad heard;
    std::array<PrefixIndex, 3> cached;  ///< by KvPlace
    std::unordered_map<std::uint32_t, Sent> requests;
    std::uint64_t prefill_tokens = 0, own_blocks = 0;
    std::unordered_map<BlockPool::Content, std::uint32_t> shared;  ///< blocks of `requests`, and how many have each
    std::deque<Time> recent;
  };
  void report(Report report);
  void apply(const Report& report);
  void compute_no_more(Instance& instance, Sent& sent);

  std::vector<Instance> instances_;
  Time delay_;
  bool has_contents_;
  std::deque<Report> reports_;  ///< not heard yet
};

}  // namespace railyard::workload::inference
