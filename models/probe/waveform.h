// The waveform of a run: listens to fabric, GPUs and streams, and writes their activity as trace.vcd, with a view for
// GTKWave (trace.gtkw, grouped by server). It only listens: a run is the same with and without a waveform.
//
//   Waveform waveform({"out/trace.vcd", Waveform::Level::links, {}, {"tp", "pp", "kv"}});
//   waveform.attach(fabric);                                       // first, when every device is there
//   waveform.attach(gpu);
//   waveform.attach(rank.compute, "prefill0.gpu3.stream.compute", job_name, work_name);
//   waveform.start();
//   calendar.set_instant_hook([&](Time now) { waveform.advance(now); return !interrupted; });
//   sc_start();
//   waveform.finish(fabric.now());
//
// Signals by level; each level includes the levels above it in this list. Names are SystemC's, followed by the port:
//   summary
//     prefill0.gpu3.sm.active               SMs with work
//     prefill0.gpu3.stream.compute.ctas     resident thread blocks of the running kernel or collective
//     prefill0.gpu3.stream.compute.state    0 idle, 1 waiting, 2 kernel, 3 collective, 4 transfer
//     prefill0.gpu3.stream.compute.job      name of the running task: "attention L7"
//     prefill0.gpu3.stream.compute.work     the work to which this task belongs: "Chunk[3]"
//     engine.gpus.running, .waiting         requests that run and wait in a serving engine
//     engine.gpus.kv_blocks                 blocks of KV cache that requests hold
//     prefill0.plx0.uplink.tx.busy          only for shared links: NIC ports, and links between two switches
//   links
//     prefill0.gpu3.sm.clock_mhz            clock of the running kernels, under the power limit
//     prefill0.gpu3.power_w                 estimate (gpu/energy.h), if the datasheet has its constants
//     prefill0.gpu3.hbm.used_bytes          memory that ranks have allocated: weights, activations, KV cache
//     prefill0.gpu3.hbm.gb_per_s            HBM traffic of kernels and messages
//     prefill0.gpu3.l2.gb_per_s             the same for L2
//     prefill0.gpu3.outbound.kv_bytes       bytes of messages that were sent and have not landed, by class
//     prefill0.plx0.port3.tx.busy           every port: the line is charged
//     prefill0.plx0.port3.tx.queue_bytes    payload that waits to start
//     prefill0.plx0.port3.tx.bytes_in_flight   payload that has started and whose tail has not reached the next device,
//                                           as of the last start of a train, or of the arrival of the last train
//   all
//     prefill0.plx0.port3.tx.class          class of the train on the line: "kv", or "kv:read" for a read request
//     prefill0.plx0.port3.tx.transactions   transactions started so far
//     prefill0.plx0.port3.tx.vc1.outstanding_bytes   wire bytes without returned credit, if the buffer at the far end
//                                           is finite; virtual channel 7 carries read responses
// A port that is not followed has no listener_mark; its traffic may be computed without transactions (replay), as may
// all traffic outside the window.
// Changes of one instant are written once; their order has no meaning.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/gpu.h"
#include "gpu/stream.h"
#include "probe/gtkwave_save.h"
#include "probe/in_flight.h"
#include "probe/stream_tracer.h"
#include "probe/vcd_writer.h"
#include "transport/device/device.h"
#include "workload/engine_listener.h"

namespace railyard::transport {
class Assembly;
}

namespace railyard::probe {

class Waveform final : public StreamTracer, public workload::EngineListener, private transport::FabricListener {
 public:
  enum class Level { summary, links, all };
  struct Config {
    std::string path;   ///< of the .vcd; the view has the same name with .gtkw
    std::string opens;  ///< file, in the folder of the view, that the view opens; empty: the .vcd
    Level level = Level::links;
    VcdWindow window;
    std::vector<std::string> class_names;  ///< by traffic class; empty name: not in use
  };
  /// @throws std::system_error if the file cannot be created
  explicit Waveform(const Config& config);
  Waveform(const Waveform&) = delete;
  Waveform& operator=(const Waveform&) = delete;

  // Before start(). Attached objects outlive the waveform or its run. @throws std::logic_error for a duplicate name, or
  // if the fabric was not attached first
  void attach(transport::Assembly& fabric);
  void attach(gpu::Gpu& gpu);
  void attach(gpu::Stream& stream, const std::string& name, TaskLabel job = {}, TaskLabel work = {}) override;
  /// A serving engine; its number is that of engines attached before it.
  void attach_engine(const std::string& name);
  void on_load(std::size_t engine, const workload::EngineLoad& load, Time now) override;

  /// Writes the header and the view, so that the waveform of a killed run can be opened.
  void start();
  /// All changes before `now` are final, and the file is complete up to then. Called from the calendar's instant hook.
  void advance(Time now) {
    if (vcd_.now() < now) {
      for (const std::uint32_t port : queues_) draw_queue(ports_[port]);
      queues_.clear();
    }
    vcd_.advance(now);
  }
  /// Writes all changes up to `end`, also for an interrupted run, and the view, which shows the whole run.
  /// @throws std::system_error if any part could not be written
  void finish(Time end);

 private:
  struct PortProbe {
    const transport::Device* device = nullptr;
    const transport::Device::Port* port = nullptr;
    bool shared = false;  ///< belongs to the summary
    Signal busy, queue, in_flight, traffic_class, transactions;
    std::array<Signal, transport::kVirtualChannels> outstanding;
    InFlight on_the_way;
    Bytes queued = 0, drawn_queued = 0;
    bool queue_moved = false;  ///< changed at this instant: the port is in queues_
  };
  struct GpuProbe final : gpu::SmListener, gpu::HbmListener {
    explicit GpuProbe(Waveform& waveform) : owner(waveform) {}
    void on_sms(const gpu::SmState& state) override;
    void on_ctas(const gpu::Stream* stream, std::uint64_t ctas) override;
    void on_used(Bytes used) override;
    Waveform& owner;
    gpu::Gpu* gpu = nullptr;
    Signal active, clock, power, used, hbm, l2;
    std::vector<Signal> outbound;  ///< by class
  };
  struct StreamProbe final : gpu::StreamListener {
    explicit StreamProbe(Waveform& waveform) : owner(waveform) {}
    void on_activity(const gpu::Stream& stream, gpu::Activity activity) override;
    Waveform& owner;
    std::string name;
    Signal state, job, work, ctas;
    TaskLabel job_name, work_name;
  };
  struct EngineProbe {
    std::string name;
    Signal running, waiting, blocks;
  };

  // From the fabric.
  void on_send(const transport::Message& message, Time now) override;
  void on_delivered(const transport::Message& message, Time now) override;
  void on_start(const transport::Device& device, PortId port, const transport::Transaction& transaction, Time now,
                const transport::Crossing& crossing) override;
  void on_queue(const transport::Device& device, PortId port, Bytes queued, Time now) override;
  void on_credit(const transport::Device& device, PortId port, std::uint8_t vc, Bytes bytes, Time now,
                 Time usable) override;
  void on_replay(const transport::Device& device, PortId port, std::uint8_t traffic_class,
                 const transport::PortCounters& added, Time from, Time until) override;

  void attach(transport::Device& device, PortId port);
  void attach_credit(PortProbe& probe, const std::string& name);
  PortProbe& probe(const transport::Device& device, PortId port) { return ports_[device.port(port).listener_mark]; }
  void note_queue(PortProbe& probe, Bytes queued) {
    probe.queued = queued;
    if (probe.queue_moved || !probe.queue.valid()) return;
    probe.queue_moved = true;
    queues_.push_back(probe.port->listener_mark);
  }
  /// At the end of an instant, because most trains leave their queue at the instant at which they join.
  void draw_queue(PortProbe& probe) {
    probe.queue_moved = false;
    if (probe.drawn_queued == probe.queued) return;
    probe.drawn_queued = probe.queued;
    vcd_.change(probe.queue, vcd_.now(), probe.queued);
  }
  void add_outbound(const transport::Message& message, std::int64_t bytes, Time now);
  Time now() const { return calendar_->now(); }

  // The view (waveform_view.cpp).
  void write_view(Time end) const;
  void show_summary(GtkwaveSave& view) const;
  void show_server(GtkwaveSave& view, const std::string& server) const;
  void show_gpu(GtkwaveSave& view, const GpuProbe& gpu) const;
  void show_state(GtkwaveSave& view, const StreamProbe& stream, const std::string& alias) const;
  void show_device(GtkwaveSave& view, const transport::Device& device) const;
  void show_port(GtkwaveSave& view, const PortProbe& probe) const;
  std::vector<std::string> servers() const;

  const Level level_;
  const std::vector<std::string> class_names_;
  const std::string view_path_, states_path_, opens_;
  const Time from_, to_;
  VcdWriter vcd_;
  const transport::Calendar* calendar_ = nullptr;
  std::vector<PortProbe> ports_;         ///< by listener_mark; the first entry stands for all ports without a listener
  std::vector<std::uint32_t> queues_;    ///< ports whose queues have changed at this instant
  std::vector<std::string> read_names_;  ///< names for read requests, by class
  std::deque<GpuProbe> gpus_;
  std::vector<const GpuProbe*> gpu_of_window_;
  std::deque<StreamProbe> streams_;
  std::vector<EngineProbe> engines_;
  std::unordered_map<const gpu::Stream*, const StreamProbe*> stream_probes_;
};

}  // namespace railyard::probe
