#include "sc_main/scenario/datasheets/datasheets.h"

#include <algorithm>
#include <filesystem>

#include "sc_main/scenario/datasheets/embedded.h"
#include "sc_main/scenario/datasheets/gpu_record.h"
#include "sc_main/scenario/datasheets/machine_records.h"
#include "sc_main/scenario/datasheets/software_record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using namespace platforms;
using gpu::GpuDatasheet;

namespace {

struct Sheet {
  std::string file;
  NodePtr root;
};

constexpr std::size_t kLongestDatasheet = 1u << 20;

Sheet open_sheet(const std::string& folder, const DatasheetName& which) {
  const std::string& name = which.name;
  if (is_file_name(name)) return {name, parse_yaml(read_file(name, which.origin, which.key, kLongestDatasheet), name)};
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

/// Removes `source:`, which every datasheet must have, and reads the rest.
template <class T>
std::string read_sheet(const Sheet& sheet, const Record<T>& record, T& into) {
  if (sheet.root->kind != Node::Kind::mapping) {
    throw InputError(sheet.root->origin, "expected a mapping, got " + sheet.root->described());
  }
  auto rest = std::make_shared<Node>(*sheet.root);
  const Entry* source = sheet.root->find("source");
  if (!source) throw InputError(sheet.root->origin, "source: is required; where the values come from");
  const std::string text = read_text({}, *source->value, "source");
  rest->entries.erase(
      std::find_if(rest->entries.begin(), rest->entries.end(), [](const Entry& e) { return e.key == "source"; }));
  record.read(into, *rest, "");
  return text;
}

/// Adds inherited fields that `sheet` omits.
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

/// A GPU's datasheet with the constants of its family; a family can belong to another family.
Sheet open_gpu(const DatasheetName& which, const Fields& fields, std::uint32_t followers = 0) {
  constexpr std::uint32_t kMostFollowers = 8;
  if (followers > kMostFollowers)
    throw InputError(which.origin, which.key + ": more than " + std::to_string(kMostFollowers) +
                                       " datasheets in a chain of 'family' keys, or a cycle");
  Sheet sheet = open_sheet("gpus", which);
  const Entry* const family = sheet.root->find("family");
  if (!family) return sheet;
  DatasheetName base_name{read_text({}, *family->value, "family"), "family", family->value->origin};
  if (is_file_name(base_name.name))
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
            "source of the fitted constants")
      .is_required = !is_follower;
  record.add("family", &GpuDatasheet::family, "the device from which the fitted constants are taken");
  sheet.source = read_sheet(whole, record, sheet);
  sheet.name = std::filesystem::path(which.name).stem().string();
  return sheet;
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

workload::Host load_host(const std::string& preset) {
  using workload::Host;
  Record<Host> r;
  r.add("async", &Host::async, "the host prepares a step while the previous step runs").required();
  r.add("step_us", &Host::step_us, "time per step").range(0, kLongestHostUs).required();
  r.add("sequence_us", &Host::sequence_us, "time per sequence of a step").range(0, kLongestHostUs).required();
  r.add("layer_us", &Host::layer_us, "time per layer whose kernels are launched one by one")
      .range(0, kLongestHostUs)
      .required();
  r.add("request_us", &Host::request_us, "time before a request is queued").range(0, kLongestHostUs).required();
  r.add("token_us", &Host::token_us, "time before the client has a token").range(0, kLongestHostUs).required();
  return load_named("hosts", DatasheetName{preset, "workload.host.preset", Origin{}}, r);
}

workload::training::Software load_software(const DatasheetName& which) {
  return load_named("software", which, software_record());
}

MachineSpec load_board(const std::string& platform, MachineSpec machine) {
  Record<MachineSpec> record;
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

const Fields& override_fields() {
  static const Fields fields = [] {
    Record<MachineSpec> r;
    r.mapping("gpu", gpu_record().fields(), "GPU of every group", [](void* record) {
      std::vector<void*> gpus;
      for (GroupSpec& group : static_cast<MachineSpec*>(record)->groups) gpus.push_back(&group.gpu);
      return gpus;
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
