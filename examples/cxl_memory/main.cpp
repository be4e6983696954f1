// A target of your own below a PCIe switch: a memory, such as a CXL expander, that GPUs write and read while a scenario runs.
//   cxl_memory SCENARIO PLATFORM GB_PER_S        prints the rates at which GPU 0 writes and reads 64 MiB of it
#include <tlm_utils/simple_target_socket.h>

#include <cstdlib>
#include <iostream>
#include <tlm>

#include <railyard/sc_main/jobs_csv.h>
#include <railyard/sc_main/scenario/load.h>
#include <railyard/sc_main/simulation.h>
#include <railyard/transport/edge/generic_payload_adapter.h>

/// Takes its time for each access, so a slow memory slows its writers.
struct Memory : sc_core::sc_module {
  tlm_utils::simple_target_socket<Memory> socket{"socket"};
  double gb_per_s;
  std::uint64_t bytes = 0;
  Memory(sc_core::sc_module_name name, double gb_per_s) : sc_module(name), gb_per_s(gb_per_s) {
    socket.register_b_transport(this, &Memory::b_transport);
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    bytes += payload.get_data_length();
    delay += sc_core::sc_time(payload.get_data_length() / gb_per_s, sc_core::SC_NS);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

/// GPU 0 writes the memory at time zero, and reads it when all is written.
struct Writer : sc_core::sc_module, railyard::transport::MessageClient {
  static constexpr std::uint64_t kBytes = 64u << 20;
  railyard::transport::Fabric& fabric;
  railyard::transport::Message message;
  SC_HAS_PROCESS(Writer);
  Writer(sc_core::sc_module_name name, railyard::transport::Fabric& fabric, railyard::transport::Window memory)
      : sc_module(name), fabric(fabric) {
    message.source = 0;  // window 0: GPU 0
    message.destination = memory;
    message.bytes = kBytes;
    message.client = this;
    SC_THREAD(start);
  }
  void start() { fabric.send(message); }
  void on_delivered(railyard::transport::Message& done) override {
    const bool is_write = done.kind == railyard::transport::MessageKind::write;
    std::cout << (is_write ? "write" : "read") << "_gb_per_s "
              << kBytes / (done.finished - done.started).seconds() / 1e9 << "\n";
    message.kind = railyard::transport::MessageKind::read;
    if (is_write) fabric.send(message);
  }
};

int sc_main(int argc, char** argv) {
  if (argc != 4 || std::atof(argv[3]) <= 0) return std::cerr << "usage: cxl_memory SCENARIO PLATFORM GB_PER_S\n", 2;
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  try {
    const railyard::Scenario scenario = railyard::load_scenario(argv[1], {"fabric.fidelity=train"}, argv[2]);
    railyard::JobsCsv no_file;
    railyard::Simulation simulation(scenario, no_file);
    // Collectives and passes are computed once where nobody else sends; here somebody may send at any time.
    simulation.workload().executor().simulate_every_collective();
    simulation.workload().executor().simulate_every_pass("a device of the user may send at any time");
    railyard::platforms::Machine& machine = simulation.machine();
    railyard::transport::TargetAdapter adapter("memory_adapter", simulation.fabric(), machine.first_free_window());
    machine.attach(adapter, 0, 0, scenario.machine.nic_pcie);  // server 0, PCIe switch 0, a link as that of a NIC
    Memory memory("memory", std::atof(argv[3]));
    adapter.socket.bind(memory.socket);
    Writer writer("writer", simulation.fabric(), adapter.window());
    simulation.run(nullptr);
    std::cout << "memory_bytes " << memory.bytes << "\n";
    return 0;
  } catch (const railyard::InputError& wrong) {
    return std::cerr << wrong.what() << "\n", 2;
  }
}
