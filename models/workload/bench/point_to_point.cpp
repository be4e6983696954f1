#include "workload/bench/point_to_point.h"

#include <fmt/format.h>

#include "workload/traffic.h"

namespace railyard::workload::p2p {

namespace {

constexpr std::uint32_t kPostedTag = 0;
constexpr std::uint32_t kCompleteTag = 1;

}  // namespace

PointToPoint::PointToPoint(const PointToPointSpec& spec, const std::vector<gpu::Gpu*>& gpus, const Hosts& host,
                           Executor& executor)
    : spec_(spec), gpus_(gpus), host_(host), executor_(executor), fabric_(executor.fabric()), quiet_(fabric_, *this) {
  switch (spec_.test) {
    case Test::matrix: add_matrix(); break;
    case Test::h2d:
    case Test::d2h: add_host_copies(); break;
    case Test::ib_write_bw:
    case Test::ib_write_lat: add_sweep(); break;
  }
}

void PointToPoint::add_matrix() {
  const auto n = static_cast<std::uint32_t>(gpus_.size());
  for (const Measure measure : {Measure::unidirectional, Measure::bidirectional, Measure::latency}) {
    for (std::uint32_t from = 0; from < n; ++from) {
      for (std::uint32_t to = 0; to < n; ++to) {
        Point& point = points_.emplace_back();
        point.measure = measure;
        point.from = from;
        point.to = to;
        point.bytes = spec_.sizes[measure == Measure::latency ? 1 : 0];
      }
    }
  }
}

void PointToPoint::add_host_copies() {
  for (std::uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    Point& point = points_.emplace_back();
    point.measure = spec_.test == Test::h2d ? Measure::host_to_device : Measure::device_to_host;
    point.from = point.to = gpu;
    point.bytes = spec_.sizes.front();
  }
}

void PointToPoint::add_sweep() {
  for (const Bytes bytes : spec_.sizes) {
    Point& point = points_.emplace_back();
    point.measure = spec_.test == Test::ib_write_bw ? Measure::write_bandwidth : Measure::write_latency;
    point.to = 1;
    point.bytes = bytes;
  }
}

Time PointToPoint::copy_start(std::uint32_t gpu) const {
  const gpu::GpuDatasheet::Copy& copy = gpus_[gpu]->datasheet().copy;
  return Time::seconds((spec_.engine == transport::Engine::sm ? copy.kernel_us : copy.engine_us) * 1e-6);
}

void PointToPoint::add_copy(std::uint32_t from, std::uint32_t to, std::uint32_t stream) {
  add_flow(gpus_[from]->window(), gpus_[to]->window(), stream, stream, copy_start(from));
}

void PointToPoint::add_writes(std::uint32_t from, std::uint32_t to, std::uint32_t queue_pair, std::uint32_t thread) {
  const auto memory = [&](std::uint32_t place) {
    return spec_.memory == Memory::host ? host_.memories[place] : gpus_[place]->window();
  };
  add_flow(memory(from), memory(to), queue_pair, thread, host_.post);
}

void PointToPoint::add_flow(transport::Window source, transport::Window destination, std::uint32_t channel,
                            std::uint32_t poster, Time cost) {
  Flow& flow = flows_.emplace_back();
  flow.source = source;
  flow.destination = destination;
  flow.channel = channel;
  flow.poster = poster;
  flow.cost = cost;
  flow.left = spec_.iterations;
}

void PointToPoint::run_next() {
  Point& point = points_[finished_];
  point.start = fabric_.now();
  flows_.clear();
  completed_ = 0;
  window_ = 1;
  switch (point.measure) {
    case Measure::unidirectional:
    case Measure::latency: add_copy(point.from, point.to, 0); break;
    case Measure::bidirectional:
      add_copy(point.from, point.to, 0);
      if (point.from != point.to) {
        add_copy(point.to, point.from, 1);
      } else {  // each takes all of the memory's bandwidth: one after the other
        flows_.back().left *= 2;
      }
      break;
    case Measure::host_to_device:
      add_flow(host_.memories[point.to], gpus_[point.to]->window(), 0, 0, copy_start(point.to));
      break;
    case Measure::device_to_host:
      add_flow(gpus_[point.from]->window(), host_.memories[point.from], 0, 0, copy_start(point.from));
      break;
    case Measure::write_bandwidth:
      window_ = spec_.tx_depth;
      for (std::uint32_t qp = 0; qp < spec_.queue_pairs; ++qp) add_writes(point.from, point.to, qp, 0);
      break;
    case Measure::write_latency:
      add_writes(point.from, point.to, 0, 0);
      add_writes(point.to, point.from, 0, 1);
      break;
  }
  point.messages = 0;
  for (const Flow& flow : flows_) point.messages += flow.left;
  poster_free_.assign(flows_.size(), fabric_.now());
  if (point.measure == Measure::write_latency) {
    pump(0);
  } else {
    for (std::uint32_t f = 0; f < flows_.size(); ++f) pump(f);
  }
}

void PointToPoint::pump(std::uint32_t f) {
  Flow& flow = flows_[f];
  if (flow.left == 0 || flow.under_way == window_) return;
  --flow.left;
  ++flow.under_way;
  Time& free = poster_free_[flow.poster];
  free = later(free, fabric_.now()) + flow.cost;
  fabric_.calendar().at(free, *this, kPostedTag, f);
}

void PointToPoint::send(std::uint32_t f) {
  const Flow& flow = flows_[f];
  transport::Message message;
  message.source = flow.source;
  message.destination = flow.destination;
  message.bytes = points_[finished_].bytes;
  message.traffic_class = number(TrafficClass::pp);
  message.channel = flow.channel;
  message.engine = spec_.engine;
  message.client = this;
  message.cookie = f;
  ++sent_;
  fabric_.send(message);
}

Time PointToPoint::acknowledgement(const Flow& flow) const {
  Time time;
  const transport::Path path = fabric_.path(flow.source, flow.destination, number(TrafficClass::pp));
  for (const transport::Hop& hop : path.lanes.front().hops) time += hop.link().latency;
  return time;
}

void PointToPoint::on_delivered(transport::Message& message) {
  const auto f = static_cast<std::uint32_t>(message.cookie);
  if (points_[finished_].measure == Measure::write_bandwidth) {
    fabric_.calendar().at(fabric_.now() + acknowledgement(flows_[f]), *this, kCompleteTag, f);
  } else {
    complete(f);
  }
}

void PointToPoint::on_event(std::uint32_t tag, std::uint64_t data) {
  const auto f = static_cast<std::uint32_t>(data);
  if (tag == kCompleteTag) {
    complete(f);
    return;
  }
  send(f);
  if (points_[finished_].measure == Measure::write_bandwidth) pump(f);
}

void PointToPoint::complete(std::uint32_t f) {
  --flows_[f].under_way;
  if (++completed_ == points_[finished_].messages) {
    finish();
  } else {
    pump(points_[finished_].measure == Measure::write_latency ? 1 - f : f);
  }
}

std::string PointToPoint::name(std::uint64_t number) const {
  const Point& point = points_[number];
  switch (point.measure) {
    case Measure::unidirectional: return fmt::format("Copy_From[{}]_To[{}]", point.from, point.to);
    case Measure::bidirectional: return fmt::format("Both_From[{}]_To[{}]", point.from, point.to);
    case Measure::latency: return fmt::format("Latency_From[{}]_To[{}]", point.from, point.to);
    case Measure::host_to_device: return fmt::format("H2D_GPU[{}]", point.from);
    case Measure::device_to_host: return fmt::format("D2H_GPU[{}]", point.from);
    case Measure::write_bandwidth: return fmt::format("Write_Bytes[{}]", point.bytes);
    case Measure::write_latency: break;
  }
  return fmt::format("WriteLatency_Bytes[{}]", point.bytes);
}

void PointToPoint::finish() {
  const std::size_t number = finished_++;
  Point& point = points_[number];
  point.end = fabric_.now();
  JobRecord record;
  record.label = {this, number};
  record.rank = point.from;
  record.start = point.start;
  record.end = point.end;
  record.bytes = point.bytes;
  executor_.record(record);
  if (!done()) quiet_.wait();
}

}  // namespace railyard::workload::p2p
