#include "sc_main/scenario/datasheets/machine_records.h"

#include "sc_main/scenario/datasheets/gpu_record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using namespace platforms;

namespace {

constexpr double kMostHeaders = 65536;
constexpr std::uint32_t kMostSockets = 128, kMostSwitches = 16;

}  // namespace

Record<LinkDatasheet> link_record() {
  Record<LinkDatasheet> r;
  r.add("gb_per_s", &LinkDatasheet::gb_per_s, "line rate of one direction after encoding").above(0, kMostRate);
  r.add("latency_ns", &LinkDatasheet::latency_ns, "latency of wire and PHY, one direction").range(0, kMostNs);
  r.add("buffer_bytes", &LinkDatasheet::buffer_bytes, "receive buffer per virtual channel; 0: unlimited")
      .none_or(1, kMostBytes);
  return r;
}

/// A PCIe link, with the credits that the receiver at either end advertises.
Record<LinkDatasheet> pcie_link_record() {
  Record<LinkDatasheet> r = link_record();
  r.add("posted_headers", &LinkDatasheet::posted_headers,
        "header credits for writes, per virtual channel; 0: unlimited")
      .none_or(1, kMostHeaders);
  r.add("non_posted_headers", &LinkDatasheet::non_posted_headers, "header credits for read requests; 0: unlimited")
      .none_or(1, kMostHeaders);
  r.add("completion_headers", &LinkDatasheet::completion_headers,
        "header credits for completions at a switch or root port; 0: unlimited")
      .none_or(1, kMostHeaders);
  return r;
}

Record<PcieCredits> pcie_credits_record() {
  Record<PcieCredits> r;
  r.add("unit_bytes", &PcieCredits::unit_bytes, "bytes of a data credit").range(1, 4096).required();
  const auto headers = [&](const char* key, double PcieCredits::*field, const char* what) {
    r.add(key, field, what).above(0, kMostHeaders).required();
  };
  headers("posted_headers_per_gb_per_s", &PcieCredits::posted_headers_per_gb_per_s,
          "posted header credits per GB/s of a link");
  headers("non_posted_headers_per_gb_per_s", &PcieCredits::non_posted_headers_per_gb_per_s,
          "non-posted header credits per GB/s of a link");
  headers("completion_headers_per_gb_per_s", &PcieCredits::completion_headers_per_gb_per_s,
          "completion header credits per GB/s of a link");
  return r;
}

Record<PcieProtocol> pcie_record() {
  Record<PcieProtocol> r;
  r.add("gen3_lane_gb_per_s", &PcieProtocol::gen3_lane_gb_per_s, "rate of one Gen3 lane")
      .above(0, kMostRate)
      .required();
  r.add("gen4_lane_gb_per_s", &PcieProtocol::gen4_lane_gb_per_s, "rate of one Gen4 lane")
      .above(0, kMostRate)
      .required();
  r.add("gen5_lane_gb_per_s", &PcieProtocol::gen5_lane_gb_per_s, "rate of one Gen5 lane")
      .above(0, kMostRate)
      .required();
  r.add("gen6_lane_gb_per_s", &PcieProtocol::gen6_lane_gb_per_s, "rate of one Gen6 lane")
      .above(0, kMostRate)
      .required();
  r.add("write_overhead_bytes", &PcieProtocol::write_overhead_bytes, "overhead of a memory write packet")
      .range(0, 4096)
      .required();
  r.add("read_request_bytes", &PcieProtocol::read_request_bytes, "size of a memory read request packet")
      .range(1, 4096)
      .required();
  r.add("completion_overhead_bytes", &PcieProtocol::completion_overhead_bytes, "overhead of a read completion packet")
      .range(0, 4096)
      .required();
  r.add("max_payload_bytes", &PcieProtocol::max_payload_bytes, "payload per packet (MPS)").range(64, 4096).required();
  r.add("max_read_request_bytes", &PcieProtocol::max_read_request_bytes, "payload per read request of a NIC (MRRS)")
      .range(64, 4096)
      .required();
  r.add("gpu_payload_bytes", &PcieProtocol::gpu_payload_bytes, "payload per packet that a GPU writes")
      .range(64, 4096)
      .required();
  r.add("gpu_read_request_bytes", &PcieProtocol::gpu_read_request_bytes, "payload per read request of a GPU (MRRS)")
      .range(64, 4096)
      .required();
  r.add("gpu_read_tags", &PcieProtocol::gpu_read_tags, "outstanding read requests of a GPU").range(1, 65536).required();
  r.add("host_completion_bytes", &PcieProtocol::host_completion_bytes, "payload per completion of a root complex")
      .range(64, 4096)
      .required();
  r.add("dllp_interval_bytes", &PcieProtocol::dllp_interval_bytes, "wire bytes per pair of Ack and UpdateFC")
      .range(1, kMostBytes)
      .required();
  r.add("dllp_bytes", &PcieProtocol::dllp_bytes, "bytes of an Ack and an UpdateFC in the reverse direction")
      .range(0, 4096)
      .required();
  return r;
}

Record<NvLinkProtocol> nvlink_record() {
  Record<NvLinkProtocol> r;
  r.add("flit_bytes", &NvLinkProtocol::flit_bytes, "size of a flit").range(1, 4096).required();
  r.add("header_flits", &NvLinkProtocol::header_flits, "header flits per packet with data").range(0, 16).required();
  r.add("request_flits", &NvLinkProtocol::request_flits, "flits per read request").range(0, 16).required();
  r.add("response_flits", &NvLinkProtocol::response_flits, "flits per write response, in the reverse direction")
      .range(0, 16)
      .required();
  r.add("writes_per_response", &NvLinkProtocol::writes_per_response, "write packets that share a response")
      .range(1, 4096)
      .required();
  r.add("flits_per_link_flit", &NvLinkProtocol::flits_per_link_flit,
        "packet flits per flit of the data link layer; 0: that layer uses none")
      .range(0, 4096)
      .required();
  r.add("sm_store_payload_bytes", &NvLinkProtocol::sm_store_payload_bytes, "payload per packet of SM stores")
      .range(1, 4096)
      .required();
  r.add("copy_engine_payload_bytes", &NvLinkProtocol::copy_engine_payload_bytes, "payload per packet of copy engines")
      .range(1, 4096)
      .required();
  r.add("sm_request_bytes", &NvLinkProtocol::sm_request_bytes, "bytes that one request of an SM reads")
      .range(1, 65536)
      .required();
  r.add("copy_engine_request_bytes", &NvLinkProtocol::copy_engine_request_bytes,
        "bytes that one request of a copy engine reads")
      .range(1, 65536)
      .required();
  r.add("read_payload_bytes", &NvLinkProtocol::read_payload_bytes, "payload per packet of read data")
      .range(1, 4096)
      .required();
  r.add("reduced_payload_bytes", &NvLinkProtocol::reduced_payload_bytes,
        "payload per packet of operands or result of an in-switch reduction")
      .range(1, 4096)
      .required();
  r.add("interleave_bytes", &NvLinkProtocol::interleave_bytes, "address granule of the stripes over planes")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<C2cProtocol> c2c_record() {
  Record<C2cProtocol> r;
  r.add("line_bytes", &C2cProtocol::line_bytes, "payload per packet: a cache line").range(1, 4096).required();
  r.add("overhead_bytes", &C2cProtocol::overhead_bytes, "overhead of a line, and of a request for a line")
      .range(0, 4096)
      .required();
  return r;
}

Record<InfiniBandProtocol> infiniband_record() {
  Record<InfiniBandProtocol> r;
  r.add("mtu_bytes", &InfiniBandProtocol::mtu_bytes, "payload per packet").range(256, 9216).required();
  r.add("packet_overhead_bytes", &InfiniBandProtocol::packet_overhead_bytes, "headers and CRCs per packet")
      .range(0, 4096)
      .required();
  r.add("first_overhead_bytes", &InfiniBandProtocol::first_overhead_bytes, "RDMA header of a message's first packet")
      .range(0, 4096)
      .required();
  return r;
}

Record<PcieSwitchDatasheet> pcie_switch_record() {
  Record<PcieSwitchDatasheet> r;
  r.add("hop_ns", &PcieSwitchDatasheet::hop_ns, "cut-through latency").range(0, kMostNs).required();
  r.add("generation", &PcieSwitchDatasheet::generation, "PCIe generation").range(kOldestPcie, kNewestPcie).required();
  r.add("buffer_bytes", &PcieSwitchDatasheet::buffer_bytes, "buffer per input port and virtual channel")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<RootComplexDatasheet> root_complex_record() {
  Record<RootComplexDatasheet> r;
  r.add("generation", &RootComplexDatasheet::generation, "PCIe generation").range(kOldestPcie, kNewestPcie).required();
  r.add("hop_ns", &RootComplexDatasheet::hop_ns, "latency of peer-to-peer traffic through the root complex")
      .range(0, kMostNs)
      .required();
  r.add("far_peer_gb_per_s", &RootComplexDatasheet::far_peer_gb_per_s,
        "limit for PCIe writes by SMs between two GPUs below different sockets, sum of both directions; 0: no limit")
      .none_or(kLeastRate, kMostRate);
  r.add("buffer_bytes", &RootComplexDatasheet::buffer_bytes, "buffer per input port and virtual channel")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<NvSwitchDatasheet> nvswitch_record() {
  Record<NvSwitchDatasheet> r;
  r.add("hop_ns", &NvSwitchDatasheet::hop_ns, "cut-through latency").range(0, kMostNs).required();
  r.add("buffer_bytes", &NvSwitchDatasheet::buffer_bytes, "buffer per link and virtual channel")
      .range(1, kMostBytes)
      .required();
  r.add("reduction_slots", &NvSwitchDatasheet::reduction_slots,
        "in-switch reductions in progress per link; 0: the switch neither reduces nor multicasts")
      .none_or(1, 1e6);
  r.add("reduction_slot_bytes", &NvSwitchDatasheet::reduction_slot_bytes, "size of one reduction result")
      .none_or(1, kMostBytes);
  r.add("reduction_gb_per_s", &NvSwitchDatasheet::reduction_gb_per_s,
        "rate of reduction results per link; 0: as fast as the link")
      .none_or(kLeastRate, kMostRate);
  return r;
}

Record<HostMemoryDatasheet> host_memory_record() {
  Record<HostMemoryDatasheet> r;
  r.add("gb_per_s", &HostMemoryDatasheet::gb_per_s, "rate of a socket's DRAM, one direction")
      .above(0, kMostRate)
      .required();
  r.add("bytes", &HostMemoryDatasheet::bytes, "memory of a socket; 0: not known").none_or(1e9, 1e15);
  r.add("read_latency_ns", &HostMemoryDatasheet::read_latency_ns, "latency from read request to completion")
      .range(0, kMostNs)
      .required();
  r.add("buffer_bytes", &HostMemoryDatasheet::buffer_bytes, "buffer for writes, per virtual channel")
      .range(1, kMostBytes)
      .required();
  r.add("bounce_chunk_bytes", &HostMemoryDatasheet::bounce_chunk_bytes,
        "chunk size of the staging buffer between two GPUs")
      .range(64, kMostBytes)
      .required();
  r.add("bounce_start_us", &HostMemoryDatasheet::bounce_start_us,
        "time to start each chunk's copy, in and out, when copy engines move data between GPUs without peer access")
      .range(0, 1000)
      .required();
  r.add("bounce_chunks", &HostMemoryDatasheet::bounce_chunks, "number of chunks in a staging buffer")
      .range(1, 65536)
      .required();
  return r;
}

Record<ServerPowerDatasheet> server_power_record() {
  Record<ServerPowerDatasheet> r;
  r.add("base_w", &ServerPowerDatasheet::base_w,
        "power of a server without the boards of its GPUs: CPUs, memory, NVSwitches, NICs, fans; 0: not known")
      .range(0, 1e6);
  r.add("gpus_ratio", &ServerPowerDatasheet::gpus_ratio,
        "what it draws beyond this, as a share of what its GPUs draw: fans, losses of supplies")
      .range(0, 10);
  return r;
}

Record<NicDatasheet> nic_record() {
  Record<NicDatasheet> r;
  r.add("gb_per_s", &NicDatasheet::gb_per_s, "rate of the network port, one direction").above(0, kMostRate).required();
  r.add("pcie_generation", &NicDatasheet::pcie_generation, "PCIe generation")
      .range(kOldestPcie, kNewestPcie)
      .required();
  r.add("pcie_lanes", &NicDatasheet::pcie_lanes, "PCIe lanes").range(1, 32);
  r.add("post_ns", &NicDatasheet::post_ns, "time of a host thread to post a work request")
      .range(0, kMostNs)
      .cite("perftest, ConnectX-6: 2.6 million writes a second");
  r.add("inline_bytes", &NicDatasheet::inline_bytes, "largest message whose data is part of the host's work request")
      .range(0, 4096)
      .cite("linux-rdma/perftest: of a write's latency");
  r.add("doorbell_ns", &NicDatasheet::doorbell_ns, "time from work request to first read request")
      .range(0, kMostNs)
      .required();
  r.add("transmit_ns", &NicDatasheet::transmit_ns, "latency of the transmit pipeline").range(0, kMostNs).required();
  r.add("receive_ns", &NicDatasheet::receive_ns, "latency of the receive pipeline").range(0, kMostNs).required();
  r.add("read_tags", &NicDatasheet::read_tags, "outstanding PCIe read requests").range(1, 4096).required();
  r.add("buffer_bytes", &NicDatasheet::buffer_bytes,
        "buffer for read data that waits for the network; receive buffer per virtual lane")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<IbSwitchDatasheet> ib_switch_record() {
  Record<IbSwitchDatasheet> r;
  r.add("gb_per_s", &IbSwitchDatasheet::gb_per_s, "rate of a port, one direction").above(0, kMostRate).required();
  r.add("ports", &IbSwitchDatasheet::ports, "number of ports").range(2, 4096).required();
  r.add("hop_ns", &IbSwitchDatasheet::hop_ns, "cut-through latency").range(0, kMostNs).required();
  r.add("buffer_bytes", &IbSwitchDatasheet::buffer_bytes, "buffer per input port and virtual lane")
      .range(1, kMostBytes)
      .required();
  r.add("aggregation_ns", &IbSwitchDatasheet::aggregation_ns,
        "SHARP: time from the last message of a sum to the sum; 0: the switch does not add")
      .range(0, kMostNs);
  r.add("power_w", &IbSwitchDatasheet::power_w, "power of the whole switch; 0: not known").range(0, 1e6);
  return r;
}

Record<BoardDatasheet> pcie_board_record(std::uint32_t most_sockets, std::uint32_t most_switches) {
  Record<BoardDatasheet> r;
  r.add("sockets", &BoardDatasheet::sockets, "CPU sockets per server").range(1, most_sockets);
  r.add("pcie_switches", &BoardDatasheet::pcie_switches,
        "PCIe switches per server; 0: GPUs and NICs connect to the sockets")
      .range(0, most_switches);
  r.choice("cpu", &BoardDatasheet::cpu, words_of(kCpuNames), "generation of the CPUs").required();
  r.add("nics", &BoardDatasheet::nics, "NICs per server, spread evenly over its PCIe switches or sockets")
      .range(1, kMostNics)
      .required();
  r.add("gpu", &BoardDatasheet::gpu, "default GPU datasheet").required();
  r.add("nic", &BoardDatasheet::nic, "default NIC datasheet").required();
  r.add("pcie_switch", &BoardDatasheet::pcie_switch, "default PCIe switch datasheet");
  r.add("network_source", &BoardDatasheet::network_source, "public source of the default number and type of NICs");
  return r;
}

Record<BoardDatasheet> board_record() {
  Record<BoardDatasheet> r = pcie_board_record(kMostSockets, kMostSwitches);
  r.add("gpus", &BoardDatasheet::gpus, "GPUs per server").range(1, 128).required();
  r.add("trays", &BoardDatasheet::trays, "parts of a server that PCIe and socket links do not leave").range(1, 64);
  r.add("c2c", &BoardDatasheet::c2c, "GPUs connect to their socket over NVLink-C2C");
  r.add("nvlink_planes", &BoardDatasheet::nvlink_planes, "links from each GPU to each NVSwitch").range(1, 64);
  r.add("nvlink_mesh", &BoardDatasheet::nvlink_mesh,
        "NVLinks lead from each GPU to each other one of its server, of at most four, without NVSwitches");
  return r;
}

Record<ServerParts> server_parts_record() {
  Record<ServerParts> r;
  r.add("nic", &ServerParts::nic, "NIC datasheet").required();
  r.add("pcie_switch", &ServerParts::pcie_switch, "PCIe switch datasheet");
  r.add("source", &ServerParts::source, "public source").required();
  return r;
}

void add_link_roles(Record<MachineSpec>& r) {
  const Record<LinkDatasheet> link = link_record(), pcie_link = pcie_link_record();
  r.nested("nic_pcie", &MachineSpec::nic_pcie, pcie_link, "link between a NIC and its PCIe switch");
  r.nested("plx_uplink", &MachineSpec::plx_uplink, pcie_link, "link between a PCIe switch and its root complex");
  r.nested("plx_cascade", &MachineSpec::plx_cascade, pcie_link, "link between two PCIe switches in cascade");
  r.nested("socket_link", &MachineSpec::socket_link, link, "link between two CPU sockets");
  r.nested("ib_cable", &MachineSpec::ib_cable, link, "InfiniBand cable");
  r.nested("root_complex", &MachineSpec::root_complex, root_complex_record(), "a CPU's PCIe root complex");
  r.nested("host_memory", &MachineSpec::host_memory, host_memory_record(), "a CPU's memory").required();
  r.nested("nvswitch", &MachineSpec::nvswitch, nvswitch_record(), "NVSwitch");
  r.nested("server_power", &MachineSpec::server_power, server_power_record(),
           "power of a server without its GPUs (docs/energy.md); an estimate");
}

}  // namespace railyard::scenario
