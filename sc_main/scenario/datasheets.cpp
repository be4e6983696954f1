#include "sc_main/scenario/datasheets.h"

#include <algorithm>
#include <filesystem>

#include "sc_main/scenario/datasheet_gpu.h"
#include "sc_main/scenario/embedded.h"
#include "sc_main/scenario/words.h"

namespace railyard::scenario {

using namespace platforms;
using gpu::GpuDatasheet;

namespace {

constexpr double kMostHeaders = 65536;

Record<LinkDatasheet> link_record() {
  Record<LinkDatasheet> r;
  r.add("gb_per_s", &LinkDatasheet::gb_per_s, "line rate of one direction after encoding").above(0, kMostRate);
  r.add("latency_ns", &LinkDatasheet::latency_ns, "wire and PHY, one way").range(0, kMostNs);
  r.add("buffer_bytes", &LinkDatasheet::buffer_bytes, "receive buffer per virtual channel; 0: ample")
      .none_or(1, kMostBytes);
  return r;
}

/// A PCIe link, with what the receiver at either end advertises.
Record<LinkDatasheet> pcie_link_record() {
  Record<LinkDatasheet> r = link_record();
  r.add("posted_headers", &LinkDatasheet::posted_headers,
        "write packets that a receiver takes per virtual channel; 0: ample")
      .none_or(1, kMostHeaders);
  r.add("non_posted_headers", &LinkDatasheet::non_posted_headers, "read requests that it takes; 0: ample")
      .none_or(1, kMostHeaders);
  r.add("completion_headers", &LinkDatasheet::completion_headers,
        "completions that a switch or root port takes; 0: ample")
      .none_or(1, kMostHeaders);
  return r;
}

Record<PcieCredits> pcie_credits_record() {
  Record<PcieCredits> r;
  r.add("unit_bytes", &PcieCredits::unit_bytes, "of a data credit").range(1, 4096).required();
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
  r.add("write_overhead_bytes", &PcieProtocol::write_overhead_bytes, "of a memory write packet")
      .range(0, 4096)
      .required();
  r.add("read_request_bytes", &PcieProtocol::read_request_bytes, "a memory read request packet")
      .range(1, 4096)
      .required();
  r.add("completion_overhead_bytes", &PcieProtocol::completion_overhead_bytes, "of a read completion packet")
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
  r.add("gpu_read_tags", &PcieProtocol::gpu_read_tags, "read requests that a GPU has under way")
      .range(1, 65536)
      .required();
  r.add("host_completion_bytes", &PcieProtocol::host_completion_bytes, "payload per completion of a root complex")
      .range(64, 4096)
      .required();
  r.add("dllp_interval_bytes", &PcieProtocol::dllp_interval_bytes, "wire bytes per Ack and UpdateFC")
      .range(1, kMostBytes)
      .required();
  r.add("dllp_bytes", &PcieProtocol::dllp_bytes, "what an Ack and an UpdateFC take on the reverse direction")
      .range(0, 4096)
      .required();
  return r;
}

Record<NvLinkProtocol> nvlink_record() {
  Record<NvLinkProtocol> r;
  r.add("flit_bytes", &NvLinkProtocol::flit_bytes, "one flit").range(1, 4096).required();
  r.add("header_flits", &NvLinkProtocol::header_flits, "header flits per packet with data").range(0, 16).required();
  r.add("request_flits", &NvLinkProtocol::request_flits, "a read request").range(0, 16).required();
  r.add("response_flits", &NvLinkProtocol::response_flits, "write acknowledgement, on the reverse direction")
      .range(0, 16)
      .required();
  r.add("writes_per_response", &NvLinkProtocol::writes_per_response, "written packets that share an acknowledgement")
      .range(1, 4096)
      .required();
  r.add("flits_per_link_flit", &NvLinkProtocol::flits_per_link_flit,
        "packet flits per flit of the data link layer; 0: it takes none")
      .range(0, 4096)
      .required();
  r.add("sm_store_payload_bytes", &NvLinkProtocol::sm_store_payload_bytes, "payload per packet of SM stores")
      .range(1, 4096)
      .required();
  r.add("copy_engine_payload_bytes", &NvLinkProtocol::copy_engine_payload_bytes, "payload per packet of copy engines")
      .range(1, 4096)
      .required();
  r.add("sm_request_bytes", &NvLinkProtocol::sm_request_bytes, "read by one request of an SM")
      .range(1, 65536)
      .required();
  r.add("copy_engine_request_bytes", &NvLinkProtocol::copy_engine_request_bytes, "read by one request of a copy engine")
      .range(1, 65536)
      .required();
  r.add("read_payload_bytes", &NvLinkProtocol::read_payload_bytes, "payload per packet of data read")
      .range(1, 4096)
      .required();
  r.add("reduced_payload_bytes", &NvLinkProtocol::reduced_payload_bytes,
        "payload per packet of an in-switch reduction's operands and result")
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
  r.add("overhead_bytes", &C2cProtocol::overhead_bytes, "of a line, and of a request for one")
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
  r.add("buffer_bytes", &PcieSwitchDatasheet::buffer_bytes, "per input port and virtual channel")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<RootComplexDatasheet> root_complex_record() {
  Record<RootComplexDatasheet> r;
  r.add("generation", &RootComplexDatasheet::generation, "PCIe generation").range(kOldestPcie, kNewestPcie).required();
  r.add("hop_ns", &RootComplexDatasheet::hop_ns, "peer-to-peer through the root complex").range(0, kMostNs).required();
  r.add("far_peer_gb_per_s", &RootComplexDatasheet::far_peer_gb_per_s,
        "what two GPUs below different sockets write to each other over PCIe, both ways together; 0: no limit")
      .none_or(kLeastRate, kMostRate);
  r.add("buffer_bytes", &RootComplexDatasheet::buffer_bytes, "per input port and virtual channel")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<NvSwitchDatasheet> nvswitch_record() {
  Record<NvSwitchDatasheet> r;
  r.add("hop_ns", &NvSwitchDatasheet::hop_ns, "cut-through latency").range(0, kMostNs).required();
  r.add("buffer_bytes", &NvSwitchDatasheet::buffer_bytes, "per link and virtual channel")
      .range(1, kMostBytes)
      .required();
  r.add("reduction_slots", &NvSwitchDatasheet::reduction_slots,
        "in-switch results under way per link; 0: it neither reduces nor multicasts")
      .none_or(1, 1e6);
  r.add("reduction_slot_bytes", &NvSwitchDatasheet::reduction_slot_bytes, "of one result").none_or(1, kMostBytes);
  r.add("reduction_gb_per_s", &NvSwitchDatasheet::reduction_gb_per_s, "results per link; 0: as fast as the link")
      .none_or(kLeastRate, kMostRate);
  return r;
}

Record<HostMemoryDatasheet> host_memory_record() {
  Record<HostMemoryDatasheet> r;
  r.add("gb_per_s", &HostMemoryDatasheet::gb_per_s, "DRAM of a socket, one direction").above(0, kMostRate).required();
  r.add("read_latency_ns", &HostMemoryDatasheet::read_latency_ns, "read request to completion")
      .range(0, kMostNs)
      .required();
  r.add("buffer_bytes", &HostMemoryDatasheet::buffer_bytes, "of writes, per virtual channel")
      .range(1, kMostBytes)
      .required();
  r.add("bounce_chunk_bytes", &HostMemoryDatasheet::bounce_chunk_bytes, "chunk of a staging buffer between two GPUs")
      .range(64, kMostBytes)
      .required();
  r.add("bounce_start_us", &HostMemoryDatasheet::bounce_start_us,
        "start of each chunk's copy in, and out, where copy engines stage between GPUs without peer access")
      .range(0, 1000)
      .required();
  r.add("bounce_chunks", &HostMemoryDatasheet::bounce_chunks, "chunks that a staging buffer holds")
      .range(1, 65536)
      .required();
  return r;
}

Record<NicDatasheet> nic_record() {
  Record<NicDatasheet> r;
  r.add("gb_per_s", &NicDatasheet::gb_per_s, "network port, one direction").above(0, kMostRate).required();
  r.add("pcie_generation", &NicDatasheet::pcie_generation, "PCIe generation")
      .range(kOldestPcie, kNewestPcie)
      .required();
  r.add("pcie_lanes", &NicDatasheet::pcie_lanes, "PCIe lanes").range(1, 32);
  r.add("post_ns", &NicDatasheet::post_ns, "one host thread's time to post a work request")
      .range(0, kMostNs)
      .cite("perftest, ConnectX-6: 2.6 million writes a second");
  r.add("inline_bytes", &NicDatasheet::inline_bytes, "a host's work request carries the data up to so many")
      .range(0, 4096)
      .cite("linux-rdma/perftest: of a write's latency");
  r.add("doorbell_ns", &NicDatasheet::doorbell_ns, "work request to first read request").range(0, kMostNs).required();
  r.add("transmit_ns", &NicDatasheet::transmit_ns, "transmit pipeline").range(0, kMostNs).required();
  r.add("receive_ns", &NicDatasheet::receive_ns, "receive pipeline").range(0, kMostNs).required();
  r.add("read_tags", &NicDatasheet::read_tags, "outstanding PCIe read requests").range(1, 4096).required();
  r.add("buffer_bytes", &NicDatasheet::buffer_bytes,
        "read data waiting for the network; receive buffer per virtual lane")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<IbSwitchDatasheet> ib_switch_record() {
  Record<IbSwitchDatasheet> r;
  r.add("gb_per_s", &IbSwitchDatasheet::gb_per_s, "one port, one direction").above(0, kMostRate).required();
  r.add("ports", &IbSwitchDatasheet::ports, "ports").range(2, 4096).required();
  r.add("hop_ns", &IbSwitchDatasheet::hop_ns, "cut-through latency").range(0, kMostNs).required();
  r.add("buffer_bytes", &IbSwitchDatasheet::buffer_bytes, "per input port and virtual lane")
      .range(1, kMostBytes)
      .required();
  return r;
}

Record<BoardDatasheet> board_record() {
  Record<BoardDatasheet> r;
  r.add("gpus", &BoardDatasheet::gpus, "GPUs per server").range(1, 128).required();
  r.add("trays", &BoardDatasheet::trays, "parts of a server at which PCIe ends").range(1, 64);
  r.add("sockets", &BoardDatasheet::sockets, "CPU sockets per server").range(1, 128);
  r.add("pcie_switches", &BoardDatasheet::pcie_switches,
        "PCIe switches per server; 0: GPUs and NICs hang at the sockets")
      .range(0, 16);
  r.add("c2c", &BoardDatasheet::c2c, "GPUs meet their socket over NVLink-C2C");
  r.add("amd", &BoardDatasheet::amd, "CPUs are AMD's, between which NCCL plans with less");
  r.add("nics", &BoardDatasheet::nics, "NICs per server, spread evenly over its PCIe switches or sockets")
      .range(1, kMostNics)
      .required();
  r.add("gpu", &BoardDatasheet::gpu, "default GPU datasheet").required();
  r.add("nic", &BoardDatasheet::nic, "default NIC datasheet").required();
  r.add("pcie_switch", &BoardDatasheet::pcie_switch, "default PCIe switch datasheet");
  r.add("nvlink_planes", &BoardDatasheet::nvlink_planes, "links from each GPU to each NVSwitch").range(1, 64);
  return r;
}

/// The physical roles of a machine: what a board file gives, and what machine.overrides may change.
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
}

struct Sheet {
  std::string file;
  NodePtr root;
};

constexpr std::size_t kLongestDatasheet = 1u << 20;

Sheet open_sheet(const std::string& folder, const DatasheetName& which) {
  const std::string& name = which.name;
  if (is_datasheet_path(name))
    return {name, parse_yaml(read_file(name, which.origin, which.key, kLongestDatasheet), name)};
  for (std::size_t i = 0; i < kEmbeddedFileCount; ++i) {
    if (folder + "/" + name == kEmbeddedFiles[i].path) {
      const std::string path = "platforms/datasheets/" + folder + "/" + name + ".yaml";
      return {path, parse_yaml(kEmbeddedFiles[i].text, path)};
    }
  }
  const std::vector<std::string> shipped = shipped_datasheets(folder);
  const std::string near = nearest(name, shipped);
  throw InputError(which.origin, which.key + ": no datasheet " + in_quotes(name) + "; shipped: " + joined(shipped) +
                                     "; or a path to a .yaml file" +
                                     (near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

/// Takes `source:` out, which every datasheet must have, and reads the rest.
template <class T>
std::string read_sheet(const Sheet& sheet, const Record<T>& record, T& into) {
  if (sheet.root->kind != Node::Kind::mapping) {
    throw InputError(sheet.root->origin, "expected a mapping, got " + sheet.root->described());
  }
  auto rest = std::make_shared<Node>(*sheet.root);
  const Entry* source = sheet.root->find("source");
  if (!source) throw InputError(sheet.root->origin, "source: is required; where the figures come from");
  const std::string text = read_text({}, *source->value, "source");
  rest->entries.erase(
      std::find_if(rest->entries.begin(), rest->entries.end(), [](const Entry& e) { return e.key == "source"; }));
  record.read(into, *rest, "");
  return text;
}

/// Puts in what `sheet` leaves out of the fields that it inherits.
NodePtr with_inherited(const Fields& fields, const NodePtr& sheet, const Node& family) {
  if (sheet->kind != Node::Kind::mapping || family.kind != Node::Kind::mapping) return sheet;
  auto whole = std::make_shared<Node>(*sheet);
  for (const Field& field : fields) {
    const Entry* const theirs = family.find(field.key);
    const auto own =
        std::find_if(whole->entries.begin(), whole->entries.end(), [&](const Entry& e) { return e.key == field.key; });
    const bool is_missing = own == whole->entries.end();
    if (!theirs) continue;
    if (field.is_inherited) {
      if (is_missing) whole->entries.push_back(*theirs);
    } else if (field.kind == Field::Kind::mapping) {
      Node empty;
      empty.kind = Node::Kind::mapping;
      empty.origin = sheet->origin;
      const NodePtr filled =
          with_inherited(*field.members, is_missing ? std::make_shared<const Node>(empty) : own->value, *theirs->value);
      if (!is_missing)
        own->value = filled;
      else if (!filled->entries.empty())
        whole->entries.push_back({field.key, sheet->origin, filled});
    }
  }
  return whole;
}

/// A GPU's datasheet with the constants of its family, which may have a family, too.
Sheet open_gpu(const DatasheetName& which, const Fields& fields, std::uint32_t followers = 0) {
  constexpr std::uint32_t kMostFollowers = 8;
  if (followers > kMostFollowers)
    throw InputError(which.origin, which.key + ": more than " + std::to_string(kMostFollowers) +
                                       " datasheets follow each other, or one follows itself");
  Sheet sheet = open_sheet("gpus", which);
  const Entry* const family = sheet.root->find("family");
  if (!family) return sheet;
  DatasheetName base_name{read_text({}, *family->value, "family"), "family", family->value->origin};
  if (is_datasheet_path(base_name.name))
    base_name.name = (std::filesystem::path(sheet.file).parent_path() / base_name.name).string();
  const Sheet base = open_gpu(base_name, fields, followers + 1);
  sheet.root = with_inherited(fields, sheet.root, *base.root);
  return sheet;
}

template <class T>
T load_named(const std::string& folder, const DatasheetName& which, const Record<T>& record) {
  T sheet;
  read_sheet(open_sheet(folder, which), record, sheet);
  sheet.name = std::filesystem::path(which.name).stem().string();
  return sheet;
}

template <class T>
void load_protocol(const std::string& name, const Record<T>& record, T& into) {
  read_sheet(open_sheet("links", DatasheetName{name, "", Origin{}}), record, into);
}

}  // namespace

bool is_datasheet_path(const std::string& name) {
  const std::string ending = ".yaml";
  return name.find('/') != std::string::npos ||
         (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0);
}

std::vector<std::string> shipped_datasheets(const std::string& folder) {
  std::vector<std::string> names;
  const std::string prefix = folder + "/";
  for (std::size_t i = 0; i < kEmbeddedFileCount; ++i) {
    const std::string path = kEmbeddedFiles[i].path;
    if (path.compare(0, prefix.size(), prefix) == 0) names.push_back(path.substr(prefix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

GpuDatasheet load_gpu(const DatasheetName& which) {
  Record<GpuDatasheet> record = gpu_record();
  const Sheet whole = open_gpu(which, record.fields());
  const bool is_follower = whole.root->find("family") != nullptr;
  GpuDatasheet sheet;
  if (is_follower) sheet.calibration = "family";
  record
      .word("architecture", &GpuDatasheet::architecture, {"volta", "ampere", "ada", "hopper", "blackwell", "cdna3"},
            "GPU family")
      .required();
  record
      .word("calibration", &GpuDatasheet::calibration, {"measured", "family", "specification"},
            "where the fitted constants come from")
      .is_required = !is_follower;
  record.add("family", &GpuDatasheet::family, "the device whose fitted constants these follow");
  sheet.source = read_sheet(whole, record, sheet);
  sheet.name = std::filesystem::path(which.name).stem().string();
  return sheet;
}

NicDatasheet load_nic(const DatasheetName& which) {
  Record<NicDatasheet> record = nic_record();
  record.word("protocol", &NicDatasheet::protocol, {"infiniband", "roce", "efa"}, "what it speaks").required();
  record.add("network", &NicDatasheet::network, "network switch datasheet that it meets by default").required();
  return load_named("nics", which, record);
}
IbSwitchDatasheet load_ib_switch(const DatasheetName& which) {
  Record<IbSwitchDatasheet> record = ib_switch_record();
  record.add("ethernet", &IbSwitchDatasheet::ethernet, "switches Ethernet (roce, efa) and not InfiniBand").required();
  return load_named("network_switches", which, record);
}
InfiniBandProtocol load_network_protocol(const std::string& name) {
  InfiniBandProtocol protocol;
  load_protocol(name, infiniband_record(), protocol);
  return protocol;
}
NvLinkProtocol load_nvlink_protocol(std::uint32_t generation, DatasheetName gpu) {
  gpu.name = "nvlink" + std::to_string(generation);
  NvLinkProtocol protocol;
  read_sheet(open_sheet("links", gpu), nvlink_record(), protocol);
  return protocol;
}
PcieSwitchDatasheet load_pcie_switch(const DatasheetName& which) {
  return load_named("pcie_switches", which, pcie_switch_record());
}

workload::Host load_host(const std::string& preset) {
  using workload::Host;
  Record<Host> r;
  r.add("async", &Host::async, "a step is prepared while the one before runs").required();
  r.add("step_us", &Host::step_us, "of each step").range(0, kLongestHostUs).required();
  r.add("sequence_us", &Host::sequence_us, "of each sequence of a step").range(0, kLongestHostUs).required();
  r.add("layer_us", &Host::layer_us, "of each layer whose kernels are launched one by one")
      .range(0, kLongestHostUs)
      .required();
  r.add("request_us", &Host::request_us, "before a request is queued").range(0, kLongestHostUs).required();
  r.add("token_us", &Host::token_us, "before the client has a token").range(0, kLongestHostUs).required();
  return load_named("hosts", DatasheetName{preset, "workload.host.preset", Origin{}}, r);
}

MachineSpec load_board(const std::string& platform) {
  MachineSpec machine;
  Record<MachineSpec> record;
  record.nested("board", &MachineSpec::board, board_record(), "what a server holds").required();
  record.nested("gpu_pcie", &MachineSpec::gpu_pcie, pcie_link_record(), "link between a GPU and its PCIe switch");
  record.nested("nvlink", &MachineSpec::nvlink, link_record(), "one NVLink");
  add_link_roles(record);
  read_sheet(open_sheet("boards", DatasheetName{platform, "platform", Origin{}}), record, machine);
  machine.board.name = platform;
  load_protocol("pcie", pcie_record(), machine.pcie);
  load_protocol("pcie_credits", pcie_credits_record(), machine.pcie_credits);
  load_protocol("c2c", c2c_record(), machine.c2c);
  return machine;
}

const Fields& override_fields() {
  static const Fields fields = [] {
    Record<MachineSpec> r;
    r.mapping("gpu", gpu_record().fields(), "every group's GPU", [](void* record) {
      std::vector<void*> gpus;
      for (GroupSpec& group : static_cast<MachineSpec*>(record)->groups) gpus.push_back(&group.gpu);
      return gpus;
    });
    // A link to a GPU exists once a group, because groups may differ in GPU.
    const auto of_each_group = [](LinkDatasheet MachineSpec::*all, LinkDatasheet GroupSpec::*one) {
      return [all, one](void* record) {
        MachineSpec& machine = *static_cast<MachineSpec*>(record);
        std::vector<void*> links{&(machine.*all)};
        for (GroupSpec& group : machine.groups) links.push_back(&(group.*one));
        return links;
      };
    };
    r.mapping("gpu_pcie", pcie_link_record().fields(), "link between a GPU and its PCIe switch or socket",
              of_each_group(&MachineSpec::gpu_pcie, &GroupSpec::gpu_pcie));
    r.mapping("nvlink", link_record().fields(), "one NVLink; a GPU has several to each NVSwitch",
              of_each_group(&MachineSpec::nvlink, &GroupSpec::nvlink));
    add_link_roles(r);
    r.nested("plx", &MachineSpec::plx, pcie_switch_record(), "PCIe switch");
    r.nested("nic", &MachineSpec::nic, nic_record(), "InfiniBand NIC");
    r.nested("ib_switch", &MachineSpec::ib_switch, ib_switch_record(), "InfiniBand switch");
    r.nested("pcie", &MachineSpec::pcie, pcie_record(), "PCIe protocol");
    r.nested("pcie_credits", &MachineSpec::pcie_credits, pcie_credits_record(), "PCIe flow control credits");
    r.nested("c2c", &MachineSpec::c2c, c2c_record(), "NVLink-C2C protocol");
    r.mapping("nvlink_protocol", nvlink_record().fields(), "NVLink protocol", [](void* record) {
      std::vector<void*> protocols;
      for (GroupSpec& group : static_cast<MachineSpec*>(record)->groups) protocols.push_back(&group.nvlink_protocol);
      return protocols;
    });
    r.nested("infiniband", &MachineSpec::infiniband, infiniband_record(), "InfiniBand protocol");
    return r.fields();
  }();
  return fields;
}

}  // namespace railyard::scenario
