// What the benchmarks of the fabric share: memories around switches, plain NVLink-like links, and a process for each figure,
// because the kernel elaborates once and peak memory belongs to a process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>
#include <string>

#include "transport/assembly.h"
#include "transport/device/endpoint.h"
#include "transport/device/switch.h"

namespace railyard::bench {

/// A memory with one port, through which all its messages leave.
class Memory : public transport::Endpoint, public transport::Sender {
 public:
  Memory(const std::string& name, transport::Assembly& fabric, transport::Window window)
      : Endpoint(name.c_str(), fabric.context(), window) {
    fabric.add_device(*this);
    fabric.add_sender(window, *this);
  }
  void send(transport::Message& message) override {
    Part part;
    part.message = &message;
    part.bytes = message.bytes;
    part.address = transport::window_base(message.destination);
    inject(PortId(0), part);
  }
  transport::Path path_to(transport::Window destination, std::uint8_t, transport::Engine) const override {
    transport::Path path;
    path.lanes.push_back({transport::walk(*this, PortId(0), transport::window_base(destination), 0), 1});
    return path;
  }
};

inline transport::LinkDirection link(double gb_per_s, double latency_ns, Bytes buffer, Bytes payload, Bytes overhead,
                                     Bytes ack) {
  transport::LinkDirection l;
  l.rate = Rate::gb_per_s(gb_per_s);
  l.latency = l.credit_latency = Time::nanoseconds(latency_ns);
  l.buffer_bytes = buffer;
  l.packet.max_payload_bytes = payload;
  l.packet.overhead_bytes = overhead;
  l.packet.reverse_bytes_per_packet = ack;
  return l;
}
/// All NVLinks of an H100 as one, with an acknowledgement for every packet.
inline transport::LinkDirection nvlink() { return link(450, 250, 1 << 20, 128, 16, 16); }

inline void attach(Memory& memory, transport::Switch& sw, const transport::LinkDirection& l) {
  const PortId up = memory.add_port("up", l);
  const PortId down = sw.add_port("port" + std::to_string(sw.ports()), l);
  transport::Device::connect(memory, up, sw, down);
  sw.decoder().map(memory.window(), down);
}

/// Runs `measure` in a child process; a Result is plain data.
template <class Result, class Measure>
Result apart(Measure&& measure) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    const Result result = measure();
    const bool sent = write(ends[1], &result, sizeof result) == sizeof result;
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);  // so that the end of a child that failed is seen
  Result result{};
  const bool got = read(ends[0], &result, sizeof result) == sizeof result;
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  if (!got || status != 0) std::exit(1);
  return result;
}

}  // namespace railyard::bench
