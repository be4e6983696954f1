// The room `execution_trace` plays traces of other programs. A Trace has the nodes of each rank and what they wait for
// (readers: sc_main/scenario/execution_traces). Order checks that collectives and exchanges meet, and sorts nodes;
// TracePlayer emits them as jobs and measures each RankResult. The kind `trace` owns the player.
//
// workload.kind: trace: runs an execution trace. All jobs are emitted at the start, in the order of order.h; then
// dependencies and streams decide. A rank has a stream for compute nodes, one for work of its host, one each for sends,
// receives and stores, and one for each of its groups, as NCCL's communicators have. The receives of eager exchanges have
// a stream for each sender, so none waits behind bytes of another sender. Loads are in a stream of the host, one for each
// rank.
//
//   compute     with a duration: it occupies the stream and nothing else, because the recorded duration holds all
//               effects of sharing. By roofline: a kernel on all SMs; time = max(FLOPs / tensor rate, bytes / HBM rate)
//   collective  as any collective: the library chooses algorithm and protocol, and bytes cross the fabric
//   send        by SMs on both ends, like ncclSend() and ncclRecv(). Of an eager exchange (order.h), both ends begin when
//               the sender can, and nodes after the receive also wait for those before it
//   load, store a copy by a copy engine between the GPU and the memory of its host
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "workload/execution_trace/player_spec.h"
#include "workload/jobs.h"

namespace railyard::workload::execution_trace {

struct RankResult {
  Time end;      ///< of its last node
  Time compute;  ///< total time of compute nodes
  std::uint32_t nodes = 0;
};

class TracePlayer final : private JobClient, private JobNamer {
 public:
  /// Streams that each rank needs for this trace, and of those of a host.
  static std::vector<std::string> streams(const Trace& trace);
  /// @param ranks  with streams()
  /// @param hosts  by rank, the host with the GPU's memory; with a stream of its own for each rank's loads
  /// @param loads  by rank, its stream of the host
  TracePlayer(const TraceSpec& spec, std::vector<Rank*> ranks, std::vector<Rank*> hosts,
              std::vector<gpu::Stream*> loads, Executor& executor);

  /// @pre the machine is elaborated
  void start();
  bool done() const { return jobs_ != 0 && finished_ == jobs_; }
  std::uint64_t jobs() const { return jobs_; }
  std::uint64_t finished() const { return finished_; }
  const std::vector<RankResult>& results() const { return results_; }
  Time end() const { return end_; }
  /// Communicators that the trace uses, in the order of its groups.
  const std::vector<std::unique_ptr<Communicator>>& communicators() const { return communicators_; }
  /// Number of jobs that the trace becomes.
  static std::uint64_t jobs_of(const Order& order);
  static constexpr const char* kMetric = "makespan_s";

 private:
  enum FixedStream : std::size_t { kCompute, kHost, kSend, kReceive, kStore, kGroups };
  static constexpr std::uint32_t kIsMeeting = 1u << 31;
  /// Of a node alone: its rank and index. Of a meeting: its number with kIsMeeting, and the member.
  struct Fields {
    std::uint32_t place, index;
  };

  void emit_alone(std::uint32_t rank, std::uint32_t index);
  void emit_collective(std::uint32_t number);
  void emit_exchange(std::uint32_t number);
  /// Number of ranks from which a rank may receive.
  static std::size_t most_senders(const Trace& trace);
  /// All members of a meeting as a collective.
  void emit_together(std::uint32_t number, Communicator& communicator, const collective::CollectiveSpec& spec);
  std::vector<JobRef> after(std::uint32_t rank, std::uint32_t index) const;
  gpu::SharedChain roofline(std::uint32_t rank, const TraceNode& node) const;
  /// The communicator of a sender and a receiver.
  Communicator& pair(const Meeting& exchange);
  std::uint8_t class_of(const Meeting& exchange) const;
  execution::Copy copy_of(const TraceNode& node, std::uint32_t rank) const;
  std::size_t stream_of(const TraceNode& node, std::size_t usual) const;
  std::vector<collective::OtherTraffic> other_traffic() const;
  /// Rank and node of a job.
  std::pair<std::uint32_t, std::uint32_t> place_of(const Fields& fields) const;
  const TraceNode& node(std::uint32_t rank, std::uint32_t index) const { return spec_.trace->nodes(rank)[index]; }

  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t arguments) const override;
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }
  std::uint64_t of_member(std::uint64_t arguments, std::uint32_t member) const override;

  TraceSpec spec_;
  std::vector<Rank*> ranks_, hosts_;
  std::vector<gpu::Stream*> loads_;
  Executor& executor_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  ///< by group; null: not used
  /// By sender, receiver, their streams, and class.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t, std::size_t, std::uint8_t>,
           std::unique_ptr<Communicator>>
      pairs_;
  std::vector<std::vector<JobRef>> refs_;  ///< by rank and node, while jobs are emitted
  std::vector<RankResult> results_;
  std::size_t receive_streams_ = 0;            ///< index of the first stream of an eager exchange's receiver
  std::vector<std::size_t> exported_streams_;  ///< by Trace::streams: index among streams()
  std::uint64_t jobs_ = 0, finished_ = 0;
  Time end_;
};

}  // namespace railyard::workload::execution_trace
