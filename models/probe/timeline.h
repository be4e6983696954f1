// The room `probe` observes a run and changes nothing. Waveform writes what changes on wires as VCD (VcdWriter,
// GtkwaveSave). Timeline writes slices and counters as Chrome trace events: TimelineStreams, TimelineLinks,
// TimelineEngines, TimelineRequests. CriticalPath builds chains of Causes, and predicts a time without a cost. They
// listen to the fabric, GPUs, streams, jobs and requests; sc_main attaches them.
//
// The timeline of a run: listens to fabric, GPUs, streams, jobs and requests, and writes their activity as Chrome trace
// events (trace_events.h). It only listens: a run is the same with and without a timeline.
//
//   Timeline timeline({"out/timeline.json.gz", {"tp", "pp", "kv"}}, fabric);  // when every device is there
//   timeline.attach(gpu, "rank [0][3]");
//   timeline.attach(rank.compute, "prefill0.gpu3.stream.compute", job_name, work_name);
//   timeline.attach_link(gpu, gpu.pcie(), "GPU_P[0][3]_PCI tx", plx);
//   sc_start();
//   timeline.finish(fabric.now());
//
// Processes and their tracks:
//   requests                 lanes of requests with their phases; counters of requests and promised KV cache
//                            (timeline_requests.h)
//   engine [name]            counters of a serving engine: requests that run and wait, blocks of KV cache that they hold
//   jobs                     the jobs of jobs.csv, with a track for each kind of name and rank: "TP_AR_PP rank 0"
//   prefill0.gpu3 rank [0][3]  a GPU, with counters "SMs active" and "HBM GB/s", and "power W" (gpu/energy.h) if it is known
//     stream compute         a slice for each task of the stream; a transfer leaves its stream at once: its slice has
//                            no length
//     kv messages            messages from this memory, from posting to landing, by class; overlapping ones go to "kv
//                            messages 2"
//   why                      with --why: pieces of the longest chain of each metric (critical_path.h)
//   prefill0.plx0            a switch, NIC or root complex: bursts and counters of its links (timeline_links.h)
// Arrows lead from a cause to the task that waited for it (timeline_streams.h).
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "execution/job_record.h"
#include "gpu/gpu.h"
#include "probe/critical_path.h"
#include "probe/timeline_engines.h"
#include "probe/timeline_file.h"
#include "probe/timeline_links.h"
#include "probe/timeline_requests.h"
#include "probe/timeline_streams.h"
#include "probe/window_counter.h"
#include "transport/fabric.h"

namespace railyard::transport {
class Assembly;
}

namespace railyard::probe {

class Timeline final : public StreamTracer, public execution::JobSink, private transport::FabricListener {
 public:
  struct Config {
    std::string path;                      ///< of the .json.gz
    std::vector<std::string> class_names;  ///< by traffic class
    /// Few bars and values for a long time: longer windows of counters, also for SMs; longer gaps within bursts.
    bool large = false;
  };

  /// @throws std::system_error when the file cannot be created
  Timeline(const Config& config, transport::Assembly& fabric);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Before the run. Attached objects outlive the timeline or its run. Attach a GPU before its streams.
  void attach(gpu::Gpu& gpu, const std::string& label);
  void attach(gpu::Stream& stream, const std::string& name, TaskLabel job = {}, TaskLabel work = {}) override;
  /// A direction of a link, by the port that sends. @param home  the device in whose process it is shown
  void attach_link(const transport::Device& sender, PortId port, const std::string& name,
                   const transport::Device& home) {
    links_.attach(sender, port, name, home);
  }
  /// A serving engine; its number is that of engines attached before it.
  void attach_engine(const std::string& name) { engines_.attach(name); }
  workload::EngineListener& engines() { return engines_; }
  /// The listener for requests.
  workload::RequestListener& requests() { return requests_; }
  void on_job(const execution::JobRecord& record) override;

  /// After the run: adds the longest chain of a metric, on a track of its own.
  void add_path(const CriticalPath::Measure& measure);
  /// Ends all open slices at `end`; also for an interrupted run.
  /// @throws std::system_error if any part could not be written
  void finish(Time end);

 private:
  struct GpuProbe final : gpu::SmListener {
    GpuProbe(Timeline& timeline, std::uint32_t number, const gpu::GpuDatasheet& sheet);
    void on_sms(const gpu::SmState& state) override;
    void on_ctas(const gpu::Stream*, std::uint64_t) override {}
    void on_kernel(const gpu::Stream& stream, const gpu::KernelChain& chain, std::uint32_t index) override;
    void finish(Time end);
    Timeline& owner;
    const std::uint32_t process;
    std::uint32_t active_sms = 0;
    WindowCounter sms, hbm, power;  ///< sms: in a large run
    double hbm_gb_per_s = 0, watts = 0;
    Time sms_since, hbm_since, power_since;
  };

  void on_send(const transport::Message& message, Time) override { streams_.on_send(message); }
  void on_delivered(const transport::Message& message, Time now) override { streams_.on_delivered(message, now); }
  void on_start(const transport::Device& device, PortId port, const transport::Transaction& transaction, Time now,
                const transport::Crossing& crossing) override {
    links_.on_start(device, port, transaction, now, crossing);
  }
  void on_queue(const transport::Device& device, PortId port, Bytes queued, Time now) override {
    links_.on_queue(device, port, queued, now);
  }
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}
  void on_replay(const transport::Device& device, PortId port, std::uint8_t traffic_class,
                 const transport::PortCounters& added, Time from, Time until) override {
    links_.on_replay(device, port, traffic_class, added, from, until);
  }

  const transport::Fabric& fabric_;
  TimelineFile file_;
  TimelineRequests requests_;
  TimelineEngines engines_;
  const bool large_;
  const Time longest_window_;
  const std::uint32_t jobs_process_;
  std::map<std::pair<std::string, std::uint32_t>, Lanes> job_lanes_;  ///< by kind of name and rank
  std::deque<GpuProbe> gpus_;
  TimelineStreams streams_;
  TimelineLinks links_;
};

}  // namespace railyard::probe
