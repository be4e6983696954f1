#include "probe/timeline_streams.h"

#include <algorithm>
#include <array>

#include "execution/job.h"
#include "transport/device/endpoint.h"

namespace railyard::probe {

namespace {

using gpu::Activity;

constexpr std::array<const char*, 6> kActivityNames{"idle", "waiting", "kernel", "collective", "transfer", "host"};

bool runs(Activity activity) { return activity != Activity::idle && activity != Activity::waiting; }

}  // namespace

TimelineStreams::TimelineStreams(TimelineFile& file, const transport::Fabric& fabric,
                                 const std::vector<std::string>& class_names)
    : file_(file), fabric_(fabric), class_names_(class_names) {
  for (const transport::Device* device : fabric.devices())
    if (const auto* endpoint = dynamic_cast<const transport::Endpoint*>(device))
      memories_[endpoint->window()] = endpoint->name();
}

void TimelineStreams::attach(gpu::Stream& stream, const std::string& name, TaskLabel job, TaskLabel work) {
  StreamProbe& probe = streams_.emplace_back(*this);
  const std::string::size_type end_of_device = name.find(".stream.");
  probe.device = name.substr(0, end_of_device);
  probe.track = file_.events.add_track(file_.process(probe.device), "stream " + name.substr(end_of_device + 8));
  probe.job_name = std::move(job);
  probe.work_name = std::move(work);
  stream.add_listener(probe);
  probes_[&stream] = &probe;
}

void TimelineStreams::on_kernel(const gpu::Stream& stream, const std::string& name, std::uint32_t index) {
  const auto found = probes_.find(&stream);
  if (name.empty() || found == probes_.end() || found->second->task == nullptr) return;
  std::vector<Task::Kernel>& kernels = found->second->task->kernels;
  if (kernels.empty() || kernels.back().index != index) kernels.push_back({index, name, fabric_.now()});
}

const std::string& TimelineStreams::memory(transport::Window window) const {
  static const std::string kNone;
  const auto found = memories_.find(window);
  return found == memories_.end() ? kNone : found->second;
}

void TimelineStreams::StreamProbe::on_activity(const gpu::Stream& stream, Activity activity) {
  const Time now = owner.fabric_.now();
  owner.advance(now);
  if (task) owner.end(*this, now);
  const Activity last = std::exchange(before, activity);
  if (!runs(activity)) return;
  task = std::make_unique<Task>();
  task->device = &device;
  task->track = track;
  task->activity = activity;
  task->begun = now;
  task->job = job_name ? job_name(*stream.front()) : kActivityNames[static_cast<std::size_t>(activity)];
  if (work_name) task->work = work_name(*stream.front());
  describe(*task, *stream.front());
  const Landing& landing = owner.landing_;
  if (landing.at == now && (last == Activity::idle || (last == Activity::waiting && landing.device == device))) {
    task->led_by = ++owner.arrows_so_far_;
    owner.file_.events.flow(TraceEvents::Flow::begin, landing.track, landing.begun, task->led_by);
  } else if (last == Activity::waiting) {
    owner.released_.push_back(task.get());
  }
  if (activity == Activity::transfer) owner.sending_ = this;
}

void TimelineStreams::describe(Task& task, const gpu::Task& front) {
  if (!task.work.empty()) task.arguments.emplace_back("work", task.work);
  const auto* job = dynamic_cast<const execution::Job*>(&front);
  if (job == nullptr || job->collective() == nullptr) return;
  const collective::CollectiveSpec& spec = job->collective()->spec();
  task.arguments.emplace_back("operation", name_of(spec.operation));
  task.arguments.emplace_back("algorithm", name_of(spec.algorithm));
  task.arguments.emplace_back("protocol", name_of(spec.protocol));
  task.arguments.emplace_back("bytes", std::uint64_t{spec.bytes});
  task.arguments.emplace_back("ranks", std::uint64_t{job->collective()->size()});
}

void TimelineStreams::end(StreamProbe& stream, Time now) {
  Task& task = *stream.task;
  task.ended = now;
  if (task.activity != Activity::transfer) {
    const auto led = [&](const Task* other) { return *other->device == *task.device; };
    for (Task* other : released_) {
      if (!led(other)) continue;
      other->led_by = ++arrows_so_far_;
      task.leads_to.push_back(other->led_by);
    }
    released_.erase(std::remove_if(released_.begin(), released_.end(), led), released_.end());
  }
  ended_.push_back(std::move(stream.task));
  if (sending_ == &stream) sending_ = nullptr;
}

void TimelineStreams::advance(Time now) {
  if (now == instant_) return;
  instant_ = now;
  TraceEvents& events = file_.events;
  for (const std::unique_ptr<Task>& task : ended_) {
    const char* kind = kActivityNames[static_cast<std::size_t>(task->activity)];
    events.slice(task->track, kind, task->job, task->begun, task->ended, task->arguments);
    for (std::size_t k = 0; k < task->kernels.size(); ++k) {
      const bool is_last = k + 1 == task->kernels.size();
      events.slice(task->track, "single kernel", task->kernels[k].name, task->kernels[k].begun,
                   is_last ? task->ended : task->kernels[k + 1].begun, {});
    }
    if (task->led_by != 0) events.flow(TraceEvents::Flow::end, task->track, task->begun, task->led_by);
    for (const Arrow arrow : task->leads_to) events.flow(TraceEvents::Flow::begin, task->track, task->begun, arrow);
  }
  ended_.clear();
  released_.clear();
}

void TimelineStreams::on_send(const transport::Message& message) {
  // A stream continues after posting its transfer, so a message sent while a transfer task runs belongs to this
  // transfer.
  if (sending_ == nullptr || sending_->device != memory(message.source)) return;
  arrows_[&message] = ++arrows_so_far_;
  sending_->task->leads_to.push_back(arrows_so_far_);
}

void TimelineStreams::on_delivered(const transport::Message& message, Time now) {
  advance(now);  // both ends of an arrow are written in order: at equal times, viewers use the order in the file
  Lanes& lanes = message_lanes_[{message.source, message.traffic_class}];
  const std::string& name = class_names_[message.traffic_class];
  if (!lanes.made()) lanes = Lanes(file_.process(memory(message.source)), name + " messages");
  const TraceTrack track = lanes.place(file_.events, message.started, now);
  const std::string& to = transport::of_group(message.kind) ? lanes.name() : memory(message.destination);
  file_.events.slice(track, name, to, message.started, now, {{"bytes", message.bytes}});
  const auto found = arrows_.find(&message);
  if (found == arrows_.end()) return;
  file_.events.flow(TraceEvents::Flow::end, track, message.started, found->second);
  landing_ = {now, memory(message.to()), track, message.started};
  arrows_.erase(found);
}

void TimelineStreams::finish(Time end_of_run) {
  advance(end_of_run);
  for (StreamProbe& stream : streams_)
    if (stream.task) end(stream, end_of_run);
  advance(Time::max());
}

}  // namespace railyard::probe
