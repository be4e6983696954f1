#include "sc_main/scenario/datasheets/datasheets.h"

#include <array>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "gpu/kernels/device_terms.h"
#include "sc_main/scenario/datasheets/connector_record.h"
#include "sc_main/scenario/datasheets/engine_record.h"
#include "sc_main/scenario/datasheets/gpu_record.h"
#include "sc_main/scenario/datasheets/kernel_record.h"
#include "sc_main/scenario/datasheets/machine_records.h"
#include "sc_main/scenario/datasheets/sheet_file.h"
#include "sc_main/scenario/datasheets/software_record.h"
#include "sc_main/scenario/table/lists.h"
#include "sc_main/scenario/table/render.h"
#include "sc_main/scenario/table/tree.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using namespace platforms;
using gpu::GpuDatasheet;

namespace {

/// Cards, NVIDIA's modules by socket, AMD's modules, and GPUs on one board with their CPU.
constexpr std::array<const char*, 8> kGpuForms{"pcie", "sxm2", "sxm4",         "sxm5",
                                               "sxm6", "oam",  "grace_hopper", "grace_blackwell"};

std::string name_of(const DatasheetName& which) {
  return is_file_name(which.name) ? std::filesystem::path(which.name).stem().string() : which.name;
}

template <class T>
T load_named(const std::string& folder, const DatasheetName& which, const Record<T>& record) {
  T sheet;
  read_sheet(open_sheet(folder, which), record, sheet);
  sheet.name = name_of(which);
  return sheet;
}

/// A library without an attention kernel of its own runs that of FlashAttention.
NodePtr with_all_libraries(const NodePtr& sheet) {
  auto whole = std::make_shared<Node>(*sheet);
  const std::pair<const char*, std::vector<const char*>> sections[] = {{"prefill", {"trtllm", "cudnn"}},
                                                                       {"decode", {"xqa", "masked", "cudnn"}}};
  for (Entry& entry : whole->entries)
    for (const auto& [section, libraries] : sections) {
      const Entry* const flash = entry.key == section ? entry.value->find("flash") : nullptr;
      for (const char* const library : libraries)
        if (flash && !entry.value->find(library))
          entry.value = joined(entry.value, mapping(flash->origin, {{library, flash->value}}));
    }
  return whole;
}

/// The sheet of a GPU's kernels, if its datasheet names none.
std::string default_kernels(const GpuDatasheet& gpu) {
  return small_shared_memory(gpu) ? gpu::kCardKernels : facts_of(gpu.architecture).kernels;
}

template <class T>
void load_protocol(const std::string& name, const Record<T>& record, T& into) {
  read_sheet(open_sheet("links", DatasheetName{name, "", Origin{}}), record, into);
}

}  // namespace

Sheet open_kernels(const DatasheetName& which, const Sheet& whole, const GpuDatasheet& gpu) {
  const Entry* const named = whole.root->find("kernels");
  Sheet sheet = open_with_base(
      "kernels", named ? named_in(whole, *named) : DatasheetName{default_kernels(gpu), which.key, which.origin});
  if (sheet.root->kind == Node::Kind::mapping) sheet.root = with_all_libraries(sheet.root);
  return sheet;
}

GpuDatasheet load_gpu(const DatasheetName& which) {
  Record<GpuDatasheet> record = gpu_record();
  const Sheet whole = open_gpu(which, record.fields());
  const bool is_follower = whole.root->find("family") != nullptr;
  GpuDatasheet sheet;
  if (is_follower) sheet.calibration = "family";
  record.choice("architecture", &GpuDatasheet::architecture, words_of(gpu::kArchitectureNames), "GPU family")
      .required();
  record
      .word("calibration", &GpuDatasheet::calibration, {"measured", "family", "specification"},
            "source of the fitted constants")
      .is_required = !is_follower;
  record.add("family", &GpuDatasheet::family, "the device from which the fitted constants are taken");
  record.custom(
      "kernels",
      "constants of its kernels: a sheet of the folder kernels, or a path; without it, those of the architecture",
      "text",
      [] {
        return nlohmann::json{{"type", "string"}};
      },
      [](GpuDatasheet&, const Node& node, const std::string& path) { read_text({}, node, path); });
  record.custom(
      "form", "form factor; without it, the GPU fits every board", "word",
      [] {
        return nlohmann::json{{"enum", kGpuForms}};
      },
      [](GpuDatasheet&, const Node& node, const std::string& path) {
        Field field;
        field.choices = words_of(kGpuForms);
        read_choice(field, node, path);
      });
  record.custom(
      "server", "parts of the vendor's server with this GPU, where they are not those of its board", "mapping",
      [] { return schema_of_fields(server_parts_record().fields(), false); },
      [](GpuDatasheet&, const Node& node, const std::string& path) {
        ServerParts parts;
        server_parts_record().read(parts, node, path);
      });
  sheet.source = read_sheet(whole, record, sheet);
  read_sheet(open_kernels(which, whole, sheet), kernel_record(), sheet.kernels);
  sheet.name = std::filesystem::path(which.name).stem().string();
  return sheet;
}

std::string gpu_form(const DatasheetName& which) {
  const Sheet sheet = open_gpu(which, gpu_record().fields());
  const Entry* const form = sheet.root->find("form");
  return form ? form->value->text : "";
}

ServerParts server_parts(const DatasheetName& gpu) {
  const Sheet sheet = open_gpu(gpu, gpu_record().fields());
  const Entry* const server = sheet.root->find("server");
  ServerParts parts;
  if (server) server_parts_record().read(parts, *server->value, "server");
  return parts;
}

std::vector<std::string> board_forms(const std::string& platform) {
  std::vector<std::string> forms;
  const Sheet sheet = open_sheet("boards", DatasheetName{platform, "platform", Origin{}});
  for (const std::size_t form : read_choices(kGpuForms, *sheet.root->find("gpu_forms")->value, "gpu_forms"))
    forms.emplace_back(kGpuForms[form]);
  return forms;
}

NicDatasheet load_nic(const DatasheetName& which) {
  Record<NicDatasheet> record = nic_record();
  record.word("protocol", &NicDatasheet::protocol, {"infiniband", "roce", "efa"}, "protocol of the network port")
      .required();
  record.add("network", &NicDatasheet::network, "default network switch datasheet").required();
  return load_named("nics", which, record);
}
IbSwitchDatasheet load_ib_switch(const DatasheetName& which) {
  Record<IbSwitchDatasheet> record = ib_switch_record();
  record.add("ethernet", &IbSwitchDatasheet::ethernet, "the switch is for Ethernet (roce, efa), not for InfiniBand")
      .required();
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

EngineSheet load_engine(const DatasheetName& which) {
  const Sheet whole = open_with_base("engines", which);
  EngineSheet engine;
  read_sheet(whole, engine_record(), engine);
  engine.name = name_of(which);
  check_reachable(engine, whole.root);
  for (const gpu::BlockScaledProducts& products : engine.block_scaled_products)
    for (const gpu::Architecture architecture : products.architectures)
      if (products.library == gpu::GemmLibrary::deepgemm && !gpu::facts_of(architecture).runs_deepgemm)
        throw InputError(which.origin, which.key + ": " + which.name +
                                           ": block_scaled_products: deepgemm is known for hopper, not for " +
                                           name_of(architecture) + "; accepted there: cublas");
  return engine;
}

EngineSheet load_serving_engine(const DatasheetName& which) {
  EngineSheet engine = load_engine(which);
  if (engine.scheduler && engine.host) {
    engine.host->name = engine.name;
    return engine;
  }
  std::vector<std::string> others = shipped_datasheets("engines");
  others.erase(std::remove(others.begin(), others.end(), which.name), others.end());
  throw InputError(which.origin,
                   which.key + ": " + which.name + " has no " + (engine.scheduler ? "host" : "scheduler") +
                       ", so it serves no requests; accepted: " + joined(others) + ", or a file with both sections");
}

workload::inference::KvConnector load_connector(const DatasheetName& which) {
  Record<workload::inference::KvConnector> record = connector_record();
  record.require_all();
  return load_named("connectors", which, record);
}

workload::training::Software load_software(const DatasheetName& which) {
  return load_named("software", which, software_record());
}

MachineSpec load_board(const std::string& platform, MachineSpec machine) {
  Record<MachineSpec> record;
  record
      .custom(
          "gpu_forms", "form factors of GPUs that the board holds", "list of words",
          [] {
            return list_schema({{"enum", kGpuForms}});
          },
          [](MachineSpec&, const Node& node, const std::string& path) { read_choices(kGpuForms, node, path); })
      .required();
  record.nested("board", &MachineSpec::board, board_record(), "parts of a server").required();
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

void load_pcie_board(const DatasheetName& which, MachineSpec& machine) {
  constexpr std::uint32_t kMostSockets = 2, kMostSwitches = 8;
  Record<MachineSpec> record;
  record.nested("board", &MachineSpec::board, pcie_board_record(kMostSockets, kMostSwitches), "parts of a server")
      .required();
  record.nested("root_complex", &MachineSpec::root_complex, root_complex_record(), "a CPU's PCIe root complex")
      .required();
  record.nested("socket_link", &MachineSpec::socket_link, link_record(), "link between two CPU sockets");
  const Sheet sheet = open_sheet("pcie_boards", which);
  read_sheet(sheet, record, machine);
  if (machine.board.gpus % branches_of(machine.board) != 0)
    throw InputError(sheet.root->find("board")->value->find("pcie_switches")->origin,
                     "board.pcie_switches: " + std::to_string(machine.board.pcie_switches) +
                         " PCIe switches cannot divide the " + std::to_string(machine.board.gpus) +
                         " GPUs of a server evenly; accepted: 0, 1, 2, 4 or 8");
}

const Fields& override_fields() {
  static const Fields fields = [] {
    Record<MachineSpec> r;
    r.mapping("gpu", gpu_record().fields(), "GPU of every group", [](void* record) {
      std::vector<void*> gpus;
      for (GroupSpec& group : static_cast<MachineSpec*>(record)->groups) gpus.push_back(&group.gpu);
      return gpus;
    });
    r.mapping("kernels", kernel_record().fields(), "kernels of every group's GPU", [](void* record) {
      std::vector<void*> kernels;
      for (GroupSpec& group : static_cast<MachineSpec*>(record)->groups) kernels.push_back(&group.gpu.kernels);
      return kernels;
    });
    // A link to a GPU exists once per group, because groups can have different GPUs.
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
