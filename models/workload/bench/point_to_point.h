// workload.kind: p2p: the tools that measure one path at a time, on the simulated machine. A run is a list of points,
// one after another on a quiet fabric; a point is a few flows, each a row of equal messages from one GPU's memory to
// another's.
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
#include "workload/quiet.h"

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

/// The hosts of the GPUs.
struct Hosts {
  std::vector<transport::Window> memories;  ///< of each GPU's socket, by place in the list
  Time post;                                ///< one thread's time for one work request, from the NIC's datasheet
};

class PointToPoint : private transport::MessageClient,
                     private transport::CalendarClient,
                     private JobNamer,
                     private QuietClient {
 public:
  PointToPoint(const PointToPointSpec& spec, const std::vector<gpu::Gpu*>& gpus, const Hosts& host, Executor& executor);

  void start() { run_next(); }
  bool done() const { return finished_ == points_.size(); }
  /// All of them, those that are finished() first.
  const std::vector<Point>& points() const { return points_; }
  std::size_t finished() const { return finished_; }
  std::uint64_t messages() const { return sent_; }

 private:
  struct Flow {
    transport::Window source = 0, destination = 0;
    Time cost;                    ///< of posting one message
    std::uint32_t channel = 0;    ///< queue pair
    std::uint32_t poster = 0;     ///< who posts, one message at a time
    std::uint32_t left = 0;       ///< not posted yet
    std::uint32_t under_way = 0;  ///< posting or posted, not complete
  };
  void add_matrix();
  void add_sweep();
  void run_next();
  void add_host_copies();
  Time copy_start(std::uint32_t gpu) const;
  void add_copy(std::uint32_t from, std::uint32_t to, std::uint32_t stream);
  void add_writes(std::uint32_t from, std::uint32_t to, std::uint32_t queue_pair, std::uint32_t thread);
  void add_flow(transport::Window source, transport::Window destination, std::uint32_t channel, std::uint32_t poster,
                Time cost);
  /// Posts what the flow's window allows.
  void pump(std::uint32_t flow);
  void send(std::uint32_t flow);
  void complete(std::uint32_t flow);
  void finish();
  bool writes() const { return spec_.test == Test::ib_write_bw || spec_.test == Test::ib_write_lat; }
  /// From a write's landing until its sender knows.
  Time acknowledgement(const Flow& flow) const;

  // A point as a row: Copy_From[i]_To[j], Both_From[i]_To[j], Latency_From[i]_To[j]: a pair of the matrix; H2D_GPU[i],
  // D2H_GPU[i]: a GPU and its host; Write_Bytes[b], WriteLatency_Bytes[b]: a size of an ib_write sweep. Labels: the point.
  std::string name(std::uint64_t point) const override;
  const char* kind(std::uint64_t) const override { return "test"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  void on_delivered(transport::Message& message) override;
  std::string name_of(const transport::Message&) const override { return name(finished_); }
  void on_event(std::uint32_t tag, std::uint64_t flow) override;
  void on_quiet() override { run_next(); }

  PointToPointSpec spec_;
  std::vector<gpu::Gpu*> gpus_;
  Hosts host_;
  Executor& executor_;
  transport::Fabric& fabric_;
  QuietWaiter quiet_;
  std::vector<Point> points_;
  std::size_t finished_ = 0;
  std::vector<Flow> flows_;  ///< of the point that runs
  std::vector<Time> poster_free_;
  std::uint32_t window_ = 1;
  std::uint64_t completed_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace railyard::workload::p2p
