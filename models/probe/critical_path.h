// The critical path of a run. The listener keeps a cause for each job, collective and message. The end of the run, and
// each interval that a metric measures, is then a chain of jobs, transfers and waits without a gap. It decides nothing:
// a run is the same with and without it.
//
//   CriticalPath path(fabric, {group_of_port}, groups);
//   executor.follow(path, path);                        // before the first job
//   sc_start();
//   path.end();                                         // and path.measures()
//
// The cause of a job is the last condition that was met: the end of the previous job in its stream, the end of a job of
// another stream, or the event that emitted the job. The cause of a member of a collective is found message by message,
// back to the entry of the member whose bytes came last. The cause of an event is the event in which it was created; if
// there is none, the chain begins there.
//
// What if something were free? Besides its true end, each job has the time at which it would have ended if one kind of
// cost, one traffic class or one group of links took no time: the latest end of all jobs it waited for, plus its own
// time without that cost. Messages of jobs queue anew at each link (transport/study/free_links.h). This is a first-order
// estimate: inside a collective only the chain is followed, and the order of jobs does not change.
//
// Batches of a scheduler are the exception to that order: what is in them depends on time, and the scheduler waits for no
// request. So with something free, the steps of a scheduler follow each other without regard to arrivals, and a request
// enters its queue as far between two steps as it did. Its times are measured from there: the clock of a request has an
// offset to that of each of its schedulers. Likewise its critical path: from the queue back to its arrival it is the
// request's own, because it needed no batch before.
//
// There is no prediction (Measure::doubt()) where what is kept would change by more than a few percent of the time:
//
//   arrivals  a batch keeps its requests. Where steps gain on arrivals, a request would meet fewer batches that start
//             others; where arrivals gain on steps, batches would start more. Only schedulers that the request visits count. A request
//             that was held in the router until a step ended comes before or after the next one by the time that hosts need for it
//   queues    in a collective, a queue in front of a link that takes no time may be gone, or move to the next slowest
//             link of the path. The prediction is the middle
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collective/cause_listener.h"
#include "execution/job.h"
#include "execution/job_listener.h"
#include "probe/causes.h"
#include "transport/fabric.h"
#include "transport/study/free_links.h"
#include "transport/study/message_costs.h"

namespace railyard::transport {
class Assembly;
}

namespace railyard::probe {

class CriticalPath final : public execution::JobListener,
                           public collective::CauseListener,
                           private transport::FabricListener {
 public:
  /// Numbers of all that may be free, in this order: kinds of cost, traffic classes, groups of links, resources of
  /// kernels, works of hosts, GPUs that events slow down.
  struct Frees {
    std::size_t classes = 0, groups = 0, stragglers = 0;
    std::size_t count() const { return of_straggler(stragglers); }
    std::size_t of_class(std::size_t traffic_class) const { return transport::kCostKinds + traffic_class; }
    std::size_t of_group(std::size_t group) const { return of_class(classes) + group; }
    std::size_t of_resource(std::size_t limit) const { return of_group(groups) + limit; }
    std::size_t of_host(std::size_t work) const { return of_resource(gpu::kKernelLimitNames.size()) + work; }
    std::size_t of_straggler(std::size_t gpu) const { return of_host(execution::kHostWorkNames.size()) + gpu; }
  };
  /// Numbers of the GPUs that events slow down, below Frees::stragglers.
  using Stragglers = std::unordered_map<const gpu::Gpu*, std::uint32_t>;
  using Groups = transport::MessageCosts::Groups;

  /// @param groups  group number of each port, below frees.groups; a port that is not listed has no group
  CriticalPath(transport::Assembly& fabric, const Frees& frees, Groups groups, Stragglers stragglers);
  /// Messages of this class belong to no job: devices of the user send them. Call before the run.
  void leave_out(std::uint8_t traffic_class) { left_out_ = traffic_class; }

  /// Why something cannot be predicted: batches would start other requests; queues would move to other links.
  enum class Doubt : std::uint8_t { none, arrivals, queues };
  /// Sums over all intervals of a metric, each divided by its number of parts.
  struct Measure {
    std::string metric;
    std::uint64_t count = 0;
    double seconds = 0, held_seconds = 0;  ///< held: in the router, a part of the same time
    std::map<transport::CostKey, double> cost_seconds;
    std::vector<double> if_free;  ///< sum of seconds if something were free, by Frees
    // Sums over the intervals, by Frees: by how much steps and arrivals move against each other, and the time of batches that would be
    // others, for the first scheduler of each request, for its second one, and so on; the part of queues in collectives that may remain.
    struct Shifted {
      std::vector<double> moved, other;
    };
    std::vector<Shifted> shifted;
    std::vector<double> queued;
    std::vector<double> held;  ///< without work of hosts: the time in the router, after which another step may be next
    /// Why the time with something free is no prediction.
    Doubt doubt(std::size_t free) const;
    // The longest interval:
    std::uint32_t number = 0;
    Time from, to;
    CauseRef chain;
  };
  /// The interval from the start to the end of the last job; its `number` has no meaning.
  Measure end() const;
  const std::vector<Measure>& measures() const { return measures_; }

 private:
  /// An instant of the run.
  struct Moment {
    CauseRef cause;
    Time at;
    std::vector<Time> if_free;
    const void* clock = nullptr;  ///< the scheduler by whose clock `if_free` is given; null: none has been here
  };
  /// Since the begin of the run, by Frees: by how much steps of a scheduler and arrivals have moved against each other; the
  /// time of its batches that start requests.
  struct Shifts {
    std::vector<Time> moved, starting;
  };
  struct Gate {
    Moment met;   ///< the latest condition so far
    Shifts then;  ///< of the scheduler
    std::vector<Time>
        queued;  ///< of a request: when it entered the queue with something free, by its scheduler's clock
  };
  /// Latest composition of a scheduler.
  struct Composed {
    Time at;
    std::vector<Time> if_free;
    /// By how much its steps and the latest request have moved; and the latest one that left the queue with memory for KV from elsewhere.
    std::vector<Time> moved, moved_reserved;
    Shifts shifts;
    bool starts = false, started = false;   ///< it, and the composition before, took requests
    std::deque<std::vector<Time>> earlier;  ///< if_free of compositions before this one
    /// With something free, the first composition from `came` on, of the earlier ones and the one at `composed`.
    Time next_after(Time came, Time composed, std::size_t f) const;
    std::vector<double> pace;  ///< of its clock, relative to the real one, between the two latest compositions
  };
  /// Offsets of clocks, by Frees: femtoseconds, modulo 2^64.
  using Offsets = std::vector<std::uint64_t>;
  /// A request between its arrival and the end of its answer.
  struct Request {
    /// Its time in a scheduler, from the queue until it is in another one.
    struct Stay {
      const void* scheduler;
      Shifts since, until;  ///< until: empty if it is there
    };
    std::map<const void*, Offsets> ahead;  ///< what the clock of a scheduler is ahead of the request's own
    std::vector<Stay> stays;
    CauseRef own;  ///< how it came into the queue of its latest scheduler
    Time queued;   ///< when
  };
  /// Begin of an interval of a metric.
  struct Begun {
    Moment moment;
    Offsets ahead;
    std::size_t stay = 0;  ///< in which the request is, or will be first
    Shifts then;           ///< there; empty: those at the begin of the stay
    Time held;
  };
  /// State of a running collective.
  struct Inside {
    std::vector<Moment> entered;  ///< entry by member; before the entry: begin of the member's job
    std::uint32_t done = 0;
    CauseRef last;                       ///< latest event in the collective
    transport::MessageCosts::Load load;  ///< since the latest entry of a member
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
  void on_begin_told() override;
  void on_done(const execution::Job& job) override;
  void on_waited_for_peer(const execution::Job& job, const execution::Job& last) override;
  void on_reached(const void* owner, std::uint32_t gate) override;
  void on_passed(const void* owner, std::uint32_t gate) override;
  void on_composed(const void* owner, std::uint32_t ready, const std::vector<std::uint32_t>& taken,
                   const std::vector<std::uint32_t>& reserved, bool has_others) override;
  void on_arrived(std::optional<std::uint32_t> after) override;
  void on_answered(std::uint32_t request, std::uint32_t awaiting) override;
  void on_measure_begun(const char* metric, std::uint32_t number) override;
  void on_held(const char* metric, std::uint32_t number, Time since) override;
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
  /// The moment of the event being processed, for jobs. If its cause is unknown, a chain begins here.
  const Moment& current();
  Moment beginning() const;
  static void join(Moment& moment, const Moment& other);
  /// The present moment, with its time since `before` explained by `costs`.
  /// @param floors  least times with something free, by Frees; empty: none
  Moment after(const Moment& before, std::vector<transport::Cost> costs, std::string name,
               const std::vector<Time>& floors = {}, bool is_collective = false) const;
  /// Least times for the messages of a collective with something free, by Frees: the time of the busiest remaining
  /// link.
  std::vector<Time> floors_of(const transport::MessageCosts::Load& load);
  /// A chain of kernels alone on its GPU: seconds by limiting resource, and the seconds saved if each resource were
  /// free.
  struct Kernels {
    gpu::SharedChain chain;
    std::array<double, gpu::kKernelLimitNames.size()> seconds{}, saved{};
  };
  const Kernels& kernels_of(const gpu::SharedChain& chain);
  Moment done_kernels(const execution::Job& job, const Moment& begun);
  Moment done_messages(const execution::Job& job, const Moment& begun);
  Moment done_collective(const execution::Job& job);
  void happens(Inside& inside, CauseRef cause);
  /// What the clock of the moment is ahead of the request's own.
  Offsets ahead_of(std::uint32_t request, const Moment& moment) const;
  /// Requests that have come since the scheduler's composition before this one get their place between the two.
  void place(const void* owner, const Composed& before, const std::vector<Time>& composed);
  /// The first of these requests that came into the scheduler's queue, by its own clock; nothing if none did.
  std::optional<Moment> first_of(const void* owner, const std::vector<std::uint32_t>& taken) const;
  /// The gate, which is met now; nothing if none of its conditions was.
  std::optional<Gate> take_gate(const void* owner, std::uint32_t gate);
  /// The request leaves the queue of a scheduler in which it has been since then.
  void enter(Request& request, const void* scheduler, const Shifts& then);
  /// The moment by the request's own clock.
  std::vector<Time> own_times(std::uint32_t request, const Moment& moment) const;
  /// What is done now waits for a moment, too.
  void wait_for(const Moment& moment);
  /// @param ahead  of the clock by which `last` is given
  void add(Measure& measure, const Begun& first, const Moment& last, const Offsets& ahead, std::uint32_t number,
           std::uint32_t parts) const;
  /// Adds time in the router.
  void add_held(Measure& measure, Time held, std::uint32_t parts) const;
  /// Adds what moved in a request's stay of this number.
  void add_shifts(Measure& measure, std::size_t stay, const Shifts& since, const Shifts& until,
                  std::uint32_t parts) const;

  const transport::Fabric& fabric_;
  const Frees frees_;
  const Groups groups_;
  const Stragglers stragglers_;
  transport::MessageCosts message_costs_;
  std::unordered_map<const execution::Job*, Moment>
      jobs_;  ///< after emission: latest condition so far; later: begin; then end
  std::unordered_map<const gpu::Stream*, Moment> streams_;    ///< when the stream became free for its next job
  std::unordered_map<const execution::Job*, double> speeds_;  ///< of kernels on slow GPUs, relative to full speed
  std::map<std::pair<const void*, std::uint32_t>, Gate> gates_;
  std::map<const void*, Composed> composed_;             ///< by scheduler
  std::unordered_map<std::uint32_t, Request> requests_;  ///< that schedulers have taken
  /// Requests whose answer others wait for, and how many.
  std::unordered_map<std::uint32_t, std::pair<Moment, std::uint32_t>> answered_;
  Moment last_answer_;
  Time held_;                              ///< all requests in the router, until now
  std::vector<Request::Stay> last_stays_;  ///< of the request with this answer
  std::map<std::pair<std::string, std::uint32_t>, Begun> begun_;
  Moment current_, end_;
  std::vector<Moment> outer_;       ///< the current ones before, while clients are told that jobs begin
  std::array<Kernels, 8> kernels_;  ///< cache of the latest chains: ranks and layers share them
  std::size_t next_kernels_ = 0;
  std::vector<Measure> measures_;

  // Inside collectives: chains that end in a member's entry.
  std::unordered_map<const collective::Collective*, Inside> collectives_;
  std::unordered_map<const transport::Message*, Sent> messages_;
  std::unordered_map<PutOff, std::deque<Waiting>, PutOffHash> put_off_;
  std::optional<std::uint8_t> left_out_;      ///< class whose messages are nobody's
  Inside* inside_ = nullptr;                  ///< the collective of the event being processed
  const collective::Trail* ended_ = nullptr;  ///< trail of the member whose job ends next
  std::vector<transport::Cost> landed_;       ///< costs of the message that lands now

  // Of messages of jobs.
  transport::FreeLinks free_links_;
  std::unordered_map<const transport::MessageClient*, std::vector<transport::FreeLinks::Carried>> arrived_;  ///< by job
  const transport::MessageClient* landed_of_ = nullptr;  ///< job of the message that lands now
};

}  // namespace railyard::probe
