// The critical path of a run. The listener keeps a cause for each job, collective and message. The end of the run, and each interval
// that a metric measures, is then a chain of jobs, transfers and waits without a gap. It decides nothing: a run is the same with
// and without it.
//
//   CriticalPath path(fabric, {group_of_port}, groups);
//   executor.follow(path, path);                        // before the first job
//   sc_start();
//   path.end();                                         // and path.measures()
//
// The cause of a job is the last of the things that it waited for: the job before it in its stream, jobs of other streams, or the
// event that emitted it. The cause of a member of a collective is found message by message, back to the entry of the member whose
// bytes came last. The cause of an event is the event in which it was created; where there is none, the chain begins.
//
// What if something were free? Beside its true end, each job carries the time at which it would have ended if one kind of cost, one
// traffic class or one group of links took no time: the latest end of everything it waited for, plus its own time without that
// cost. This is first order: inside a collective only the chain is followed; queues of other traffic and the order of jobs stay as
// they were.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "collective/cause_listener.h"
#include "execution/executor.h"
#include "probe/causes.h"
#include "transport/fabric.h"
#include "transport/study/message_costs.h"

namespace railyard::transport {
class Assembly;
}

namespace railyard::probe {

class CriticalPath final : public execution::JobListener,
                           public collective::CauseListener,
                           private transport::FabricListener {
 public:
  /// What may be free: a kind of cost, a traffic class, a group of links, a resource that kernels use, in this order.
  struct Frees {
    std::size_t classes = 0, groups = 0;
    std::size_t count() const { return of_resource(gpu::kKernelLimitNames.size()); }
    std::size_t of_class(std::size_t traffic_class) const { return transport::kCostKinds + traffic_class; }
    std::size_t of_group(std::size_t group) const { return of_class(classes) + group; }
    std::size_t of_resource(std::size_t limit) const { return of_group(groups) + limit; }
  };
  using Groups = transport::MessageCosts::Groups;

  /// @param groups  numbers of ports' groups, below frees.groups; others are in none
  CriticalPath(transport::Assembly& fabric, const Frees& frees, Groups groups);

  /// What a metric measured, summed over all that it measured, each divided by its parts.
  struct Measure {
    std::string metric;
    std::uint64_t count = 0;
    double seconds = 0;
    std::map<transport::CostKey, double> cost_seconds;
    std::vector<double> if_free;  ///< seconds that they would sum up to, by Frees
    // The longest of them.
    std::uint32_t number = 0;
    Time from, to;
    CauseRef chain;
  };
  /// From the start to the last job that was done; its `number` means nothing.
  Measure end() const;
  const std::vector<Measure>& measures() const { return measures_; }

 private:
  /// An instant of the run.
  struct Moment {
    CauseRef cause;
    Time at;
    std::vector<Time> if_free;
  };
  /// Of a collective that runs.
  struct Inside {
    std::vector<Moment> entered;  ///< by member; before it has entered: begun
    std::uint32_t done = 0;
    CauseRef last;                       ///< what happened in it last
    transport::MessageCosts::Load load;  ///< since the latest member entered
  };
  struct Sent {
    CauseRef cause;
    Inside* inside;
  };
  struct Waiting {
    CauseRef cause;
    Time copying;
  };
  struct PutOff {
    const collective::Collective* collective;
    std::uint32_t tag;
    std::uint64_t data;
    bool operator==(const PutOff& o) const { return collective == o.collective && tag == o.tag && data == o.data; }
  };
  struct PutOffHash {
    std::size_t operator()(const PutOff& p) const {
      return std::hash<const void*>()(p.collective) ^ std::hash<std::uint64_t>()(p.data * 31 + p.tag);
    }
  };

  void on_emitted(const execution::Job& job) override;
  void on_waited(const execution::Job& job, const execution::Job& done) override;
  void on_begun(const execution::Job& job) override;
  void on_done(const execution::Job& job) override;
  void on_reached(const void* owner, std::uint32_t gate) override;
  void on_passed(const void* owner, std::uint32_t gate) override;
  void on_arrived() override { current_ = beginning(); }
  void on_measure_begun(const char* metric, std::uint32_t number) override { begun_[{metric, number}] = current(); }
  void on_measured(const char* metric, std::uint32_t number, std::uint32_t parts) override;

  void on_entered(const collective::Collective& collective, std::uint32_t member) override;
  void on_put_off(const collective::Collective& collective, std::uint32_t tag, std::uint64_t data,
                  Time copying) override;
  void on_taken_up(const collective::Collective& collective, std::uint32_t tag, std::uint64_t data) override;
  void on_left(const transport::Message& message) override;
  collective::Trail trail_of(const collective::Collective& collective) override;
  void on_ended(const collective::Trail& trail) override { ended_ = &trail; }

  void on_send(const transport::Message& message, Time now) override;
  void on_delivered(const transport::Message& message, Time now) override;
  void on_start(const transport::Device&, PortId, const transport::Transaction&, Time,
                const transport::Crossing&) override {}
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}

  Time now() const { return fabric_.now(); }
  /// What happens now, as far as jobs go; where nothing is known of it, a chain begins here.
  const Moment& current();
  Moment beginning() const;
  static void join(Moment& moment, const Moment& other);
  /// The moment now, so much after another.
  /// @param floors  that it would take at least, by Frees; empty: none
  Moment after(const Moment& before, std::vector<transport::Cost> costs, std::string name,
               const std::vector<Time>& floors = {}) const;
  /// In what time a collective's messages could be over at the earliest, by what is free: the busiest of what is left.
  std::vector<Time> floors_of(const transport::MessageCosts::Load& load);
  /// Of a chain of kernels alone: its seconds by what limits them, and what each resource would save, were it free.
  struct Kernels {
    gpu::SharedChain chain;
    std::array<double, gpu::kKernelLimitNames.size()> seconds{}, saved{};
  };
  const Kernels& kernels_of(const gpu::SharedChain& chain);
  Moment done_kernels(const execution::Job& job, const Moment& begun);
  Moment done_collective(const execution::Job& job);
  void happens(Inside& inside, CauseRef cause);
  void add(Measure& measure, const Moment& first, const Moment& last, std::uint32_t number, std::uint32_t parts) const;

  const transport::Fabric& fabric_;
  const Frees frees_;
  const Groups groups_;
  transport::MessageCosts message_costs_;
  std::unordered_map<const execution::Job*, Moment>
      jobs_;  ///< emitted: what it waited for so far; then begun, then done
  std::unordered_map<const gpu::Stream*, Moment> streams_;  ///< free for the next job
  std::map<std::pair<const void*, std::uint32_t>, Moment> gates_;
  std::map<std::pair<std::string, std::uint32_t>, Moment> begun_;  ///< what a metric measures
  Moment current_, end_;
  std::array<Kernels, 8> kernels_;  ///< of the latest chains: ranks and layers share them
  std::size_t next_kernels_ = 0;
  std::vector<Measure> measures_;

  // Inside collectives: chains that end in a member's entry.
  std::unordered_map<const collective::Collective*, Inside> collectives_;
  std::unordered_map<const transport::Message*, Sent> messages_;
  std::unordered_map<PutOff, std::deque<Waiting>, PutOffHash> put_off_;
  Inside* inside_ = nullptr;                  ///< in which something happens now
  const collective::Trail* ended_ = nullptr;  ///< of the member whose job is done next
  std::vector<transport::Cost> landed_;       ///< of the message that lands now
  std::vector<Time> landed_floors_;           ///< of the same, by Frees
};

}  // namespace railyard::probe
