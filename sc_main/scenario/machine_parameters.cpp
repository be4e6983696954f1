#include "sc_main/scenario/machine_parameters.h"

#include <algorithm>
#include <map>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/datasheets/gpu_record.h"
#include "sc_main/scenario/datasheets/sheet_file.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using namespace platforms;

namespace {

constexpr const char* kLinkRoles[] = {"gpu_pcie", "nvlink", "nic_pcie", "plx_uplink", "plx_cascade", "ib_cable"};

NodePtr at_key(const NodePtr& mapping, const std::string& key) {
  const Entry* const entry = mapping == nullptr || mapping->kind != Node::Kind::mapping ? nullptr : mapping->find(key);
  return entry == nullptr ? nullptr : entry->value;
}

/// The files of a machine's datasheets, by role.
class Sheets {
 public:
  Sheets(const MachineSection& written, const MachineSpec& machine, const Source& source)
      : written_(written), machine_(machine), source_(source) {}

  /// What the file of a role says; null: nothing, or there is no such device.
  NodePtr of(const std::string& role, std::uint32_t group) const {
    const BoardDatasheet& board = machine_.board;
    if (role == "gpu") return gpu(group);
    if (role == "kernels") return kernels(group);
    if (role == "plx")
      return board.pcie_switches == 0 ? nullptr
                                      : open("pcie_switches", written_.plx, board.pcie_switch, "machine.plx.datasheet");
    if (role == "nic") return open("nics", written_.nic, board.nic, "machine.nic.datasheet");
    if (role == "ib_switch")
      return open("network_switches", written_.network, machine_.nic.network, "machine.network.datasheet");
    if (role == "pcie" || role == "pcie_credits" || role == "c2c") return open("links", "", role, role);
    if (role == "infiniband") return open("links", "", machine_.nic.protocol, role);
    if (role == "nvlink_protocol") {
      const double generation = machine_.groups[group].gpu.nvlink.generation;
      return generation == 0 ? nullptr
                             : open("links", "", "nvlink" + std::to_string(static_cast<int>(generation)), role);
    }
    if (!written_.board.empty())
      if (const NodePtr own = at_key(open("pcie_boards", written_.board, "", "machine.plx.board"), role)) return own;
    return at_key(open("boards", "", board.name, "platform"), role);
  }

 private:
  NodePtr open(const char* folder, const std::string& written, const std::string& fallback,
               const std::string& key) const {
    return open_sheet(folder, {written.empty() ? fallback : written, key, place_of(source_.root, key)}).root;
  }
  DatasheetName gpu_name(std::uint32_t group) const {
    const std::string& name = machine_.groups[group].name;
    const auto own = std::find_if(written_.groups.begin(), written_.groups.end(),
                                  [&](const GroupSection& g) { return g.name == name && !g.datasheet.empty(); });
    const std::string key = "machine.groups." + name + ".gpu";
    return {own == written_.groups.end() ? machine_.board.gpu : own->datasheet, key, place_of(source_.root, key)};
  }
  NodePtr gpu(std::uint32_t group) const { return open_gpu(gpu_name(group), gpu_record().fields()).root; }
  NodePtr kernels(std::uint32_t group) const {
    const DatasheetName name = gpu_name(group);
    return open_kernels(name, open_gpu(name, gpu_record().fields()), machine_.groups[group].gpu).root;
  }

  const MachineSection& written_;
  const MachineSpec& machine_;
  const Source& source_;
};

std::string text_of(const NodePtr& node) {
  if (node->kind == Node::Kind::scalar) return node->text;
  std::string text;
  for (const NodePtr& item : node->items) text += (text.empty() ? "" : ", ") + text_of(item);
  for (const Entry& entry : node->entries) text += (text.empty() ? "" : ", ") + entry.key + ": " + text_of(entry.value);
  return node->kind == Node::Kind::mapping ? "{" + text + "}" : "[" + text + "]";
}

std::string unit_of(const Field& field) {
  const std::string unit = unit_of_key(field.key);
  return unit.substr(0, unit.find(" ("));  // without its definition
}

/// Keys of `machine` whose default depends on the machine.
std::map<std::string, std::string> found_values(const MachineSpec& machine) {
  const bool is_single = machine.network == NetworkKind::single_switch;
  return {{"cpu", kCpuNames[static_cast<std::size_t>(machine.board.cpu)]},
          {"plx.datasheet", machine.plx.name},
          {"plx.switches", std::to_string(machine.board.pcie_switches)},
          {"nic.datasheet", machine.nic.name},
          {"nic.per_server", std::to_string(machine.nics_per_server)},
          {"network.kind", is_single ? "single_switch" : "leaf_spine"},
          {"network.datasheet", machine.ib_switch.name}};
}

bool is_derived(const MachineParameter& row) {
  return std::count(std::begin(kLinkRoles), std::end(kLinkRoles), row.role) > 0 && row.value != "0";
}

/// Adds the scalars of a table.
/// @param record     with the values
/// @param overrides  what machine.overrides says of them; null: nothing  @param sheet  what the file says
void add(std::vector<MachineParameter>& rows, const MachineParameter& of, const Fields& fields, void* record,
         const NodePtr& overrides, const NodePtr& sheet) {
  for (const Field& field : fields) {
    MachineParameter row = of;
    row.key += (row.key.empty() ? "" : ".") + field.key;
    const NodePtr overridden = at_key(overrides, field.key), given = at_key(sheet, field.key);
    if (field.kind == Field::Kind::mapping && field.targets) {
      add(rows, row, *field.members, field.targets(record).front(), overridden, given);
      continue;
    }
    if (field.show) {
      row.value = field.show(field, record);
    } else if (overridden || given) {
      row.value = text_of(overridden ? overridden : given);
    } else {
      row.value = field.default_text;
    }
    row.unit = unit_of(field);
    row.origin = overridden        ? "override " + overridden->origin.str()
                 : given           ? "datasheet " + given->origin.str()
                 : is_derived(row) ? "derived"
                                   : "default";
    rows.push_back(std::move(row));
  }
}

/// The keys of `machine`, without what is below `overrides` and lists. @param found  values that the scenario need not set
void add_section(std::vector<MachineParameter>& rows, const MachineParameter& of, const Fields& fields,
                 const std::map<std::string, std::string>& found, const NodePtr& written) {
  for (const Field& field : fields) {
    MachineParameter row = of;
    row.key += (row.key.empty() ? "" : ".") + field.key;
    const NodePtr own = at_key(written, field.key);
    if (field.kind == Field::Kind::mapping) {
      if (!field.is_partial) add_section(rows, row, *field.members, found, own);
      continue;
    }
    if (field.kind == Field::Kind::list || field.kind == Field::Kind::named) continue;
    const auto derived = found.find(row.key);
    row.value = own ? text_of(own) : derived != found.end() ? derived->second : field.default_text;
    row.unit = unit_of(field);
    row.origin = own ? "scenario " + own->origin.str() : derived != found.end() ? "derived" : "default";
    rows.push_back(std::move(row));
  }
}

}  // namespace

std::vector<MachineParameter> machine_parameters(const MachineSection& written, const MachineSpec& machine,
                                                 const Source& source) {
  std::vector<MachineParameter> rows;
  const Fields& top = scenario_table().fields();
  const auto of_machine = std::find_if(top.begin(), top.end(), [](const Field& f) { return f.key == "machine"; });
  add_section(rows, {}, *of_machine->members, found_values(machine), value_at(source.root, "machine"));

  const Sheets sheets(written, machine, source);
  MachineSpec spec = machine;
  for (const Field& role : override_fields()) {
    const std::vector<void*> records = role.targets(&spec);
    const auto groups = static_cast<std::uint32_t>(spec.groups.size());
    // Roles with a record for each group, some after one for all.
    const bool by_group =
        records.size() >= groups && (role.key == "gpu" || role.key == "kernels" || role.key == "gpu_pcie" ||
                                     role.key == "nvlink" || role.key == "nvlink_protocol");
    for (std::uint32_t group = 0; group < (by_group ? groups : 1); ++group) {
      MachineParameter of;
      of.role = role.key;
      of.group = group;
      add(rows, of, *role.members, records[by_group ? records.size() - groups + group : 0],
          value_at(source.root, "machine.overrides." + role.key), sheets.of(role.key, group));
    }
  }
  return rows;
}

}  // namespace railyard::scenario
