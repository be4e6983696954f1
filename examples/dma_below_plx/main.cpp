// An initiator of your own below a PCIe switch: a DMA engine that writes into the memory of GPU 0 while a scenario runs.
//   dma_below_plx SCENARIO PLATFORM BLOCKS       BLOCKS of 1 MiB; prints their rate, and the end of the scenario's last job
#include <tlm_utils/simple_initiator_socket.h>

#include <cstdlib>
#include <iostream>
#include <tlm>

#include <railyard/sc_main/jobs_csv.h>
#include <railyard/sc_main/scenario/load.h>
#include <railyard/sc_main/simulation.h>
#include <railyard/transport/edge/generic_payload_adapter.h>

struct Dma : sc_core::sc_module {
  static constexpr unsigned kBlockBytes = 1u << 20;
  tlm_utils::simple_initiator_socket<Dma> socket{"socket"};
  unsigned blocks, refused = 0;
  sc_core::sc_time end;

  SC_HAS_PROCESS(Dma);
  Dma(sc_core::sc_module_name name, unsigned blocks) : sc_module(name), blocks(blocks) { SC_THREAD(write); }
  void write() {
    std::vector<unsigned char> data(kBlockBytes);
    for (unsigned i = 0; i < blocks; ++i) {
      tlm::tlm_generic_payload payload;
      payload.set_command(tlm::TLM_WRITE_COMMAND);
      payload.set_address(railyard::transport::window_base(0) + std::uint64_t{i} * kBlockBytes);  // window 0: GPU 0
      payload.set_data_ptr(data.data());
      payload.set_data_length(kBlockBytes);
      payload.set_streaming_width(kBlockBytes);
      sc_core::sc_time delay;
      socket->b_transport(payload, delay);  // returns when the last byte is in HBM
      refused += payload.is_response_error();
    }
    end = sc_core::sc_time_stamp();
  }
};

int sc_main(int argc, char** argv) {
  if (argc != 4) return std::cerr << "usage: dma_below_plx SCENARIO PLATFORM BLOCKS\n", 2;
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  try {
    const railyard::Scenario scenario = railyard::load_scenario(argv[1], {"fabric.fidelity=train"}, argv[2]);
    railyard::JobsCsv no_file;
    railyard::Simulation simulation(scenario, no_file);
    // Collectives and passes are computed once where nobody else sends; this device may send at any time.
    simulation.workload().executor().simulate_every_collective();
    simulation.workload().executor().simulate_every_pass("a device of the user may send at any time");
    railyard::platforms::Machine& machine = simulation.machine();
    railyard::transport::InitiatorAdapter adapter("dma_adapter", simulation.fabric(), machine.first_free_window(),
                                                  railyard::number(railyard::TrafficClass::tp));
    machine.attach(adapter, 0, 0, scenario.machine.nic_pcie);  // server 0, PCIe switch 0, a link as that of a NIC
    Dma dma("dma", static_cast<unsigned>(std::atoi(argv[3])));
    dma.socket.bind(adapter.socket);
    simulation.run(nullptr);
    const double seconds = dma.end.to_seconds(), bytes = double(dma.blocks - dma.refused) * Dma::kBlockBytes;
    std::cout << "dma_gb_per_s " << (seconds > 0 ? bytes / seconds / 1e9 : 0) << "\njobs_end_s "
              << simulation.finished().seconds() << "\n";
    return 0;
  } catch (const railyard::InputError& wrong) {
    return std::cerr << wrong.what() << "\n", 2;
  }
}
