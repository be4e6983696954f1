// The timeline of a run: listens to fabric, GPUs, streams and jobs and writes what they did as Chrome trace events
// (trace_events.h). It decides nothing and schedules nothing: a run is the same with and without.
//
//   Timeline timeline({"out/timeline.json.gz", {"tp", "pp", "kv"}});
//   timeline.attach(fabric);                               // first, when every device is there
//   timeline.attach(gpu, "rank [0][3]");
//   timeline.attach(rank.compute, "prefill0.gpu3.stream.compute", job_name, work_name);
//   sc_start();
//   timeline.finish(fabric.now());
//
// Processes and their tracks:
//   jobs                  what jobs.csv has, a track for each kind of name and rank: "TP_AR_PP rank 0"
//   prefill0.gpu3         a GPU, with counters "SMs active" and "HBM GB/s"
//     stream compute      a slice for each task of the stream; a transfer leaves its stream at once: its slice has no length
//     kv messages         messages that leave this memory, posted to landed, by class; overlapping ones go to "kv messages 2"
//   prefill0.host0.memory another memory that messages leave
// Arrows lead from the slice of a transfer to its messages, and from a message to the task that stood waiting at its
// destination and began when it had landed.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/gpu.h"
#include "probe/stream_tracer.h"
#include "probe/trace_events.h"
#include "transport/fabric.h"
#include "workload/job_record.h"

namespace railyard::probe {

class Timeline final : public StreamTracer, public workload::JobSink, private transport::FabricListener {
 public:
  struct Config {
    std::string path;                      ///< of the .json.gz
    std::vector<std::string> class_names;  ///< by traffic class
  };

  /// @throws std::runtime_error when the file cannot be created
  explicit Timeline(const Config& config);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Before the run; what is attached outlives the timeline or its run. A stream comes after its GPU.
  void attach(transport::Fabric& fabric);
  void attach(gpu::Gpu& gpu, const std::string& label);
  void attach(gpu::Stream& stream, const std::string& name, TaskLabel job = {}, TaskLabel work = {}) override;
  void on_job(const workload::JobRecord& record) override;

  /// Ends what is still running at `end`, also where the run was cut short.
  /// @throws std::runtime_error when any part could not be written
  void finish(Time end);

 private:
  /// Tracks of one name, as many as it takes that no two slices of one overlap.
  struct Lanes {
    struct Lane {
      TraceTrack track;
      Time end;
    };
    std::uint32_t process = 0;
    std::string name;
    std::vector<Lane> lanes;
  };
  struct GpuProbe : gpu::SmListener {
    GpuProbe(Timeline& timeline, std::uint32_t number) : owner(timeline), process(number) {}
    void on_sms(const gpu::SmState& state) override;
    void on_ctas(const gpu::Stream*, std::uint64_t) override {}
    Timeline& owner;
    const std::uint32_t process;
    std::uint32_t active_sms = 0;
    double hbm_gb_per_s = 0;
  };
  struct StreamProbe : gpu::StreamListener {
    explicit StreamProbe(Timeline& timeline) : owner(timeline) {}
    void on_activity(const gpu::Stream& stream, gpu::Activity activity) override;
    Timeline& owner;
    std::string device;
    TraceTrack track;
    TaskLabel job_name, work_name;
    gpu::Activity activity = gpu::Activity::idle;
    Time begun;
    std::string job, work;               ///< of the task that runs
    std::uint64_t begun_by = 0;          ///< the arrow of the message that it waited for; 0: of none
    std::vector<std::uint64_t> sent;     ///< arrows of the messages of a transfer
  };
  /// A message that has landed, while its client is told.
  struct Landing {
    Time at = Time::max();
    std::string device;
    std::uint64_t arrow = 0;
  };

  void on_send(const transport::Message& message, Time now) override;
  void on_delivered(const transport::Message& message, Time now) override;
  void on_start(const transport::Device&, PortId, const transport::Transaction&, Time, const transport::Crossing&) override {}
  void on_queue(const transport::Device&, PortId, Bytes, Time) override {}
  void on_credit(const transport::Device&, PortId, std::uint8_t, Bytes, Time, Time) override {}

  void end_task(StreamProbe& stream, Time now);
  TraceTrack place(Lanes& lanes, Time from, Time to);
  std::uint32_t process_of(const std::string& device, const std::string& label = {});
  const std::string& memory(transport::Window window) const;

  TraceEvents events_;
  const std::vector<std::string> class_names_;
  const std::uint32_t jobs_process_;
  const transport::Fabric* fabric_ = nullptr;
  std::unordered_map<transport::Window, std::string> memories_;  ///< devices by window
  std::unordered_map<std::string, std::uint32_t> processes_;     ///< by device
  std::map<std::pair<std::string, std::uint32_t>, Lanes> job_lanes_;                   ///< by kind of name and rank
  std::map<std::pair<transport::Window, std::uint8_t>, Lanes> message_lanes_;          ///< by source and class
  std::deque<GpuProbe> gpus_;
  std::deque<StreamProbe> streams_;
  StreamProbe* sending_ = nullptr;  ///< began a transfer last
  Landing landing_;
  std::unordered_map<const transport::Message*, std::uint64_t> arrows_;
  std::uint64_t arrows_so_far_ = 0;
};

}  // namespace railyard::probe
