// workload.kind: p2p: the tools that measure one path at a time, on the simulated machine. A run is a list of points,
// one after another on a quiet fabric; a point is a few flows, each a row of equal messages from one memory to another.
// Messages are copy jobs; work requests are posted by jobs of a host.
//
// matrix        CUDA's p2pBandwidthLatencyTest over every ordered pair: copies of a large buffer in one direction, in
//               both at once, and of 4 B. A copy costs its engine's start, then its bytes; the next copy begins when
//               they have landed. A copy within a GPU counts twice, because it is read and written there.
// h2d, d2h      nvbandwidth: copies between each GPU and its socket's memory, by its copy engine.
// ib_write_bw   perftest: every queue pair keeps tx_depth RDMA writes under way. One host thread posts them; each
//               takes the post time. A write is complete when its acknowledgement is back: one path latency after the
//               write landed.
// ib_write_lat  perftest: a ping-pong of writes; the latency is half a round.
// Sources: NVIDIA/cuda-samples p2pBandwidthLatencyTest.cu; linux-rdma/perftest.
#pragma once

#include <string>
#include <vector>

#include "workload/bench/point_to_point_spec.h"
#include "workload/jobs.h"

namespace railyard::workload::p2p {

/// What a point measures.
enum class Measure : std::uint8_t {
  unidirectional,
  bidirectional,
  latency,
  write_bandwidth,
  write_latency,
  host_to_device,
  device_to_host
};

struct Point {
  Measure measure = Measure::unidirectional;
  std::uint32_t from = 0, to = 0;  ///< places in the list of GPUs
  Bytes bytes = 0;                 ///< of a message
  std::uint64_t messages = 0;      ///< of all flows
  Time start, end;

  Time time() const { return end - start; }
  double messages_per_s() const { return static_cast<double>(messages) / time().seconds(); }
  bool within_a_gpu() const { return from == to && measure <= Measure::latency; }
  /// Payload over time; within a GPU read and written.
  double gb_per_s() const { return messages_per_s() * static_cast<double>(bytes) * (within_a_gpu() ? 2 : 1) * 1e-9; }
  /// Of a copy, or one way of a ping-pong.
  double latency_s() const { return time().seconds() / static_cast<double>(messages); }
};

/// Who moves bytes, by place in the list of GPUs.
struct Ends {
  std::vector<Rank*> gpus;   ///< with a stream for copies
  std::vector<Rank*> hosts;  ///< memory of the GPU's socket, with the streams of HostStream; sockets may repeat
  Time post;                 ///< one thread's time for one work request, from the NIC's datasheet
};

class PointToPoint : private JobClient, private JobNamer {
 public:
  /// Streams of a host: copies; the thread that posts writes; then as many as writes are under way, for their
  /// acknowledgements.
  enum HostStream : std::size_t { kCopies, kPosts, kFirstAcknowledgement };
  static std::size_t acknowledgements(const PointToPointSpec& spec) {
    return spec.test == Test::ib_write_bw ? std::size_t{spec.queue_pairs} * spec.tx_depth : 0;
  }

  PointToPoint(const PointToPointSpec& spec, const Ends& ends, Executor& executor);

  void start() { run_next(); }
  bool done() const { return finished_ == points_.size(); }
  /// All of them, those that are finished() first.
  const std::vector<Point>& points() const { return points_; }
  std::size_t finished() const { return finished_; }

 private:
  struct Flow {
    Rank* source = nullptr;
    Rank* destination = nullptr;
    Rank* poster = nullptr;       ///< whose thread posts the messages; null: nobody
    Time start;                   ///< of the engine that copies
    std::uint32_t messages = 0;   ///< in all
    std::uint32_t posted = 0;     ///< or being posted
    std::uint32_t completed = 0;  ///< its sender knows
  };
  void add_matrix();
  void add_sweep();
  void run_next();
  void add_host_copies();
  Time copy_start(std::uint32_t gpu) const;
  Flow& add_flow(Rank& source, Rank& destination);
  void add_copy(std::uint32_t from, std::uint32_t to);
  void add_writes(std::uint32_t from, std::uint32_t to);
  /// Posts what the flow's window allows.
  void pump(std::uint32_t flow);
  void send(std::uint32_t flow, std::uint32_t message, JobRef after);
  void complete(std::uint32_t flow);
  void finish();
  /// From a write's landing until its sender knows.
  Time acknowledgement(const Flow& flow) const;

  // A point as a row: Copy_From[i]_To[j], Both_From[i]_To[j], Latency_From[i]_To[j]: a pair of the matrix; H2D_GPU[i],
  // D2H_GPU[i]: a GPU and its host; Write_Bytes[b], WriteLatency_Bytes[b]: a size of an ib_write sweep. Its jobs, with
  // _Flow[f]_Message[m] behind: the message; before that, Post_ of a write; after that, Ack_.
  enum What : std::uint8_t { kPoint, kPost, kMessage, kAcknowledgement, kQuiet };
  struct Fields {
    std::uint32_t point : 20, flow : 12;
    std::uint32_t message : 29, what : 3;
  };
  JobLabel label(What what, std::uint32_t flow, std::uint32_t message) const;
  std::string point_name(const Point& point) const;
  std::string name(std::uint64_t arguments) const override;
  std::string task(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "test"; }
  Recorded recorded(std::uint64_t arguments) const override;

  void on_job_done(const Job& job) override;

  PointToPointSpec spec_;
  Ends ends_;
  Executor& executor_;
  transport::Fabric& fabric_;
  std::vector<Point> points_;
  std::size_t finished_ = 0;
  std::vector<Flow> flows_;  ///< of the point that runs
  std::uint32_t window_ = 1;
  std::uint64_t completed_ = 0;
};

}  // namespace railyard::workload::p2p
