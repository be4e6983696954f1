#include "workload/bench/point_to_point.h"

#include <fmt/format.h>
#include <array>

#include "gpu/datasheet.h"
#include "workload/traffic.h"

namespace railyard::workload::p2p {

namespace {

/// The metric of each Measure for --why: the time of one message.
constexpr std::array<const char*, 9> kMetrics{"unidirectional_s", "bidirectional_s", "latency_s",
                                              "write_s",          "write_latency_s", "read_s",
                                              "read_latency_s",   "h2d_s",           "d2h_s"};

Measure measure_of(Test sweep) {
  if (is_rdma_read(sweep)) return is_rdma_bandwidth(sweep) ? Measure::read_bandwidth : Measure::read_latency;
  return is_rdma_bandwidth(sweep) ? Measure::write_bandwidth : Measure::write_latency;
}

}  // namespace

PointToPoint::PointToPoint(const PointToPointSpec& spec, const Ends& ends, Executor& executor)
    : spec_(spec), ends_(ends), executor_(executor), fabric_(executor.fabric()) {
  switch (spec_.test) {
    case Test::matrix: add_matrix(); break;
    case Test::h2d:
    case Test::d2h: add_host_copies(); break;
    case Test::ib_write_bw:
    case Test::ib_write_lat:
    case Test::ib_read_bw:
    case Test::ib_read_lat: add_sweep(); break;
  }
}

void PointToPoint::add_matrix() {
  const auto n = static_cast<std::uint32_t>(ends_.gpus.size());
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
  for (std::uint32_t gpu = 0; gpu < ends_.gpus.size(); ++gpu) {
    Point& point = points_.emplace_back();
    point.measure = spec_.test == Test::h2d ? Measure::host_to_device : Measure::device_to_host;
    point.from = point.to = gpu;
    point.bytes = spec_.sizes.front();
  }
}

void PointToPoint::add_sweep() {
  for (const Bytes bytes : spec_.sizes) {
    Point& point = points_.emplace_back();
    point.measure = measure_of(spec_.test);
    point.to = 1;
    point.bytes = bytes;
  }
}

Time PointToPoint::copy_start(std::uint32_t gpu) const {
  const gpu::GpuDatasheet::Copy& copy = ends_.gpus[gpu]->gpu->datasheet().copy;
  return Time::seconds((spec_.engine == transport::Engine::sm ? copy.kernel_us : copy.engine_us) * 1e-6);
}

PointToPoint::Flow& PointToPoint::add_flow(Rank& source, Rank& destination) {
  Flow& flow = flows_.emplace_back();
  flow.source = &source;
  flow.destination = &destination;
  flow.messages = spec_.iterations;
  return flow;
}

void PointToPoint::add_copy(std::uint32_t from, std::uint32_t to) {
  Flow& flow = add_flow(*ends_.gpus[from], *ends_.gpus[to]);
  flow.start = copy_start(from);
  const transport::Path path = fabric_.path(*flow.source->memory, *flow.destination->memory, 0, spec_.engine);
  if (path.chunk_start != Time()) flow.start += copy_start(to);
}

void PointToPoint::add_queue_pair(std::uint32_t from, std::uint32_t to) {
  const std::vector<Rank*>& memories = spec_.memory == Memory::host ? ends_.hosts : ends_.gpus;
  add_flow(*memories[from], *memories[to]).poster = ends_.hosts[from];
}

void PointToPoint::run_next() {
  Point& point = points_[finished_];
  point.start = fabric_.now();
  if (!point.within_a_gpu())
    executor_.measure(kMetrics[static_cast<std::size_t>(point.measure)], static_cast<std::uint32_t>(finished_));
  flows_.clear();
  completed_ = 0;
  switch (point.measure) {
    case Measure::unidirectional:
    case Measure::latency: add_copy(point.from, point.to); break;
    case Measure::bidirectional:
      add_copy(point.from, point.to);
      if (point.from != point.to) {
        add_copy(point.to, point.from);
      } else {  // each copy takes all of the memory's bandwidth: run in series
        flows_.back().messages *= 2;
      }
      break;
    case Measure::host_to_device:
      add_flow(*ends_.hosts[point.to], *ends_.gpus[point.to]).start = copy_start(point.to);
      break;
    case Measure::device_to_host:
      add_flow(*ends_.gpus[point.from], *ends_.hosts[point.from]).start = copy_start(point.from);
      break;
    case Measure::write_bandwidth:
    case Measure::read_bandwidth:
      for (std::uint32_t qp = 0; qp < spec_.queue_pairs; ++qp) add_queue_pair(point.from, point.to);
      break;
    case Measure::write_latency:
      add_queue_pair(point.from, point.to);
      add_queue_pair(point.to, point.from);
      break;
    case Measure::read_latency: add_queue_pair(point.from, point.to); break;
  }
  point.messages = 0;
  for (const Flow& flow : flows_) point.messages += flow.messages;
  if (point.measure == Measure::write_latency) {
    pump(0);
  } else {
    for (std::uint32_t f = 0; f < flows_.size(); ++f) pump(f);
  }
}

JobLabel PointToPoint::label(What what, std::uint32_t flow, std::uint32_t message) const {
  Fields fields{};
  fields.point = static_cast<std::uint32_t>(finished_);
  fields.flow = flow;
  fields.message = message;
  fields.what = what;
  return JobLabel::of(*this, fields);
}

void PointToPoint::pump(std::uint32_t f) {
  Flow& flow = flows_[f];
  if (flow.is_posting || flow.posted == flow.messages || flow.posted - flow.completed == spec_.in_flight()) return;
  const std::uint32_t message = flow.posted++;
  if (message >= spec_.in_flight()) executor_.passed(&flow, message);  // an earlier message has made place
  if (flow.poster == nullptr) {
    send(f, message);
  } else {
    flow.is_posting = true;
    Rank& host = *flow.poster;
    executor_.host(host, host.stream(kPosts), ends_.post, label(kPost, f, message), *this);
  }
}

void PointToPoint::send(std::uint32_t f, std::uint32_t message) {
  const Flow& flow = flows_[f];
  execution::Copy copy;
  copy.transfers = {{*flow.destination->memory, points_[finished_].bytes}};
  copy.traffic_class = number(TrafficClass::pp);
  copy.engine = spec_.engine;
  if (is_rdma_read(spec_.test)) copy.kind = transport::MessageKind::read;
  copy.queue_pair = f;
  copy.start = flow.start;
  executor_.copy(*flow.source, flow.source->stream(kCopies), std::move(copy), label(kMessage, f, message), *this);
}

Time PointToPoint::acknowledgement(const Flow& flow) const {
  Time time;
  const transport::Path path = fabric_.path(*flow.source->memory, *flow.destination->memory, number(TrafficClass::pp));
  for (const transport::Hop& hop : path.lanes.front().hops) time += hop.link().latency;
  return time;
}

void PointToPoint::on_job_done(const Job& job) {
  const auto fields = job.label().as<Fields>();
  if (fields.what == kQuiet) {
    run_next();
    return;
  }
  switch (fields.what) {
    case kPost:
      flows_[fields.flow].is_posting = false;
      send(fields.flow, fields.message);
      if (is_rdma_bandwidth(spec_.test)) pump(fields.flow);
      break;
    case kMessage:
      if (spec_.test == Test::ib_write_bw) {
        acknowledge(fields.flow, fields.message);
      } else {
        complete(fields.flow);
      }
      break;
    default: complete(fields.flow); break;
  }
}

void PointToPoint::acknowledge(std::uint32_t f, std::uint32_t message) {
  Rank& host = *flows_[f].poster;
  gpu::Stream& stream = host.stream(kFirstAcknowledgement + f * spec_.tx_depth + message % spec_.tx_depth);
  executor_.delay(host, stream, acknowledgement(flows_[f]), label(kAcknowledgement, f, message), *this);
}

void PointToPoint::complete(std::uint32_t f) {
  Flow& flow = flows_[f];
  executor_.reached(&flow, flow.completed++ + spec_.in_flight());
  if (++completed_ == points_[finished_].messages) {
    finish();
  } else {
    pump(points_[finished_].measure == Measure::write_latency ? 1 - f : f);
  }
}

std::string PointToPoint::point_name(const Point& point) const {
  switch (point.measure) {
    case Measure::unidirectional: return fmt::format("Copy_From[{}]_To[{}]", point.from, point.to);
    case Measure::bidirectional: return fmt::format("Both_From[{}]_To[{}]", point.from, point.to);
    case Measure::latency: return fmt::format("Latency_From[{}]_To[{}]", point.from, point.to);
    case Measure::host_to_device: return fmt::format("H2D_GPU[{}]", point.from);
    case Measure::device_to_host: return fmt::format("D2H_GPU[{}]", point.from);
    case Measure::write_bandwidth: return fmt::format("Write_Bytes[{}]", point.bytes);
    case Measure::write_latency: return fmt::format("WriteLatency_Bytes[{}]", point.bytes);
    case Measure::read_bandwidth: return fmt::format("Read_Bytes[{}]", point.bytes);
    case Measure::read_latency: break;
  }
  return fmt::format("ReadLatency_Bytes[{}]", point.bytes);
}

std::string PointToPoint::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  if (f.what == kQuiet) return "quiet";
  const std::string point = point_name(points_[f.point]);
  if (f.what == kPoint) return point;
  return fmt::format("{}{}_Flow[{}]_Message[{}]",
                     f.what == kPost      ? "Post_"
                     : f.what == kMessage ? ""
                                          : "Ack_",
                     point, std::uint32_t{f.flow}, std::uint32_t{f.message});
}

std::string PointToPoint::task(std::uint64_t arguments) const {
  static constexpr const char* kTasks[] = {"point", "post", "message", "ack", "quiet"};
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("{} {}", kTasks[f.what], std::uint32_t{f.message});
}

std::string PointToPoint::work(std::uint64_t arguments) const {
  return point_name(points_[JobLabel::fields_of<Fields>(arguments).point]);
}

Recorded PointToPoint::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).what == kPoint ? Recorded::stage : Recorded::never;
}

void PointToPoint::finish() {
  Point& point = points_[finished_];
  point.end = fabric_.now();
  if (!point.within_a_gpu())
    executor_.measured(kMetrics[static_cast<std::size_t>(point.measure)], static_cast<std::uint32_t>(finished_),
                       static_cast<std::uint32_t>(point.messages));
  JobRecord record;
  record.label = label(kPoint, 0, 0);
  record.rank = point.from;
  record.start = point.start;
  record.end = point.end;
  record.bytes = point.bytes;
  ++finished_;
  executor_.record(record);
  if (!done()) executor_.quiet(*ends_.gpus.front(), ends_.gpus.front()->stream(kCopies), label(kQuiet, 0, 0), *this);
}

}  // namespace railyard::workload::p2p
