// The streams of a timeline, the messages that leave memories, and the arrows between them.
//
// An arrow shows why a task or message began:
//   kernel or collective -> task   the task, on another stream of the GPU, waited and began when the kernel or
//                                  collective ended
//   transfer -> message            the transfer posted the message
//   message -> task                the message of a transfer landed, and then a task began at its destination: a
//                                  waiting task, or one that a scheduler put on an idle stream, for example the first
//                                  decode step of a request
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "probe/stream_tracer.h"
#include "probe/timeline_file.h"
#include "transport/fabric.h"

namespace railyard::probe {

class TimelineStreams final : public StreamTracer {
 public:
  /// `file` and `fabric` outlive this object. @pre the fabric has all its devices
  TimelineStreams(TimelineFile& file, const transport::Fabric& fabric, const std::vector<std::string>& class_names);
  TimelineStreams(const TimelineStreams&) = delete;
  TimelineStreams& operator=(const TimelineStreams&) = delete;

  void attach(gpu::Stream& stream, const std::string& name, TaskLabel job, TaskLabel work) override;
  /// Kernel `index` of the running task begins or runs. Kernels with a name are slices inside their task's.
  void on_kernel(const gpu::Stream& stream, const std::string& name, std::uint32_t index);
  void on_send(const transport::Message& message);
  void on_delivered(const transport::Message& message, Time now);
  void finish(Time end);

 private:
  using Arrow = std::uint64_t;  ///< 0: none
  struct Task {
    const std::string* device = nullptr;
    TraceTrack track;
    gpu::Activity activity = gpu::Activity::idle;
    std::string job, work;
    std::vector<TraceArgument> arguments;
    Time begun, ended;
    struct Kernel {
      std::uint32_t index;
      std::string name;
      Time begun;
    };
    std::vector<Kernel> kernels;
    Arrow led_by = 0;
    std::vector<Arrow> leads_to;
  };
  struct StreamProbe final : gpu::StreamListener {
    explicit StreamProbe(TimelineStreams& tracks) : owner(tracks) {}
    void on_activity(const gpu::Stream& stream, gpu::Activity activity) override;
    TimelineStreams& owner;
    std::string device;
    TraceTrack track;
    TaskLabel job_name, work_name;
    gpu::Activity before = gpu::Activity::idle;
    std::unique_ptr<Task> task;  ///< the running task
  };
  /// The latest landing of a transfer's message.
  struct Landing {
    Time at = Time::max();
    std::string device;
    TraceTrack track;
    Time begun;
  };

  static void describe(Task& task, const gpu::Task& front);
  void end(StreamProbe& stream, Time now);
  /// At a new instant, writes the tasks that ended at the previous one.
  void advance(Time now);
  const std::string& memory(transport::Window window) const;

  TimelineFile& file_;
  const transport::Fabric& fabric_;
  const std::vector<std::string> class_names_;
  std::unordered_map<transport::Window, std::string> memories_;                ///< devices by window
  std::map<std::pair<transport::Window, std::uint8_t>, Lanes> message_lanes_;  ///< by source and class
  std::deque<StreamProbe> streams_;
  std::unordered_map<const gpu::Stream*, StreamProbe*> probes_;
  StreamProbe* sending_ = nullptr;  ///< stream of the latest transfer
  Landing landing_;
  // At one instant, the begin of a task is reported before the end of the task it waited for:
  Time instant_;
  std::vector<Task*> released_;  ///< tasks that waited and began at this instant
  std::vector<std::unique_ptr<Task>> ended_;
  std::unordered_map<const transport::Message*, Arrow> arrows_;
  Arrow arrows_so_far_ = 0;
};

}  // namespace railyard::probe
