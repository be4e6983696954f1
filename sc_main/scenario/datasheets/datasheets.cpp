#include "sc_main/scenario/datasheets/datasheets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/embedded.h"
#include "sc_main/scenario/datasheets/engine_record.h"
#include "sc_main/scenario/datasheets/gpu_record.h"
#include "sc_main/scenario/datasheets/machine_records.h"
#include "sc_main/scenario/datasheets/software_record.h"
#include "sc_main/scenario/table/lists.h"
#include "sc_main/scenario/table/tree.h"
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
/// Cards, NVIDIA's modules by socket, AMD's modules, and GPUs on one board with their CPU.
constexpr std::array<const char*, 8> kGpuForms{"pcie", "sxm2", "sxm4",         "sxm5",
                                               "sxm6", "oam",  "grace_hopper", "grace_blackwell"};

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

/// The value of a key of a section, or nullptr.
const Node* value_of(const Node& sheet, const std::string& section, const std::string& key) {
  const Entry* const entry = sheet.kind == Node::Kind::mapping ? sheet.find(section) : nullptr;
  const Entry* const value = entry && entry->value->kind == Node::Kind::mapping ? entry->value->find(key) : nullptr;
  return value ? value->value.get() : nullptr;
}

/// A number of a section; 0 if there is none.
double number_at(const Node& sheet, const std::string& section, const std::string& key) {
  const Node* const value = value_of(sheet, section, key);
  return value && value->kind == Node::Kind::scalar ? std::strtod(value->text.c_str(), nullptr) : 0;
}

/// Power per tensor FLOP of the peak, times the root of the FLOP per clock. The energy of a FLOP falls with the root of
/// an SM's tensor rate: the operands of a larger unit are used more often.
double power_headroom(const Node& sheet) {
  const Entry* const sm = sheet.find("sm");
  const double rate = sm ? number_at(*sm->value, "flop_per_clock", "fp16") : 0;
  const double peak = rate * number_at(sheet, "sm", "count") * number_at(sheet, "sm", "clock_mhz");
  return peak > 0 ? number_at(sheet, "sm", "power_w") * std::sqrt(rate) / peak : 0;
}

std::string architecture_of(const Node& sheet) {
  const Entry* const entry = sheet.find("architecture");
  return entry ? entry->value->text : std::string();
}

/// Gives a key another value, unless the GPU has one of its own. @pre the key is in the section
void replace(Node& sheet, const Node& own, const std::string& section, const std::string& key, double value) {
  if (value_of(own, section, key) || !value_of(sheet, section, key)) return;
  const auto with = [](const Node& mapping, const std::string& name, NodePtr changed) {
    auto copy = std::make_shared<Node>(mapping);
    for (Entry& entry : copy->entries)
      if (entry.key == name) entry.value = std::move(changed);
    return copy;
  };
  auto number = std::make_shared<Node>(*value_of(sheet, section, key));
  number->text = fmt::format("{}", value);
  sheet = *with(sheet, section, with(*sheet.find(section)->value, key, std::move(number)));
}

/// The efficiency of tensor cores under the power limit, for a family of another architecture: that of the family
/// times the ratio of headrooms, where the GPU has no efficiency of its own. (A family whose bursts are not throttled
/// has the headroom for its bursts.) In a burst, kBurstLoss of the loss by the power limit has set in already. See the
/// family rule in docs/calibration.md.
void set_power_limit(Node& sheet, const Node& own, const Node& family) {
  constexpr double kMost = 0.98, kBurstLoss = 0.4, kThrottleUs = 1000;
  const double headroom = power_headroom(own), theirs = power_headroom(family);
  if (headroom <= 0 || theirs <= 0 || architecture_of(own) == architecture_of(family)) return;
  const bool throttles = number_at(family, "sm", "throttle_us") > 0;
  const auto limited = [&](const std::string& key) {
    return std::min(kMost, number_at(family, "sm", key) * headroom / theirs);
  };
  const double sustained = limited(throttles ? "sustained_efficiency_ratio" : "burst_efficiency_ratio");
  replace(sheet, own, "sm", "low_precision_sustained_ratio", limited("low_precision_sustained_ratio"));
  if (value_of(own, "sm", "sustained_efficiency_ratio")) return;
  replace(sheet, own, "sm", "sustained_efficiency_ratio", sustained);
  replace(sheet, own, "sm", "burst_efficiency_ratio", 1 - kBurstLoss * (1 - sustained));
  if (!throttles) replace(sheet, own, "sm", "throttle_us", kThrottleUs);
}

/// Times in which SMs execute instructions follow their clock, and so do rates that such times limit. Kernels of
/// collectives draw little power and run at the highest clock, if both GPUs name it. See the family rule in
/// docs/calibration.md.
void set_by_clock(Node& sheet, const Node& own, const Node& family) {
  constexpr std::array<const char*, 2> kKernelTimes = {"gemm_fixed_us", "decode_attention_fixed_us"};
  constexpr std::array<const char*, 13> kCollectiveTimes = {
      "launch_us",       "wide_launch_us",  "graph_launch_us", "p2p_launch_us",  "ll_step_ns",
      "ll_wide_step_ns", "ll_line_ns",      "ll128_step_ns",   "simple_step_ns", "nvls_step_ns",
      "custom_step_ns",  "custom_fence_ns", "custom_pull_ns"};
  constexpr std::array<const char*, 6> kCollectiveRates = {"ll128_gb_per_s", "simple_gb_per_s",   "p2p_gb_per_s",
                                                           "nvls_gb_per_s",  "p2p_copy_gb_per_s", "custom_gb_per_s"};
  const double clock = number_at(own, "sm", "clock_mhz"), theirs = number_at(family, "sm", "clock_mhz");
  if (clock <= 0 || theirs <= 0) return;
  const auto scale = [&](const std::string& section, const std::string& key, double factor) {
    replace(sheet, own, section, key, number_at(family, section, key) * factor);
  };
  const double boost = number_at(own, "sm", "boost_mhz"), their_boost = number_at(family, "sm", "boost_mhz");
  const bool known = boost > 0 && their_boost > 0;
  const double highest = known ? boost : clock, their_highest = known ? their_boost : theirs;
  for (const char* key : kKernelTimes) scale("kernel", key, theirs / clock);
  for (const char* key : kCollectiveTimes) scale("collective", key, their_highest / highest);
  for (const char* key : kCollectiveRates) scale("collective", key, highest / their_highest);
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
  const NodePtr own = sheet.root;
  const auto whole = std::make_shared<Node>(*with_inherited(fields, own, *base.root));
  if (own->kind == Node::Kind::mapping && base.root->kind == Node::Kind::mapping) {
    set_power_limit(*whole, *own, *base.root);
    set_by_clock(*whole, *own, *base.root);
  }
  sheet.root = whole;
  return sheet;
}

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

/// An engine's datasheet with all that it takes from its base. `source` is its own.
Sheet open_with_base(const DatasheetName& which, std::uint32_t followers = 0) {
  constexpr std::uint32_t kMostFollowers = 8;
  if (followers > kMostFollowers)
    throw InputError(which.origin, which.key + ": more than " + std::to_string(kMostFollowers) +
                                       " datasheets in a chain of 'base' keys, or a cycle");
  Sheet sheet = open_sheet("engines", which);
  const Entry* const named = sheet.root->find("base");
  if (!named || !sheet.root->find("source")) return sheet;
  DatasheetName base_name{read_text({}, *named->value, "base"), "base", named->value->origin};
  if (is_file_name(base_name.name))
    base_name.name = (std::filesystem::path(sheet.file).parent_path() / base_name.name).string();
  auto own = std::make_shared<Node>(*sheet.root);
  own->entries.erase(
      std::find_if(own->entries.begin(), own->entries.end(), [](const Entry& e) { return e.key == "base"; }));
  sheet.root = joined(own, open_with_base(base_name, followers + 1).root);
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
  record.choice("architecture", &GpuDatasheet::architecture, words_of(gpu::kArchitectureNames), "GPU family")
      .required();
  record
      .word("calibration", &GpuDatasheet::calibration, {"measured", "family", "specification"},
            "source of the fitted constants")
      .is_required = !is_follower;
  record.add("family", &GpuDatasheet::family, "the device from which the fitted constants are taken");
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
  sheet.source = read_sheet(whole, record, sheet);
  sheet.name = std::filesystem::path(which.name).stem().string();
  return sheet;
}

std::string gpu_form(const DatasheetName& which) {
  const Entry* const form = open_gpu(which, gpu_record().fields()).root->find("form");
  return form ? form->value->text : "";
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
  const Sheet whole = open_with_base(which);
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
