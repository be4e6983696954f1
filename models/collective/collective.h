// Collectives as dependency graphs of transfers between the memories of their members; every byte crosses the fabric.
//
// ring    step k of K: rank i sends chunk (i - k) mod n to rank i+1; it may forward what it received in step k-1, slice by
//         slice. All-reduce K = 2(n-1): the first n-1 steps reduce, the others gather. All-gather K = n-1.
//         Alone on ideal links, chunk c = S/n in one slice: exactly 2(n-1)(c/B + alpha); in slices s of it
//         (2n-3) max(c/B, s/B + alpha) + c/B + alpha.
// direct  every rank sends shard j to rank j; a rank that holds all n copies of its shard reduces it and sends the result to
//         all others (what serving engines call two-shot). All-gather is the second half alone.
//
// A member takes part from the moment its stream enters: what arrived before is waiting for it, what it owes others waits
// for it. Reduction is fused with the transfer; each dependent step costs the SMs `step`.
// Graphs: NVIDIA/nccl src/device/all_reduce.h (ring), vllm-project/vllm csrc/custom_all_reduce.cuh (two-shot).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <tuple>
#include <vector>

#include "transport/fabric.h"

namespace railyard::collective {

enum class Operation : std::uint8_t { all_reduce, all_gather };
enum class Algorithm : std::uint8_t { ring, direct };

struct CollectiveSpec {
  Operation operation = Operation::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  Bytes bytes = 0;                 ///< the vector: all-reduce in and out, all-gather out (a member contributes 1/n)
  std::uint32_t slices = 1;        ///< per chunk of a ring
  std::uint8_t traffic_class = 0;
  std::uint32_t channel = 0;
  Time launch;                     ///< from entering to the first send
  Time step;                       ///< SM work between an arrival and the send that depends on it
};

/// What the course of a collective on quiet links of its own depends on: operation, algorithm, bytes, slices, class, and when
/// each member entered, from the first one's entry.
using CourseKey = std::tuple<Operation, Algorithm, Bytes, std::uint32_t, std::uint8_t, std::vector<Time>>;

class Collective;
class ReuseTable;
struct Course;

class CollectiveClient {
 public:
  /// This member has sent and received everything.
  virtual void on_member_done(Collective& collective, std::uint32_t member) = 0;
  /// Every member is done; the object is taken back afterwards.
  virtual void on_collective_done(Collective& collective) = 0;

 protected:
  ~CollectiveClient() = default;
};

class Collective : private transport::MessageClient, private transport::CalendarClient {
 public:
  explicit Collective(transport::Fabric& fabric);
  ~Collective();

  /// @pre at least one member; `members` outlives the collective
  /// @param reuse  of this group, where its links are its own; null: always simulated
  void prepare(const CollectiveSpec& spec, const std::vector<transport::Window>& members, CollectiveClient& client,
               ReuseTable* reuse = nullptr);
  void enter(std::uint32_t member);

  const CollectiveSpec& spec() const { return spec_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(members_->size()); }
  Time entered(std::uint32_t member) const { return states_[member].entered_at; }
  bool has_entered(std::uint32_t member) const { return states_[member].entered; }
  Time first_entry() const { return first_entry_; }
  Time last_entry() const { return last_entry_; }
  bool all_entered() const { return entered_ == size(); }
  std::uint64_t cookie = 0;  ///< the client's own

  /// Bytes of chunk (or shard) `index`: as even as possible.
  Bytes chunk_bytes(std::uint32_t index) const;
  /// Where chunk `index` begins in the vector; every member's buffer lies at the same address.
  Bytes chunk_offset(std::uint32_t index) const;

 private:
  struct Arrival { std::uint32_t step, slice; };
  struct State {
    bool entered = false;
    bool started = false;            ///< launch is over
    bool done = false;
    Time entered_at;
    std::uint32_t received = 0;      ///< messages
    std::uint32_t delivered = 0;     ///< own sends that have landed
    std::uint32_t reduce_arrivals = 0;
    std::vector<Arrival> early;      ///< ring: arrived before this member started
  };

  std::uint32_t ring_steps() const;
  std::uint32_t messages_per_member() const;
  Bytes slice_bytes(std::uint32_t chunk, std::uint32_t slice) const;
  Bytes slice_offset(std::uint32_t chunk, std::uint32_t slice) const;
  void start(std::uint32_t member);
  /// At the first member's start: whether the course of an earlier one was taken instead; if not, begins to keep this one.
  bool reuse();
  CourseKey course_key() const;
  void send_step(std::uint32_t member, std::uint32_t step, std::uint32_t slice);
  void send_shard(std::uint32_t member, std::uint32_t phase);
  void send(std::uint32_t from, std::uint32_t to, std::uint32_t step, std::uint32_t slice, Bytes offset, Bytes bytes);
  void received(std::uint32_t member, std::uint32_t step, std::uint32_t slice);
  /// Runs what depends on an arrival, after the SM work of a step.
  void after_step(std::uint32_t member, std::uint32_t step, std::uint32_t slice);
  void depend(std::uint32_t member, std::uint32_t step, std::uint32_t slice);
  /// Tells the client when this member is done. @return whether that completed the collective
  bool check_done(std::uint32_t member);
  bool finish(std::uint32_t member);

  void on_delivered(transport::Message& message) override;
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  transport::Fabric& fabric_;
  CollectiveSpec spec_;
  const std::vector<transport::Window>* members_ = nullptr;
  CollectiveClient* client_ = nullptr;
  std::vector<State> states_;
  std::uint32_t entered_ = 0, done_ = 0;
  Time first_entry_, last_entry_;
  bool begun_ = false, replaying_ = false;
  ReuseTable* reuse_ = nullptr;
  std::unique_ptr<Course> course_;     ///< being kept
  Time course_from_;
};

/// Collectives under way, their objects reused.
class CollectivePool {
 public:
  explicit CollectivePool(transport::Fabric& fabric) : fabric_(fabric) {}
  Collective& acquire() {
    ++live_;
    if (free_.empty()) return storage_.emplace_back(fabric_);
    Collective* c = free_.back();
    free_.pop_back();
    return *c;
  }
  void release(Collective& collective) {
    --live_;
    free_.push_back(&collective);
  }
  std::size_t live() const { return live_; }

 private:
  transport::Fabric& fabric_;
  std::deque<Collective> storage_;
  std::vector<Collective*> free_;
  std::size_t live_ = 0;
};

}  // namespace railyard::collective
