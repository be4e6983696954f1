#include "probe/waveform.h"

#include <algorithm>
#include <stdexcept>

#include "gpu/datasheet.h"
#include "infiniband/ib_switch.h"
#include "infiniband/nic.h"
#include "nvlink/nvlink.h"
#include "transport/assembly.h"

namespace railyard::probe {
namespace {

using transport::Device;

constexpr unsigned kByteBits = 48;  // 281 TB
constexpr unsigned kTransactionBits = 48;
constexpr unsigned kActivityBits = 3;
constexpr unsigned kCtaBits = 20;
constexpr unsigned kRequestBits = 32;
constexpr unsigned kBlockBits = 32;

template <class Kind>
bool is(const Device& device) {
  return dynamic_cast<const Kind*>(&device) != nullptr;
}

/// Links of NICs and links between two switches: many GPUs share these links.
bool is_shared(const Device& from, const Device& to) {
  return is<infiniband::Nic>(from) || is<infiniband::Nic>(to) ||
         (is<transport::Switch>(from) && is<transport::Switch>(to));
}

/// Only PCIe and socket links carry read responses.
bool carries_responses(const Device& from, const Device& to) {
  const auto writes_only = [](const Device& d) { return is<nvlink::NvSwitch>(d) || is<infiniband::IbSwitch>(d); };
  return !writes_only(from) && !writes_only(to);
}

unsigned bits_for(std::uint64_t most) {
  unsigned bits = 1;
  while (most >> bits != 0) ++bits;
  return bits;
}

std::string with_suffix(const std::string& vcd_path, const std::string& suffix) {
  const std::string::size_type dot = vcd_path.rfind(".vcd");
  return (dot == std::string::npos ? vcd_path : vcd_path.substr(0, dot)) + suffix;
}

}  // namespace

Waveform::Waveform(const Config& config)
    : level_(config.level),
      class_names_(config.class_names),
      view_path_(with_suffix(config.path, ".gtkw")),
      states_path_(with_suffix(config.path, ".states.txt")),
      opens_(config.opens.empty() ? config.path.substr(config.path.rfind('/') + 1) : config.opens),
      from_(config.window.from),
      to_(config.window.to),
      vcd_(config.path, config.window),
      ports_(1) {
  for (const std::string& name : class_names_) read_names_.push_back(name + ":read");
}

void Waveform::attach(transport::Assembly& fabric) {
  calendar_ = &fabric.calendar();
  for (Device* device : fabric.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p)
      if (device->port(PortId(p)).peer != nullptr) attach(*device, PortId(p));
  fabric.follow_ports(from_, to_);
  fabric.add_listener(*this);
}

void Waveform::attach(Device& device, PortId id) {
  Device::Port& port = device.port(id);
  PortProbe probe;
  probe.device = &device;
  probe.port = &port;
  probe.shared = is_shared(device, *port.peer);
  if (level_ == Level::summary && !probe.shared) return;
  const std::string name = std::string(device.name()) + "." + port.name + ".tx.";
  probe.busy = vcd_.add_wire(name + "busy", 1);
  if (level_ != Level::summary) {
    probe.queue = vcd_.add_wire(name + "queue_bytes", kByteBits);
    probe.in_flight = vcd_.add_wire(name + "bytes_in_flight", kByteBits);
  }
  if (level_ == Level::all) {
    probe.traffic_class = vcd_.add_string(name + "class");
    probe.transactions = vcd_.add_wire(name + "transactions", kTransactionBits);
    attach_credit(probe, name);
  }
  port.listener_mark = static_cast<std::uint32_t>(ports_.size());
  ports_.push_back(std::move(probe));
}

void Waveform::attach_credit(PortProbe& probe, const std::string& name) {
  const transport::LinkDirection& link = probe.port->egress.link();
  if (link.buffer_bytes == 0) return;  // an unlimited buffer has no credits
  std::array<bool, transport::kVirtualChannels> used{};
  const bool reads = carries_responses(*probe.device, *probe.port->peer);
  const transport::VcPlan& plan = probe.device->context().plan;
  for (std::size_t c = 0; c < class_names_.size(); ++c) {
    if (class_names_[c].empty()) continue;
    used[plan.vc_of[c]] = true;
    if (reads && !link.sinks_responses) used[plan.response_vc_of(c)] = true;
  }
  used[transport::kRequestVc] = reads && link.packet.credit_unit_bytes == 0;  // PCIe's take headers only
  for (std::size_t vc = 0; vc < used.size(); ++vc)
    if (used[vc])
      probe.outstanding[vc] = vcd_.add_wire(name + "vc" + std::to_string(vc) + ".outstanding_bytes", kByteBits);
}

void Waveform::attach(gpu::Gpu& gpu) {
  if (calendar_ == nullptr) throw std::logic_error("waveform: a GPU attached before the fabric");
  GpuProbe& probe = gpus_.emplace_back(*this);
  const std::string name = gpu.name();
  probe.gpu = &gpu;
  probe.active = vcd_.add_wire(name + ".sm.active", bits_for(gpu.sms().count()));
  if (level_ != Level::summary) {
    probe.clock = vcd_.add_real(name + ".sm.clock_mhz");
    if (gpu.datasheet().energy.is_known()) probe.power = vcd_.add_real(name + ".power_w");
    probe.used = vcd_.add_wire(name + ".hbm.used_bytes", kByteBits);
    probe.hbm = vcd_.add_real(name + ".hbm.gb_per_s");
    probe.l2 = vcd_.add_real(name + ".l2.gb_per_s");
    for (const std::string& c : class_names_)
      probe.outbound.push_back(c.empty() ? Signal() : vcd_.add_wire(name + ".outbound." + c + "_bytes", kByteBits));
    if (gpu.window() >= gpu_of_window_.size()) gpu_of_window_.resize(gpu.window() + 1, nullptr);
    gpu_of_window_[gpu.window()] = &probe;
  }
  gpu.sms().add_listener(probe);
}

void Waveform::attach(gpu::Stream& stream, const std::string& name, TaskLabel job, TaskLabel work) {
  if (calendar_ == nullptr) throw std::logic_error("waveform: a stream attached before the fabric");
  StreamProbe& probe = streams_.emplace_back(*this);
  probe.name = name;
  probe.state = vcd_.add_wire(name + ".state", kActivityBits);
  probe.ctas = vcd_.add_wire(name + ".ctas", kCtaBits);
  stream_probes_[&stream] = &probe;
  if (work) probe.work = vcd_.add_string(name + ".work");
  if (job) probe.job = vcd_.add_string(name + ".job");
  probe.job_name = std::move(job);
  probe.work_name = std::move(work);
  stream.add_listener(probe);
}

void Waveform::attach_engine(const std::string& name) {
  const std::string start = "engine." + name;
  engines_.push_back({name, vcd_.add_wire(start + ".running", kRequestBits),
                      vcd_.add_wire(start + ".waiting", kRequestBits),
                      vcd_.add_wire(start + ".kv_blocks", kBlockBits)});
}

void Waveform::on_load(std::size_t engine, const workload::EngineLoad& load, Time now) {
  const EngineProbe& probe = engines_[engine];
  advance(now);
  vcd_.change(probe.running, now, load.running);
  vcd_.change(probe.waiting, now, load.waiting);
  vcd_.change(probe.blocks, now, load.blocks);
}

void Waveform::start() {
  if (calendar_ == nullptr) throw std::logic_error("waveform: started without a fabric");
  vcd_.start();
  for (GpuProbe& probe : gpus_) {
    if (probe.power.valid()) vcd_.change_real(probe.power, now(), probe.gpu->datasheet().energy.idle_w);
    if (!probe.used.valid()) continue;
    probe.on_used(probe.gpu->hbm().used());
    probe.gpu->hbm().add_listener(probe);
  }
  write_view(from_);
}

void Waveform::finish(Time end) {
  advance(end);
  vcd_.finish(end);
  write_view(sooner(end, to_));
}

void Waveform::GpuProbe::on_sms(const gpu::SmState& s) {
  const Time now = owner.now();
  owner.advance(now);
  owner.vcd_.change(active, now, s.active_sms);
  if (!clock.valid()) return;
  owner.vcd_.change_real(clock, now, s.clock_ratio * gpu->datasheet().sm.clock_mhz);
  if (power.valid()) owner.vcd_.change_real(power, now, s.watts);
  owner.vcd_.change_real(hbm, now, s.hbm_gb_per_s);
  owner.vcd_.change_real(l2, now, s.l2_gb_per_s);
}

void Waveform::GpuProbe::on_used(Bytes bytes) {
  const Time now = owner.now();
  owner.advance(now);
  owner.vcd_.change(used, now, bytes);
}

void Waveform::GpuProbe::on_ctas(const gpu::Stream* stream, std::uint64_t ctas) {
  const auto found = owner.stream_probes_.find(stream);
  if (found == owner.stream_probes_.end()) return;
  const Time now = owner.now();
  owner.advance(now);
  owner.vcd_.change(found->second->ctas, now, ctas);
}

void Waveform::StreamProbe::on_activity(const gpu::Stream& stream, gpu::Activity activity) {
  const Time now = owner.now();
  owner.advance(now);
  owner.vcd_.change(state, now, static_cast<std::uint64_t>(activity));
  const bool running = activity != gpu::Activity::idle && activity != gpu::Activity::waiting;
  if (job.valid()) owner.vcd_.change_string(job, now, running ? job_name(*stream.front()) : std::string());
  if (work.valid()) owner.vcd_.change_string(work, now, running ? work_name(*stream.front()) : std::string());
}

void Waveform::add_outbound(const transport::Message& message, std::int64_t bytes, Time now) {
  if (message.source >= gpu_of_window_.size() || message.traffic_class >= class_names_.size()) return;
  const GpuProbe* gpu = gpu_of_window_[message.source];
  if (gpu == nullptr) return;
  advance(now);
  vcd_.add(gpu->outbound[message.traffic_class], now, bytes);
}

void Waveform::on_send(const transport::Message& message, Time now) {
  add_outbound(message, static_cast<std::int64_t>(message.bytes), now);
}

void Waveform::on_delivered(const transport::Message& message, Time now) {
  add_outbound(message, -static_cast<std::int64_t>(message.bytes), now);
}

void Waveform::on_queue(const Device& device, PortId port, Bytes queued, Time now) {
  advance(now);
  note_queue(probe(device, port), queued);
}

void Waveform::on_start(const Device& device, PortId port, const transport::Transaction& t, Time now,
                        const transport::Crossing& crossing) {
  PortProbe& p = probe(device, port);
  if (p.port == nullptr) return;
  advance(now);
  const Time free = p.port->egress.free();  // includes charges of all priorities
  vcd_.busy_until(p.busy, free);
  if (p.in_flight.valid() && t.carried_bytes() != 0) {
    p.on_the_way.start(now, t.carried_bytes(), crossing.tail);
    vcd_.change_until(p.in_flight, p.on_the_way.until(), p.on_the_way.bytes());
  }
  if (level_ != Level::all) return;
  if (p.traffic_class.valid() && t.traffic_class < class_names_.size()) {
    const bool is_read = transport::asks(t.kind);
    vcd_.text_until(p.traffic_class, free, (is_read ? read_names_ : class_names_)[t.traffic_class]);
  }
  vcd_.change(p.transactions, now, p.port->counters.transactions);
  vcd_.add(p.outstanding[t.virtual_channel], now, static_cast<std::int64_t>(crossing.credit_bytes));
}

void Waveform::on_replay(const Device& device, PortId port, std::uint8_t, const transport::PortCounters&, Time from,
                         Time) {
  const PortProbe& p = probe(device, port);
  if (!p.transactions.valid()) return;
  advance(from);
  vcd_.change(p.transactions, from, p.port->counters.transactions);
}

void Waveform::on_credit(const Device& device, PortId port, std::uint8_t vc, Bytes bytes, Time now, Time usable) {
  if (level_ != Level::all) return;
  const PortProbe& p = probe(device, port);
  if (!p.outstanding[vc].valid()) return;
  advance(now);
  vcd_.add(p.outstanding[vc], usable, -static_cast<std::int64_t>(bytes));
}

}  // namespace railyard::probe
