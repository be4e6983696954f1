// The room `collective` runs collectives. A CollectiveRequest gets its algorithm, protocol and channels from NCCL's
// rules (NcclPlan, tuner.h) or from an engine's (custom_all_reduce.h), as a CollectiveSpec. make_program() turns this
// into a Program for a Group of members. A Collective executes it: the executor enters members, and CollectiveClient
// hears of their ends; all bytes go through Fabric::send(). ReuseGroup records a collective whose links are its own and
// replays it. RunningMembers, NetworkSums and SharedLinks serve folded groups, sums in switches, and virtual members.
//
// Collectives as dependency graphs of transfers, executed by the CTAs of their members. Every byte crosses the fabric.
//
// A collective runs a Program (program.h): each member has threads, and each thread does its actions in order. An
// action starts when its awaited transfers have arrived and its receivers have room (slots). It holds the CTAs of the
// thread for the step of the protocol and for bytes that it moves inside the GPU, and then until its transfers have
// left the GPU at the rate of its channels.
//
// The longer of two times limits a channel: the time of its own CTA for each action, or its share of the links. A
// thread stands for many channels and models their mean. If the links cannot serve all channels at once, the channels
// drift apart: some send while others step or copy. So when transfers leave more slowly than the CTAs could write them,
// the thread gets ahead with its own work by the difference. Its next steps and copies then cost less, except the last
// one, after which nothing is sent.
//
// A member takes part from the moment its stream enters. Earlier arrivals are kept for it, and its peers wait for its
// transfers. If all costs are zero, only the graph remains. Ring with chunk c = S/n in one slice: exactly 2(n-1)(c/B +
// alpha); in slices s: (2n-3) max(c/B, s/B + alpha) + c/B + alpha.
//
// Of a folded group (spec.h), few members run (running_members.h). If several copies exist, because they differ in the
// speed of a GPU or link, and all members do the same, those that clients see end when the last of them ends, as nobody ends
// a ring before its slowest member. Where virtual members run, as in a tree, what they send takes the time that it
// takes without contention, and waits where their links, or those of the receiver, are busy with others of this kind. A
// member that exists ends for its client when the last member like it ends.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "collective/cause_listener.h"
#include "collective/network_sums.h"
#include "collective/running_members.h"
#include "collective/shared_links.h"
#include "transport/fabric.h"

namespace railyard::collective {

/// Everything that determines the recording of a collective on quiet links of its own: its spec, and the entry of each
/// member relative to the first entry.
using RecordingKey = std::pair<decltype(std::declval<CollectiveSpec>().key()), std::vector<Time>>;

class Collective;
class ReuseTable;
struct KnownRecording;
struct Recording;

class CollectiveClient {
 public:
  /// This member has sent and received everything; or the collective was aborted, and status() says why.
  virtual void on_member_done(Collective& collective, std::uint32_t member) = 0;
  /// Links were lost, and bytes that this member sends have no way left. @return whether the run goes on without them: the
  /// collective is then aborted
  virtual bool on_cut_off(const Collective&, [[maybe_unused]] std::uint32_t member) { return false; }
  /// A recording is about to be replayed; all members have entered at one instant, and have started.
  /// @return whether the client has counted it, together with what follows it, and has released the collective
  virtual bool on_replay(Collective&) { return false; }
  /// Every member is done. The collective may be released now.
  virtual void on_collective_done(Collective& collective) = 0;
  /// Name for error messages; may be empty.
  virtual std::string name_of(const Collective&) const { return {}; }

 protected:
  ~CollectiveClient() = default;
};

class Collective final : private transport::MessageClient, private transport::CalendarClient {
 public:
  explicit Collective(transport::Fabric& fabric);
  ~Collective();

  /// @pre at least one member, !unsupported(spec, group); `group` outlives the collective
  /// @param reuse  table of this group if no other traffic reaches its links; null: always simulate
  /// @param first_turn  of turns() in the calendar that it may use; none: it takes them now
  void prepare(const CollectiveSpec& spec, const Group& group, CollectiveClient& client, ReuseTable* reuse = nullptr,
               std::optional<std::uint64_t> first_turn = std::nullopt);
  /// Turns of a collective. @pre the group is not folded
  static std::uint64_t turns(const Group& group) { return 2ull * group.size(); }
  /// Null: no listener.
  void follow(CauseListener* causes) { causes_ = causes; }
  void enter(std::uint32_t member);
  /// All members enter at this instant, now or later. @pre the group is not folded
  void enter_all(Time when);
  /// As ncclCommAbort(): nothing new is sent. Members that have entered end when what is under way has landed, others when
  /// they enter.
  void abort(Status status);

  const CollectiveSpec& spec() const { return spec_; }
  /// Members that clients see.
  std::uint32_t size() const { return running_.seen_by_clients(); }
  Time entered(std::uint32_t member) const { return members_[running_.seen(member)].entered_at; }
  bool has_entered(std::uint32_t member) const { return members_[running_.seen(member)].entered; }
  Time first_entry() const { return first_entry_; }
  Time last_entry() const { return last_entry_; }
  bool all_entered() const { return entered_ == running_.size(); }
  Status status() const { return status_; }
  /// The recording that is replayed instead of a simulation; null: none.
  const Recording* replayed() const { return replayed_; }
  std::uint64_t cookie = 0;  ///< for the client's use

 private:
  struct Member {
    bool entered = false;
    bool started = false;  ///< the launch is over
    bool done = false;
    bool held_by_host = false;
    std::uint32_t threads_left = 0;  ///< threads that still have actions
    std::uint32_t under_way = 0;     ///< transfers of this member that have not landed
    Time entered_at;
    Time proxy_free;  ///< StepCost::proxy_rate
  };
  struct Thread {
    std::uint32_t next = 0;  ///< index of the current action
    std::uint32_t actions = 0;
    std::uint32_t leaving = 0;  ///< transfers of the current action that are still leaving
    bool busy = false;
    Time sends_from;  ///< when these transfers began to leave
    Time ahead;       ///< CTA work that some channels did while other channels waited for the links
  };
  /// Arrivals from one sender, and how far the sender may run ahead.
  struct Lane {
    std::uint32_t arrived = 0, sent = 0, consumed = 0;
    std::uint32_t blocked = kNobody;  ///< sending thread that waits for room
  };
  static constexpr std::uint32_t kNobody = ~0u;

  // Members that run have numbers (running_members.h). The program and the group have a number for each member.
  void enter_one(std::uint32_t number);
  /// Puts off the start of a member that enters at this instant.
  void put_off_start(std::uint32_t member, Time entry);

  std::uint32_t thread_of(std::uint32_t member, std::uint32_t thread) const {
    return member * program_->threads() + thread;
  }
  Lane& lane(std::uint32_t thread, std::uint32_t lane) { return lanes_[thread * running_.lanes() + lane]; }
  void start(std::uint32_t member);
  /// Calls on_event(tag, data) after `wait`.
  void put_off(Time wait, std::uint32_t tag, std::uint64_t data, Time copying = Time());
  /// At the start of the first member: finds an earlier recording to replay, or begins to record this collective.
  void reuse();
  void replay(const KnownRecording& known);
  RecordingKey recording_key() const;
  /// Discards the recording, because another collective has begun on the same links.
  friend class ReuseTable;
  void forget_recording();

  /// Runs the actions of a thread until one must wait.
  void advance(std::uint32_t thread);
  bool may_start(std::uint32_t thread, const Action& action);
  /// CTA time of an action before its transfers start.
  Time preparation(std::uint32_t member, std::uint32_t thread, const Action& action) const;
  /// Part of preparation() in which the CTAs copy bytes.
  Time copying(std::uint32_t member, std::uint32_t thread, const Action& action) const;
  /// CTA time to write an action's transfers; zero if no rate of the CTAs limits them.
  Time writing(std::uint32_t member, std::uint32_t thread, const Action& action) const;
  /// Calls `with` with every lane that a transfer raises.
  template <class With>
  void for_each_lane(std::uint32_t member, const Transfer& transfer, With with);
  /// The transfers of an action have left. If this took longer than the CTAs needed, the thread gets ahead.
  void add_ahead(std::uint32_t thread, const Action& action);
  /// Starts an action's transfers. @return whether the CTAs are free at once
  bool transfer(std::uint32_t thread, const Action& action);
  /// How long the proxy of a member takes, with what it does already, until it posts a transfer.
  Time posting(Member& member, const Transfer& transfer);
  /// Gives a transfer of a thread to the fabric.
  void post(std::uint32_t thread, const Transfer& transfer, Rate rate, bool tell_left);
  void give(const transport::Message& message);
  /// A message has arrived at an aggregation node.
  void pass_on(const transport::Message& message);
  /// As post(), for the thread of a virtual member: the message crosses links of running members.
  void post_virtual(std::uint32_t thread, const Transfer& transfer, const transport::Message& message);
  /// A message of a member that exists to one that does not will also cross the receiver's link.
  void reach_virtual(std::uint32_t thread, const Transfer& transfer, transport::Message& message);
  /// @return slot of the message
  std::uint32_t add_virtual(std::uint32_t thread, const Transfer& transfer, const transport::Message& message);
  /// It takes so many parts of each virtual_link(), each for `of` parts of its time.
  void use_virtual(std::uint32_t slot, const SharedLinks::Path& path, std::array<std::uint32_t, 2> parts,
                   std::uint32_t of);
  /// Schedules the next event of the links of virtual members.
  void wake_for_virtual();
  /// Messages may have crossed these links.
  void cross_virtual_links();
  /// A message has crossed its links, or the fabric; `latency` until it arrives, if this was the last of both.
  void cross_virtual(std::uint32_t slot, Time latency);
  /// All transfers of a thread's action have left.
  void left(std::uint32_t thread);
  void complete(std::uint32_t thread, const Action& action);
  void arrive(std::uint32_t thread, std::uint32_t lane);
  /// A transfer has landed and its receiver (or the receiver's proxy) has seen it.
  void land(std::uint64_t mark);
  /// The current action of a thread, written into action_.
  const Action& current(std::uint32_t thread);
  bool leaves_server(std::uint32_t member, const Transfer& transfer) const {
    if (transfer.kind == Transfer::Kind::aggregate) return true;
    return transfer.kind <= Transfer::Kind::flag && running_.server_of(member) != group_->server_of(transfer.to);
  }
  /// Of an aborted collective: ends the members that have entered, once nothing is under way.
  void drain();
  /// An event of an aborted collective. Its action is skipped.
  void drop(std::uint32_t tag, std::uint64_t data);
  /// If the member is done, notifies the client as the last event of this instant.
  void check_done(std::uint32_t member);
  void finish(std::uint32_t member);
  void tell_done(std::uint32_t member);
  /// Order of a member's start or end among the last events of an instant.
  std::uint64_t turn(std::uint32_t member, bool end) const {
    return first_turn_ + (end ? running_.size() : 0) + member;
  }

  void on_delivered(transport::Message& message) override;
  void on_left(transport::Message& message) override;
  bool on_cut_off(const transport::Message& message) override;
  void on_undeliverable(transport::Message& message) override;
  std::string name_of(const transport::Message&) const override { return client_->name_of(*this); }
  void on_event(std::uint32_t tag, std::uint64_t data) override;

  transport::Fabric& fabric_;
  CollectiveSpec spec_;
  const Group* group_ = nullptr;
  std::unique_ptr<Program> program_;
  bool reads_operands_ = false;
  NetworkSums sums_;
  CollectiveClient* client_ = nullptr;
  RunningMembers running_;
  std::vector<std::uint32_t> unfinished_;  ///< by client's member
  /// A message from a virtual member, or to one (post_virtual(), reach_virtual()).
  struct VirtualMessage {
    std::uint32_t thread = 0;
    Transfer transfer;
    std::uint64_t mark = 0;
    bool tell_left = false;
    std::uint32_t crossings = 0;  ///< that are not over: its links, the fabric
    Time takes, latency;          ///< time of its bytes on a link, and the rest
    Time written;                 ///< when its sender has written the last byte
  };
  /// Links of a member: inside its server, and to other servers.
  enum VirtualLink : std::uint32_t { kOut, kIn, kToOthers, kFromOthers, kVirtualLinks };
  static std::uint32_t virtual_link(std::uint32_t member, VirtualLink link) { return member * kVirtualLinks + link; }
  SharedLinks virtual_links_;        ///< of a folded group, by virtual_link()
  Time virtual_wake_ = Time::max();  ///< their next event
  std::vector<VirtualMessage> virtual_messages_;
  std::vector<std::uint32_t> free_virtual_;
  std::vector<Member> members_;
  std::vector<Thread> threads_;
  std::vector<Lane> lanes_;
  Action action_;  ///< the last described action; a member, to avoid allocations
  std::uint32_t entered_ = 0, done_ = 0, told_ = 0;
  std::uint32_t put_off_ = 0;  ///< events to come, without those that tell that a member is done
  Status status_ = Status::ok;
  std::uint64_t first_turn_ = 0;
  Time first_entry_, last_entry_;
  bool begun_ = false;
  const Recording* replayed_ = nullptr;    ///< recording that is replayed instead of a simulation
  const KnownRecording* known_ = nullptr;  ///< that replay begins when the last member has started
  ReuseTable* reuse_ = nullptr;
  std::unique_ptr<Recording> recording_;  ///< recording of this collective
  Time recording_from_;
  std::vector<Trail> trails_;  ///< of members that are done; empty without a listener for causes
  struct Posted {
    std::uint32_t thread = 0;
    Transfer transfer;
  };
  std::vector<Posted> posted_;  ///< transfers that wait for a proxy
  std::vector<std::uint32_t> free_posted_;
  CauseListener* causes_ = nullptr;
};

/// Collectives under way; their objects are reused.
class CollectivePool {
 public:
  explicit CollectivePool(transport::Fabric& fabric) : fabric_(fabric) {}
  /// Listens to all collectives that are acquired from now on.
  void follow(CauseListener& causes) { causes_ = &causes; }
  Collective& acquire() {
    ++live_;
    if (free_.empty()) free_.push_back(&storage_.emplace_back(fabric_));
    Collective* c = free_.back();
    free_.pop_back();
    c->follow(causes_);
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
  CauseListener* causes_ = nullptr;
};

}  // namespace railyard::collective
