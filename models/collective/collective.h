// Collectives as dependency graphs of transfers executed by their members' CTAs; every byte crosses the fabric.
//
// A collective runs a Program (program.h): each member has threads, each thread does its actions in order. An action starts
// when the arrivals it waits for are there and its receivers have room (slots); it holds the thread's CTAs for the protocol's
// step and for what it moves inside the GPU, then until its transfers have left the GPU at the rate its channels write.
//
// What limits a channel: the time of its own CTA for each action, or its share of the links, whichever is longer. A thread of
// many channels is their mean. On links that cannot take all of them at once they spread in phase, and while some step or copy,
// others send. So what transfers take longer to leave than the CTAs need to write them, the thread is ahead with its own work:
// coming steps and copies cost it that much less, save the last one, after which nothing is left to send.
//
// A member takes part from the moment its stream enters: what arrived before is waiting for it, what it owes others waits for
// it. With costs of zero the graph alone remains. Ring, chunk c = S/n in one slice: exactly 2(n-1)(c/B + alpha); in slices s:
// (2n-3) max(c/B, s/B + alpha) + c/B + alpha.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/status.h"
#include "collective/cause_listener.h"
#include "collective/program.h"
#include "transport/fabric.h"

namespace railyard::collective {

/// What the course of a collective on quiet links of its own depends on: all of its spec, and when each member entered, from
/// the first one's entry.
using CourseKey = std::pair<decltype(std::declval<CollectiveSpec>().key()), std::vector<Time>>;

class Collective;
class ReuseTable;
struct Course;

class CollectiveClient {
 public:
  /// This member has sent and received everything; or the collective was aborted, and status() says why.
  virtual void on_member_done(Collective& collective, std::uint32_t member) = 0;
  /// Links were lost, and bytes that this member sends have no way left. @return whether the run goes on without them: the
  /// collective is then aborted
  virtual bool on_cut_off(const Collective&, [[maybe_unused]] std::uint32_t member) { return false; }
  /// Every member is done; the object is taken back afterwards.
  virtual void on_collective_done(Collective& collective) = 0;
  /// For errors; empty where there is nothing to say.
  virtual std::string name_of(const Collective&) const { return {}; }

 protected:
  ~CollectiveClient() = default;
};

class Collective : private transport::MessageClient, private transport::CalendarClient {
 public:
  explicit Collective(transport::Fabric& fabric);
  ~Collective();

  /// @pre at least one member, !unsupported(spec, group); `group` outlives the collective
  /// @param reuse  of this group, where its links are its own; null: always simulated
  void prepare(const CollectiveSpec& spec, const Group& group, CollectiveClient& client, ReuseTable* reuse = nullptr);
  /// Null: nobody.
  void follow(CauseListener* causes) { causes_ = causes; }
  void enter(std::uint32_t member);
  /// As ncclCommAbort(): nothing new is sent. Members that have entered end when what is under way has landed, others when
  /// they enter.
  void abort(Status status);

  const CollectiveSpec& spec() const { return spec_; }
  std::uint32_t size() const { return group_->size(); }
  Time entered(std::uint32_t member) const { return members_[member].entered_at; }
  bool has_entered(std::uint32_t member) const { return members_[member].entered; }
  Time first_entry() const { return first_entry_; }
  Time last_entry() const { return last_entry_; }
  bool all_entered() const { return entered_ == size(); }
  Status status() const { return status_; }
  std::uint64_t cookie = 0;  ///< the client's own

 private:
  struct Member {
    bool entered = false;
    bool started = false;  ///< launch is over
    bool done = false;
    bool held_by_host = false;
    std::uint32_t threads_left = 0;  ///< with actions to do
    std::uint32_t under_way = 0;     ///< own transfers that have not landed
    Time entered_at;
  };
  struct Thread {
    std::uint32_t next = 0;  ///< action
    std::uint32_t actions = 0;
    std::uint32_t leaving = 0;  ///< transfers of the current action still leaving
    bool busy = false;
    Time sends_from;  ///< when these began to leave
    Time ahead;       ///< work of its CTAs that others of its channels did while these waited for the links
  };
  /// Arrivals from one sender, and how far that may go ahead.
  struct Lane {
    std::uint32_t arrived = 0, sent = 0, consumed = 0;
    std::uint32_t blocked = kNobody;  ///< thread that waits for room
  };
  static constexpr std::uint32_t kNobody = ~0u;

  std::uint32_t thread_of(std::uint32_t member, std::uint32_t thread) const {
    return member * program_->threads() + thread;
  }
  Lane& lane(std::uint32_t thread, std::uint32_t lane) { return lanes_[thread * program_->lanes() + lane]; }
  void start(std::uint32_t member);
  /// on_event() with these, so much later.
  void put_off(Time wait, std::uint32_t tag, std::uint64_t data, Time copying = Time());
  /// At the first member's start: whether the course of an earlier one was taken instead; if not, begins to keep this one.
  bool reuse();
  CourseKey course_key() const;
  /// What is kept of this one is of no use: others have come onto its links.
  friend class ReuseTable;
  void forget_course();

  /// Does a thread's actions as far as they go.
  void advance(std::uint32_t thread);
  bool may_start(std::uint32_t thread, const Action& action);
  /// What an action costs the CTAs before its transfers start.
  Time preparation(std::uint32_t member, std::uint32_t thread, const Action& action) const;
  /// Of that, what the CTAs copy bytes for.
  Time copying(std::uint32_t member, std::uint32_t thread, const Action& action) const;
  /// The CTAs' own time for what an action writes while it leaves; zero where no rate of theirs limits it.
  Time writing(std::uint32_t member, std::uint32_t thread, const Action& action) const;
  /// Calls `with` with every lane that a transfer raises.
  template <class With>
  void for_each_lane(std::uint32_t member, const Transfer& transfer, With with);
  /// Its transfers have left: what they took longer than the CTAs needed, others of its channels have worked.
  void add_ahead(std::uint32_t thread, const Action& action);
  /// Starts an action's transfers. @return whether the CTAs are free at once
  bool transfer(std::uint32_t thread, const Action& action);
  /// Hands a transfer of a thread's to the fabric.
  void post(std::uint32_t thread, const Transfer& transfer, Rate rate, bool tell_left);
  void complete(std::uint32_t thread, const Action& action);
  void arrive(std::uint32_t thread, std::uint32_t lane);
  /// A transfer has landed, and whoever waits for it has seen that.
  void land(std::uint64_t mark);
  /// The current action of a thread, described anew into action_.
  const Action& current(std::uint32_t thread);
  bool leaves_server(std::uint32_t member, const Transfer& transfer) const {
    return transfer.kind <= Transfer::Kind::flag && group_->server_of(member) != group_->server_of(transfer.to);
  }
  /// Of an aborted collective: ends the members that have entered, once nothing is under way.
  void drain();
  /// An event of an aborted collective: what it was to do is not done.
  void drop(std::uint32_t tag, std::uint64_t data);
  /// Has the client told, last at this instant, when this member is done.
  void check_done(std::uint32_t member);
  void finish(std::uint32_t member);
  void tell_done(std::uint32_t member);
  /// Of what comes last at its instant: a member's start or end.
  std::uint64_t turn(std::uint32_t member, bool end) const { return first_turn_ + (end ? size() : 0) + member; }

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
  CollectiveClient* client_ = nullptr;
  std::vector<Member> members_;
  std::vector<Thread> threads_;
  std::vector<Lane> lanes_;
  Action action_;  ///< described last, kept to spare allocations
  std::uint32_t entered_ = 0, done_ = 0, told_ = 0;
  std::uint32_t put_off_ = 0;  ///< events to come, without those that tell that a member is done
  Status status_ = Status::ok;
  std::uint64_t first_turn_ = 0;
  Time first_entry_, last_entry_;
  bool begun_ = false;
  const Course* replayed_ = nullptr;  ///< taken instead of being simulated
  ReuseTable* reuse_ = nullptr;
  std::unique_ptr<Course> course_;  ///< being kept
  Time course_from_;
  std::vector<Trail> trails_;  ///< of members that are done; empty where nobody follows causes
  struct Posted {
    std::uint32_t thread = 0;
    Transfer transfer;
  };
  std::vector<Posted> posted_;  ///< waiting for a proxy
  std::vector<std::uint32_t> free_posted_;
  CauseListener* causes_ = nullptr;
};

/// Collectives under way, their objects reused.
class CollectivePool {
 public:
  explicit CollectivePool(transport::Fabric& fabric) : fabric_(fabric) {}
  /// Of all that are acquired from now on.
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
