#include "probe/timeline.h"

#include <array>

#include "transport/endpoint.h"

namespace railyard::probe {

namespace {

constexpr std::array<const char*, 5> kActivityNames{"idle", "waiting", "kernel", "collective", "transfer"};

bool runs(gpu::Activity activity) { return activity != gpu::Activity::idle && activity != gpu::Activity::waiting; }

}  // namespace

Timeline::Timeline(const Config& config)
    : events_(config.path), class_names_(config.class_names), jobs_process_(events_.add_process("jobs")) {}

void Timeline::attach(transport::Fabric& fabric) {
  fabric_ = &fabric;
  for (const transport::Device* device : fabric.devices())
    if (const auto* endpoint = dynamic_cast<const transport::Endpoint*>(device))
      memories_[endpoint->window()] = endpoint->name();
  fabric.add_listener(*this);
}

void Timeline::attach(gpu::Gpu& gpu, const std::string& label) {
  gpu.sms().add_listener(gpus_.emplace_back(*this, process_of(gpu.name(), label)));
}

void Timeline::attach(gpu::Stream& stream, const std::string& name, TaskLabel job, TaskLabel work) {
  StreamProbe& probe = streams_.emplace_back(*this);
  const std::string::size_type end_of_device = name.find(".stream.");
  probe.device = name.substr(0, end_of_device);
  probe.track = events_.add_track(process_of(probe.device), "stream " + name.substr(end_of_device + 8));
  probe.job_name = std::move(job);
  probe.work_name = std::move(work);
  stream.add_listener(probe);
}

std::uint32_t Timeline::process_of(const std::string& device, const std::string& label) {
  const auto [found, is_new] = processes_.try_emplace(device, 0);
  if (is_new) found->second = events_.add_process(device, label);
  return found->second;
}

const std::string& Timeline::memory(transport::Window window) const {
  static const std::string kNone;
  const auto found = memories_.find(window);
  return found == memories_.end() ? kNone : found->second;
}

TraceTrack Timeline::place(Lanes& lanes, Time from, Time to) {
  for (Lanes::Lane& lane : lanes.lanes) {
    if (from < lane.end) continue;
    lane.end = to;
    return lane.track;
  }
  const std::size_t number = lanes.lanes.size() + 1;
  const std::string name = number == 1 ? lanes.name : lanes.name + " " + std::to_string(number);
  const TraceTrack track = events_.add_track(lanes.process, name);
  lanes.lanes.push_back({track, to});
  return track;
}

void Timeline::on_job(const workload::JobRecord& record) {
  const std::string name = record.name();
  const std::string pattern = name.substr(0, name.find('['));
  Lanes& lanes = job_lanes_[{pattern, record.rank}];
  if (lanes.lanes.empty()) {
    lanes.process = jobs_process_;
    lanes.name = pattern + " rank " + std::to_string(record.rank);
  }
  events_.transfer(place(lanes, record.start, record.end), record.kind_name(), name, record.start, record.end, record.bytes);
}

void Timeline::GpuProbe::on_sms(const gpu::SmState& state) {
  const Time now = owner.fabric_->now();
  if (state.active_sms != active_sms) owner.events_.counter(process, "SMs active", now, active_sms = state.active_sms);
  if (state.hbm_gb_per_s != hbm_gb_per_s) owner.events_.counter(process, "HBM GB/s", now, hbm_gb_per_s = state.hbm_gb_per_s);
}

void Timeline::StreamProbe::on_activity(const gpu::Stream& stream, gpu::Activity next) {
  const Time now = owner.fabric_->now();
  owner.end_task(*this, now);
  const bool waited = activity == gpu::Activity::waiting;
  activity = next;
  if (!runs(next)) return;
  begun = now;
  job = job_name ? job_name(*stream.front()) : kActivityNames[static_cast<std::size_t>(next)];
  work = work_name ? work_name(*stream.front()) : std::string();
  begun_by = waited && owner.landing_.at == now && owner.landing_.device == device ? owner.landing_.arrow : 0;
  if (next == gpu::Activity::transfer) owner.sending_ = this;
}

void Timeline::end_task(StreamProbe& stream, Time now) {
  if (!runs(stream.activity)) return;
  const char* kind = kActivityNames[static_cast<std::size_t>(stream.activity)];
  events_.slice(stream.track, kind, stream.job, stream.begun, now, stream.work.empty() ? "" : "work", stream.work);
  if (stream.begun_by != 0) events_.flow(TraceEvents::Flow::end, stream.track, stream.begun, stream.begun_by);
  for (const std::uint64_t arrow : stream.sent) events_.flow(TraceEvents::Flow::begin, stream.track, stream.begun, arrow);
  stream.sent.clear();
  if (sending_ == &stream) sending_ = nullptr;
}

void Timeline::on_send(const transport::Message& message, Time) {
  // A stream goes on once its transfer is posted, so what is sent while one runs is that transfer's.
  if (sending_ == nullptr || sending_->device != memory(message.source)) return;
  arrows_[&message] = ++arrows_so_far_;
  sending_->sent.push_back(arrows_so_far_);
}

void Timeline::on_delivered(const transport::Message& message, Time now) {
  Lanes& lanes = message_lanes_[{message.source, message.traffic_class}];
  if (lanes.lanes.empty()) {
    const std::string& source = memory(message.source);
    lanes.process = process_of(source);
    lanes.name = class_names_[message.traffic_class] + " messages";
  }
  const TraceTrack track = place(lanes, message.started, now);
  const std::string& to = transport::of_group(message.kind) ? lanes.name : memory(message.destination);
  const std::uint64_t bytes = message.bytes;
  events_.transfer(track, class_names_[message.traffic_class], to, message.started, now, bytes);
  const auto found = arrows_.find(&message);
  if (found == arrows_.end()) return;
  events_.flow(TraceEvents::Flow::step, track, message.started, found->second);
  landing_ = {now, memory(message.destination), found->second};
  arrows_.erase(found);
}

void Timeline::finish(Time end) {
  for (StreamProbe& stream : streams_) end_task(stream, end);
  events_.close();
}

}  // namespace railyard::probe
