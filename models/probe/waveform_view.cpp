// The view of a waveform in GTKWave: first the summary (tasks and SMs of every GPU, links that GPUs share), then every
// server with all its signals, folded.
#include <algorithm>

#include "base/output.h"
#include "gpu/datasheet.h"
#include "infiniband/ib_switch.h"
#include "infiniband/nic.h"
#include "nvlink/nvlink.h"
#include "pcie/pcie.h"
#include "probe/waveform.h"

namespace railyard::probe {
namespace {

using transport::Device;
using Color = GtkwaveSave::Color;
using Format = GtkwaveSave::Format;
using Group = GtkwaveSave::Group;

constexpr unsigned kCurveRows = 2;

// gpu::Activity as GTKWave shows it: "VALUE ?BACKGROUND?TEXT".
constexpr char kActivityTexts[] =
    "0 idle\n"
    "1 ?gray25?waiting\n"
    "2 ?dark green?kernel\n"
    "3 ?dark orchid?collective\n"
    "4 ?steel blue?transfer\n"
    "5 ?goldenrod?host\n";

/// "prefill0" of "prefill0.plx0"; empty for devices outside the servers.
std::string server_of(const std::string& name) {
  const std::string::size_type dot = name.find('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string within(const std::string& server, const std::string& name) {
  return !server.empty() && name.compare(0, server.size() + 1, server + ".") == 0 ? name.substr(server.size() + 1)
                                                                                  : name;
}

/// GTKWave shows only the part of a name (or alias) after its last dot.
std::string without_dots(std::string name) {
  std::replace(name.begin(), name.end(), '.', ' ');
  return name;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

template <class Kind>
bool is_a(const Device& device) {
  return dynamic_cast<const Kind*>(&device) != nullptr;
}

struct DeviceKind {
  const char* title;
  bool (*holds)(const Device&);
};
constexpr DeviceKind kKinds[] = {
    {"PCIe switches", is_a<pcie::PlxSwitch>},
    {"root complexes", is_a<pcie::RootComplex>},
    {"NICs", is_a<infiniband::Nic>},
    {"NVSwitches", is_a<nvlink::NvSwitch>},
    {"InfiniBand switches", is_a<infiniband::IbSwitch>},
};

const char* kind_of(const Device& device) {
  for (const DeviceKind& kind : kKinds)
    if (kind.holds(device)) return kind.title;
  return "other devices";
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

}  // namespace

std::vector<std::string> Waveform::servers() const {
  std::vector<std::string> all;
  const auto add = [&](const std::string& name) {
    if (std::find(all.begin(), all.end(), server_of(name)) == all.end()) all.push_back(server_of(name));
  };
  for (const GpuProbe& gpu : gpus_) add(gpu.gpu->name());
  for (std::size_t i = 1; i < ports_.size(); ++i) add(ports_[i].device->name());
  return all;
}

void Waveform::write_view(Time end) const {
  GtkwaveSave view(opens_);
  show_summary(view);
  for (const std::string& server : servers()) show_server(view, server);
  view.show(from_, end);
  view.write(view_path_);

  write_file(states_path_, kActivityTexts);
}

void Waveform::show_summary(GtkwaveSave& view) const {
  view.begin_group("summary");
  view.begin_group("work");
  for (const GpuProbe& gpu : gpus_) {
    const std::string start = std::string(gpu.gpu->name()) + ".";
    const auto first = std::find_if(streams_.begin(), streams_.end(),
                                    [&](const StreamProbe& s) { return starts_with(s.name, start); });
    if (first == streams_.end()) continue;
    const Signal text = first->work.valid() ? first->work : first->job;
    if (text.valid()) {
      view.add_signal(vcd_.full_name(text), Format::text, 1, Color::yellow, without_dots(gpu.gpu->name()));
    } else {
      show_state(view, *first, without_dots(gpu.gpu->name()));
    }
  }
  view.end_group();
  view.begin_group("engines");
  for (const EngineProbe& engine : engines_) {
    const std::string alias = without_dots(engine.name);
    view.add_signal(vcd_.full_name(engine.running), Format::curve, kCurveRows, Color::yellow, alias + " running");
    view.add_signal(vcd_.full_name(engine.waiting), Format::curve, kCurveRows, Color::red, alias + " waiting");
    view.add_signal(vcd_.full_name(engine.blocks), Format::curve, kCurveRows, Color::green, alias + " KV blocks");
  }
  view.end_group();
  view.begin_group("shared links in use");
  for (std::size_t i = 1; i < ports_.size(); ++i) {
    const PortProbe& p = ports_[i];
    const Device &from = *p.device, &to = *p.port->peer;
    // The PCIe side of a NIC shows the same traffic as its network side.
    const bool is_nic_pcie =
        server_of(from.name()) == server_of(to.name()) && (is_a<infiniband::Nic>(from) || is_a<infiniband::Nic>(to));
    if (!p.shared || is_nic_pcie || p.port->counters.transactions == 0) continue;
    const bool is_network = server_of(from.name()) != server_of(to.name()) || server_of(from.name()).empty();
    view.add_signal(vcd_.full_name(p.busy), Format::wire, 1, is_network ? Color::violet : Color::orange,
                    without_dots(std::string(from.name()) + " > " + within(server_of(from.name()), to.name())));
  }
  view.end_group();
  view.begin_group("SMs");
  for (const GpuProbe& gpu : gpus_)
    view.add_signal(vcd_.full_name(gpu.active), Format::curve, 1, Color::green, without_dots(gpu.gpu->name()));
  view.end_group();
  view.end_group();
}

void Waveform::show_server(GtkwaveSave& view, const std::string& server) const {
  view.begin_group(server.empty() ? "network" : server, Group::closed);
  view.begin_group("GPUs");
  for (const GpuProbe& gpu : gpus_)
    if (server_of(gpu.gpu->name()) == server) show_gpu(view, gpu);
  view.end_group();
  std::vector<const Device*> devices;
  std::vector<std::string> titles;
  for (std::size_t i = 1; i < ports_.size(); ++i) {
    const Device& device = *ports_[i].device;
    if (is_a<gpu::Gpu>(device) || server_of(device.name()) != server || (!devices.empty() && devices.back() == &device))
      continue;
    devices.push_back(&device);
    if (std::find(titles.begin(), titles.end(), kind_of(device)) == titles.end()) titles.push_back(kind_of(device));
  }
  for (const std::string& title : titles) {
    view.begin_group(title);
    for (const Device* device : devices) {
      if (title != kind_of(*device)) continue;
      view.begin_group(within(server, device->name()), Group::closed);
      show_device(view, *device);
      view.end_group();
    }
    view.end_group();
  }
  view.end_group();
}

void Waveform::show_gpu(GtkwaveSave& view, const GpuProbe& gpu) const {
  const std::string name = gpu.gpu->name();
  view.begin_group(within(server_of(name), name), Group::closed);
  view.add_signal(vcd_.full_name(gpu.active), Format::curve, kCurveRows, Color::green, "SMs");
  view.add_signal(vcd_.full_name(gpu.clock), Format::real_curve, 1, Color::none, "clock MHz");
  view.add_signal(vcd_.full_name(gpu.power), Format::real_curve, kCurveRows, Color::none, "power W");
  view.add_signal(vcd_.full_name(gpu.used), Format::curve, kCurveRows, Color::orange, "HBM bytes used");
  view.add_signal(vcd_.full_name(gpu.hbm), Format::real_curve, kCurveRows, Color::orange, "HBM GB per s");
  view.add_signal(vcd_.full_name(gpu.l2), Format::real_curve, kCurveRows, Color::orange, "L2 GB per s");
  for (const StreamProbe& stream : streams_) {
    if (!starts_with(stream.name, name + ".")) continue;
    const std::string alias = without_dots(stream.name.substr(name.size() + 1));
    view.add_signal(vcd_.full_name(stream.work), Format::text, 1, Color::yellow, alias + " work");
    view.add_signal(vcd_.full_name(stream.job), Format::text, 1, Color::yellow, alias + " job");
    show_state(view, stream, alias);
    view.add_signal(vcd_.full_name(stream.ctas), Format::curve, 1, Color::green, alias + " CTAs");
  }
  for (std::size_t c = 0; c < gpu.outbound.size(); ++c)
    view.add_signal(vcd_.full_name(gpu.outbound[c]), Format::curve, kCurveRows, Color::violet,
                    "outbound " + class_names_[c] + " bytes");
  show_device(view, *gpu.gpu);
  view.end_group();
}

void Waveform::show_state(GtkwaveSave& view, const StreamProbe& stream, const std::string& alias) const {
  view.add_translated(vcd_.full_name(stream.state), file_name(states_path_), Color::none, alias);
}

void Waveform::show_device(GtkwaveSave& view, const Device& device) const {
  for (std::size_t i = 1; i < ports_.size(); ++i)
    if (ports_[i].device == &device) show_port(view, ports_[i]);
}

void Waveform::show_port(GtkwaveSave& view, const PortProbe& p) const {
  const std::string server = server_of(p.device->name());
  const std::string alias = p.port->name + " > " + without_dots(within(server, p.port->peer->name()));
  view.add_signal(vcd_.full_name(p.busy), Format::wire, 1, Color::orange, alias);
  view.add_signal(vcd_.full_name(p.traffic_class), Format::text, 1, Color::orange, alias + " class");
  view.add_signal(vcd_.full_name(p.queue), Format::curve, kCurveRows, Color::red, alias + " queued bytes");
  view.add_signal(vcd_.full_name(p.in_flight), Format::curve, kCurveRows, Color::violet, alias + " bytes in flight");
  for (std::size_t vc = 0; vc < p.outstanding.size(); ++vc)
    view.add_signal(vcd_.full_name(p.outstanding[vc]), Format::curve, kCurveRows, Color::yellow,
                    alias + " VC" + std::to_string(vc) + " outstanding bytes");
  view.add_signal(vcd_.full_name(p.transactions), Format::decimal, 1, Color::none, alias + " transactions");
}

}  // namespace railyard::probe
