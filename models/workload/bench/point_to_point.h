// workload.kind: p2p: tools that measure one path at a time, on the simulated machine. A run is a list of points;
// before each point all links are quiet. A point has a few flows; each flow is a sequence of equal messages from one
// memory to another. Messages are copy jobs. Host jobs post the work requests.
//
// matrix        CUDA's p2pBandwidthLatencyTest for every ordered pair: copies of a large buffer in one direction and
//               in both directions at once, and copies of 4 B. A copy takes its engine's start, then its bytes. Then
//               the next copy begins. A copy within a GPU counts twice: it is read and written in this memory. Through
//               host memory, a copy is two, one of either GPU's engine, and the second waits for the first.
// h2d, d2h      nvbandwidth: copies between each GPU and its socket's memory, by the GPU's copy engine.
// ib_write_bw   perftest: every queue pair keeps tx_depth RDMA writes in flight. One host thread posts them; each
//               takes the post time. A write is complete when its acknowledgement has returned: one path latency after
//               the write's arrival.
// ib_write_lat  perftest: a ping-pong of writes; the latency is half a round.
// ib_read_bw    perftest: every queue pair keeps outstanding_reads RDMA reads in flight. One host thread posts them, as
//               for ib_write_bw; no job runs on the other server. A read is complete when its last byte has arrived.
// ib_read_lat   perftest: one read after the other; the latency is the whole time of a read.
// Sources: NVIDIA/cuda-samples p2pBandwidthLatencyTest.cu; linux-rdma/perftest (rtt_factor of print_report_lat() in
// src/perftest_parameters.c: reads count whole, writes half).
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
  read_bandwidth,
  read_latency,
  host_to_device,
  device_to_host
};

struct Point {
  Measure measure = Measure::unidirectional;
  std::uint32_t from = 0, to = 0;  ///< indices in the list of GPUs
  Bytes bytes = 0;                 ///< size of a message
  std::uint64_t messages = 0;      ///< number of messages of all flows
  Time start, end;

  Time time() const { return end - start; }
  double messages_per_s() const { return static_cast<double>(messages) / time().seconds(); }
  bool within_a_gpu() const { return from == to && measure <= Measure::latency; }
  /// Payload divided by time; within a GPU, bytes are read and written, so they count twice.
  double gb_per_s() const { return messages_per_s() * static_cast<double>(bytes) * (within_a_gpu() ? 2 : 1) * 1e-9; }
  /// Latency of a copy or a read, or of one direction of a ping-pong.
  double latency_s() const { return time().seconds() / static_cast<double>(messages); }
};

/// Sources and destinations of messages, by index in the list of GPUs.
struct Ends {
  std::vector<Rank*> gpus;   ///< each has a stream for copies
  std::vector<Rank*> hosts;  ///< memory of the GPU's socket, with the streams of HostStream; several GPUs can share a
                             ///< socket
  Time post;                 ///< time of a thread to post one work request, from the NIC's datasheet
};

class PointToPoint final : private JobClient, private JobNamer {
 public:
  /// Streams of a host: copies; the thread that posts reads and writes; then one stream per write in flight, for the
  /// acknowledgements.
  enum HostStream : std::size_t { kCopies, kPosts, kFirstAcknowledgement };
  static std::size_t acknowledgements(const PointToPointSpec& spec) {
    return spec.test == Test::ib_write_bw ? std::size_t{spec.queue_pairs} * spec.tx_depth : 0;
  }

  PointToPoint(const PointToPointSpec& spec, const Ends& ends, Executor& executor);

  void start() { run_next(); }
  bool done() const { return finished_ == points_.size(); }
  /// All points; the first finished() of them are finished.
  const std::vector<Point>& points() const { return points_; }
  std::size_t finished() const { return finished_; }

 private:
  struct Flow {
    Rank* source = nullptr;
    Rank* destination = nullptr;
    Rank* poster = nullptr;       ///< rank whose thread posts the messages; null: none
    Time start;                   ///< start time of the copy engine
    std::uint32_t messages = 0;   ///< total number
    std::uint32_t posted = 0;     ///< posted, or being posted
    std::uint32_t completed = 0;  ///< acknowledged to the sender, or read
    bool is_posting = false;      ///< the thread is at work
  };
  void add_matrix();
  void add_sweep();
  void run_next();
  void add_host_copies();
  Time copy_start(std::uint32_t gpu) const;
  Flow& add_flow(Rank& source, Rank& destination);
  void add_copy(std::uint32_t from, std::uint32_t to);
  /// The messages of a queue pair, which the host of `from` posts: writes to `to`, or reads of its memory.
  void add_queue_pair(std::uint32_t from, std::uint32_t to);
  /// Posts the next message if the limit of messages in flight permits.
  void pump(std::uint32_t flow);
  void send(std::uint32_t flow, std::uint32_t message);
  /// A write has arrived: its acknowledgement returns.
  void acknowledge(std::uint32_t flow, std::uint32_t message);
  void complete(std::uint32_t flow);
  void finish();
  /// Time from a write's arrival to its acknowledgement at the sender.
  Time acknowledgement(const Flow& flow) const;

  // A point as a row: Copy_From[i]_To[j], Both_From[i]_To[j], Latency_From[i]_To[j]: a pair of the matrix; H2D_GPU[i],
  // D2H_GPU[i]: a GPU and its host; Write_Bytes[b], WriteLatency_Bytes[b], Read_Bytes[b], ReadLatency_Bytes[b]: a size
  // of an ib_write or ib_read sweep. Jobs of a point add _Flow[f]_Message[m]: the message; with Post_ in front, its post;
  // with Ack_, the acknowledgement of a write.
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
  HostWork host_work(std::uint64_t) const override { return HostWork::posts; }

  void on_job_done(const Job& job) override;

  PointToPointSpec spec_;
  Ends ends_;
  Executor& executor_;
  transport::Fabric& fabric_;
  std::vector<Point> points_;
  std::size_t finished_ = 0;
  std::vector<Flow> flows_;  ///< flows of the current point
  std::uint64_t completed_ = 0;
};

}  // namespace railyard::workload::p2p
