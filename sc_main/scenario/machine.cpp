#include "sc_main/scenario/machine.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "gpu/kernels/step_clock.h"
#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using namespace platforms;

namespace {

constexpr std::uint32_t kSwitchLanes = 16;  // of every port towards a CPU or another switch
constexpr int kBitsPerByte = 8;

DatasheetName named(const std::string& written, const std::string& fallback, const std::string& key,
                    const Source& source) {
  return {written.empty() ? fallback : written, key, place_of(source.root, key)};
}

/// A typing error in --set machine.groups.NAME.gpu must not add a server, so a new group must set `servers`.
void check_added_groups(const Source& source, const std::string& key) {
  std::vector<std::string> in_file;
  const NodePtr groups = value_at(source.root, key);
  for (const Entry& entry : groups->entries)
    if (!is_option(entry.origin)) in_file.push_back(entry.key);
  if (in_file.empty()) return;
  for (const Entry& entry : groups->entries)
    if (is_option(entry.origin) && entry.value->find("servers") == nullptr)
      throw InputError(entry.origin, key + "." + entry.key + ": the scenario has no such group" +
                                         suggestion(entry.key, in_file) +
                                         "; to add a group with --set, also set its servers");
}

std::vector<GroupSection> groups_for(const std::vector<GroupSection>& written, const std::vector<std::string>& roles,
                                     const Source& source) {
  const std::string key = "machine.groups";
  const auto plain = [](const std::string& name) {
    GroupSection group;
    group.name = name;
    return group;
  };
  if (roles.empty()) {
    if (!written.empty()) {
      check_added_groups(source, key);
      return written;
    }
    if (value_at(source.root, key))
      throw InputError(place_of(source.root, key), key + ": is empty; accepted: at least one group");
    return {plain("node")};
  }
  for (const GroupSection& group : written) {
    if (std::count(roles.begin(), roles.end(), group.name) > 0) continue;
    throw InputError(value_at(source.root, key)->find(group.name)->origin,
                     key + "." + group.name + ": the workload has no such group" + suggestion(group.name, roles));
  }
  std::vector<GroupSection> groups;
  for (const std::string& role : roles) {
    const auto found =
        std::find_if(written.begin(), written.end(), [&](const GroupSection& group) { return group.name == role; });
    groups.push_back(found == written.end() ? plain(role) : *found);
  }
  return groups;
}

/// The rate of a PCIe link is that of its older end.
double pcie_rate(const PcieProtocol& pcie, std::uint32_t end, std::uint32_t other_end, std::uint32_t lanes) {
  const double rates[] = {pcie.gen3_lane_gb_per_s, pcie.gen4_lane_gb_per_s, pcie.gen5_lane_gb_per_s,
                          pcie.gen6_lane_gb_per_s};
  constexpr std::uint32_t kFirst = 3;
  return rates[std::min(end, other_end) - kFirst] * lanes;
}

void derive_rates(MachineSpec& machine) {
  const std::uint32_t root = machine.root_complex.generation;
  const std::uint32_t branch = machine.board.pcie_switches != 0 ? machine.plx.generation : root;
  for (GroupSpec& group : machine.groups) {
    group.gpu_pcie = machine.gpu_pcie;
    group.gpu_pcie.gb_per_s = machine.board.c2c
                                  ? group.gpu.c2c.gb_per_s
                                  : pcie_rate(machine.pcie, group.gpu.pcie.generation, branch, group.gpu.pcie.lanes);
    group.nvlink = machine.nvlink;
    group.nvlink.gb_per_s = group.gpu.nvlink.gb_per_s;
  }
  const auto advertise = [&](LinkDatasheet& link) {
    const PcieCredits& credits = machine.pcie_credits;
    const auto headers = [&](double per_gb_per_s) { return std::max(1.0, std::round(per_gb_per_s * link.gb_per_s)); };
    link.posted_headers = headers(credits.posted_headers_per_gb_per_s);
    link.non_posted_headers = headers(credits.non_posted_headers_per_gb_per_s);
    link.completion_headers = headers(credits.completion_headers_per_gb_per_s);
  };
  if (!machine.board.c2c)
    for (GroupSpec& group : machine.groups) advertise(group.gpu_pcie);
  machine.gpu_pcie = machine.groups.front().gpu_pcie;
  machine.nvlink = machine.groups.front().nvlink;
  machine.nic_pcie.gb_per_s = pcie_rate(machine.pcie, machine.nic.pcie_generation, branch, machine.nic.pcie_lanes);
  machine.plx_uplink.gb_per_s = pcie_rate(machine.pcie, branch, root, kSwitchLanes);
  machine.plx_cascade.gb_per_s = pcie_rate(machine.pcie, branch, branch, kSwitchLanes);
  for (LinkDatasheet* link : {&machine.nic_pcie, &machine.plx_uplink, &machine.plx_cascade}) advertise(*link);
  machine.ib_cable.gb_per_s = std::min(machine.nic.gb_per_s, machine.ib_switch.gb_per_s);
}

/// A GPU's links to each of the board's NVSwitches: the board's wiring, or, for a GPU with fewer links (A800, H800),
/// the same proportion, rounded down. The rest goes to the switches with the largest shortfall; at equal shortfall, to
/// the first. The disabled links are not published; only the GPU's total rate matters here.
std::vector<std::uint32_t> spread_links(std::uint32_t links, const std::vector<std::uint32_t>& wired) {
  const std::uint32_t all = std::accumulate(wired.begin(), wired.end(), 0u);
  if (links >= all) return wired;
  std::vector<std::uint32_t> planes;
  for (const std::uint32_t w : wired) planes.push_back(links * w / all);
  std::vector<std::size_t> order(wired.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return links * wired[a] % all > links * wired[b] % all; });
  const std::uint32_t left = links - std::accumulate(planes.begin(), planes.end(), 0u);
  for (std::uint32_t i = 0; i < left; ++i) ++planes[order[i]];
  return planes;
}

/// @param gpu  of a group
void check_form(const DatasheetName& gpu, const std::string& platform) {
  const std::string form = gpu_form(gpu);
  const auto holds = [&](const std::string& board) {
    const std::vector<std::string> forms = board_forms(board);
    return std::find(forms.begin(), forms.end(), form) != forms.end();
  };
  if (form.empty() || holds(platform)) return;
  std::vector<std::string> others;
  for (const std::string& board : shipped_datasheets("boards"))
    if (holds(board)) others.push_back(board);
  throw InputError(gpu.origin, gpu.key + ": " + gpu.name + " has the form " + form + "; " + platform + " holds " +
                                   joined(board_forms(platform)) +
                                   (others.empty() ? "; no machine holds it, only workload.kind: kernel runs on it"
                                                   : "; machines that hold it: " + joined(others)) +
                                   "; machine.allow_any_gpu: true lets a what-if run");
}

void check_c2c(const MachineSpec& machine, const Source& source) {
  if (!machine.board.c2c) return;
  for (const GroupSpec& group : machine.groups) {
    if (group.gpu.c2c.gb_per_s > 0) continue;
    const std::string key = "machine.groups." + group.name + ".gpu";
    throw InputError(place_of(source.root, key), key + ": " + group.gpu.name + " has no C2C link; " +
                                                     machine.board.name + " connects GPUs and CPUs over C2C");
  }
}

/// The clock at another power limit follows from the clock at the power limit of the board (gpu/kernels/step_clock.h).
void check_power(const MachineSpec& machine, const Source& source) {
  for (const GroupSpec& group : machine.groups) {
    const auto& sm = group.gpu.sm;
    if (sm.power_limit_w == 0) continue;
    const std::string key = "machine.groups." + group.name + ".gpu";
    const auto refuse = [&](const std::string& why) { throw InputError(place_of(source.root, key), key + ": " + why); };
    if (sm.power_w == 0)
      refuse("sm.power_limit_w needs sm.power_w, which the datasheet of " + group.gpu.name + " does not have");
    const double least = std::ceil(gpu::kLeastPowerLimit * sm.power_w);
    if (sm.power_limit_w < least)
      refuse("sm.power_limit_w: at least " + std::to_string(static_cast<int>(least)) + " W, a quarter of sm.power_w");
  }
}

void bridge_pairs(MachineSpec& machine, const Source& source) {
  const std::string key = "machine.nvlink_bridge";
  if (machine.board.name != "plx_box")
    throw InputError(place_of(source.root, key),
                     key + ": " + machine.board.name + " does not support NVLink bridges; accepted only on plx_box");
  for (GroupSpec& group : machine.groups) {
    if (!group.gpu.nvlink.bridge || group.gpu.nvlink.links == 0 || group.gpu.nvlink.gb_per_s == 0)
      throw InputError(place_of(source.root, key),
                       key + ": " + group.gpu.name + " of group " + group.name + " does not support NVLink bridges");
    group.nvlink_planes = {group.gpu.nvlink.links};
    group.nvlink_mesh = 2;
  }
}

/// Links of a GPU on a board with NVLinks.
std::uint32_t board_links(const GroupSpec& group) {
  return group.gpu.nvlink.bridge || group.gpu.nvlink.gb_per_s == 0 ? 0 : group.gpu.nvlink.links;
}

/// A GPU's links, shared out equally to the other GPUs of its server; what is left over is unused.
void join_mesh(MachineSpec& machine, const Source& source) {
  const std::uint32_t others = machine.board.gpus - 1;
  for (GroupSpec& group : machine.groups) {
    const std::uint32_t links = board_links(group);
    if (links < others) {
      const std::string key = "machine.groups." + group.name + ".gpu";
      throw InputError(place_of(source.root, key), key + ": " + group.gpu.name + " has " + std::to_string(links) +
                                                       " NVLinks to GPUs; " + machine.board.name + " needs " +
                                                       std::to_string(others));
    }
    group.nvlink_planes.assign(others, links / others);
    group.nvlink_mesh = machine.board.gpus;
  }
}

void resolve_nvlink(NvLinkBridge bridge, MachineSpec& machine, const Source& source) {
  const std::vector<std::uint32_t>& wired = machine.board.nvlink_planes;
  if (bridge == NvLinkBridge::pairs) bridge_pairs(machine, source);
  if (machine.board.nvlink_mesh) join_mesh(machine, source);
  if (wired.empty()) return;
  for (GroupSpec& group : machine.groups) {
    const std::uint32_t links = board_links(group);
    if (links < wired.size()) {
      const std::string key = "machine.groups." + group.name + ".gpu";
      throw InputError(place_of(source.root, key), key + ": " + group.gpu.name + " has " + std::to_string(links) +
                                                       " NVLinks to switches; " + machine.board.name + " has " +
                                                       std::to_string(wired.size()) + " NVSwitches");
    }
    group.nvlink_planes = spread_links(links, wired);
  }
}

void resolve_network(const MachineSection& written, MachineSpec& machine, const Source& source) {
  const std::string key = "machine.network";
  machine.ib_switch = load_ib_switch(named(written.network, machine.nic.network, key + ".datasheet", source));
  if (machine.ib_switch.ethernet == (machine.nic.protocol == "infiniband"))
    throw InputError(place_of(source.root, key), key + ": " + machine.ib_switch.name + " switches " +
                                                     (machine.ib_switch.ethernet ? "Ethernet" : "InfiniBand") + "; " +
                                                     machine.nic.name + " speaks " + machine.nic.protocol);
  const bool is_single = written.network_kind ? *written.network_kind == NetworkWord::single_switch
                                              : nics_of(machine) <= machine.ib_switch.ports;
  machine.network = is_single ? NetworkKind::single_switch : NetworkKind::leaf_spine;
  if (written.network_kind == NetworkWord::rail_optimized) machine.rail_optimized = true;
  const auto is_written = [&](const char* part) { return value_at(source.root, key + part) != nullptr; };
  for (const char* part : {".pod_leaves", ".cores"})
    if (machine.tiers == 2 && is_written(part))
      throw InputError(place_of(source.root, key + part), key + part + ": needs machine.network.tiers: 3");
  if (machine.sharp && machine.ib_switch.aggregation_ns == 0)
    throw InputError(place_of(source.root, key + ".sharp"),
                     key + ".sharp: " + machine.ib_switch.name + " does not add; its datasheet has no aggregation_ns");
  if (machine.sharp && machine.tiers == 3)
    throw InputError(place_of(source.root, key + ".sharp"),
                     key + ".sharp: needs one switch or two tiers; machine.network.tiers is 3");
  if (machine.network == NetworkKind::leaf_spine) return;
  for (const auto& [part, refused] : {std::pair{".rail_optimized", machine.rail_optimized},
                                      {".routing", is_written(".routing")},
                                      {".spines", is_written(".spines")},
                                      {".tiers", machine.tiers == 3}}) {
    if (refused)
      throw InputError(place_of(source.root, key + part), key + part + ": needs machine.network.kind: leaf_spine");
  }
}

void resolve_board(const MachineSection& written, MachineSpec& machine, const Source& source) {
  const std::string key = "machine.plx";
  if (machine.board.name != "plx_box")
    for (const char* part : {".board", ".switches", ".uplink", ".nics_per_plx", ".acs"})
      if (value_at(source.root, key + part))
        throw InputError(place_of(source.root, key + part),
                         key + part + ": " + machine.board.name + " has a fixed board; accepted only on plx_box");
  if (!written.board.empty()) load_pcie_board(named(written.board, "", key + ".board", source), machine);
  if (written.cpu) machine.board.cpu = *written.cpu;
}

/// The defaults of the vendor's server with the GPU of the first group.
void use_server_parts(const DatasheetName& gpu, BoardDatasheet& board) {
  const ServerParts parts = server_parts(gpu);
  if (parts.source.empty()) return;
  board.nic = parts.nic;
  board.network_source = parts.source;
  if (!parts.pcie_switch.empty()) board.pcie_switch = parts.pcie_switch;
}

void resolve_plx(const MachineSection& written, MachineSpec& machine, const Source& source) {
  const std::string key = "machine.plx";
  if (written.plx_switches) {
    const std::uint32_t switches = *written.plx_switches;
    if (switches != 0 && machine.board.gpus % switches != 0)
      throw InputError(place_of(source.root, key + ".switches"),
                       key + ".switches: " + std::to_string(switches) + " PCIe switches cannot divide the " +
                           std::to_string(machine.board.gpus) + " GPUs of a server evenly; accepted: 0, 1, 2, 4 or 8");
    machine.board.pcie_switches = switches;
  }
  if (machine.board.pcie_switches == 0) {
    for (const char* part : {".datasheet", ".uplink", ".nics_per_plx", ".acs"})
      if (value_at(source.root, key + part))
        throw InputError(place_of(source.root, key + part),
                         key + part + ": needs PCIe switches; " +
                             (written.plx_switches    ? "machine.plx.switches is 0"
                              : written.board.empty() ? machine.board.name + " has none"
                                                      : "machine.plx.board has none"));
  } else {
    machine.plx = load_pcie_switch(named(written.plx, machine.board.pcie_switch, key + ".datasheet", source));
  }
}

void resolve_nics(const MachineSection& written, MachineSpec& machine, const Source& source) {
  machine.nic = load_nic(named(written.nic, machine.board.nic, "machine.nic.datasheet", source));
  machine.infiniband = load_network_protocol(machine.nic.protocol);
  if (written.nics_per_server && written.nics_per_plx) {
    const std::string key = "machine.nic.per_server";
    throw InputError(place_of(source.root, key),
                     key + ": cannot be combined with machine.plx.nics_per_plx; set only one of them");
  }
  machine.nics_per_server = machine.board.nics;
  if (written.nics_per_plx) machine.nics_per_server = *written.nics_per_plx * machine.board.pcie_switches;
  if (written.nics_per_server) machine.nics_per_server = *written.nics_per_server;
  if (machine.nics_per_server % machine.board.trays != 0) {
    const std::string key = "machine.nic.per_server";
    throw InputError(place_of(source.root, key), key + ": " + std::to_string(machine.nics_per_server) +
                                                     " NICs cannot be divided evenly among the " +
                                                     std::to_string(machine.board.trays) + " trays of " +
                                                     machine.board.name);
  }
}

/// A GPU with another capacity shows CUDA the same share of it.
void derive_visible_memory(const std::vector<GroupSpec>& before, std::vector<GroupSpec>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& old = before[g].gpu.hbm;
    auto& hbm = groups[g].gpu.hbm;
    if (hbm.visible_gb == old.visible_gb) hbm.visible_gb *= hbm.capacity_gb / old.capacity_gb;
  }
}

}  // namespace

MachineSpec resolve_machine(const MachineSection& written, const std::string& platform,
                            const std::vector<std::string>& roles, bool gpus_alone, const Source& source) {
  MachineSpec machine = load_board(platform, written.machine);
  resolve_board(written, machine, source);
  DatasheetName first_gpu;
  for (const GroupSection& group : groups_for(written.groups, roles, source)) {
    const std::string key = "machine.groups." + group.name + ".gpu";
    const DatasheetName gpu = named(group.datasheet, machine.board.gpu, key, source);
    if (machine.groups.empty()) first_gpu = gpu;
    machine.groups.push_back(group);
    GroupSpec& made = machine.groups.back();
    made.gpu = load_gpu(gpu);
    if (!gpus_alone && !written.allow_any_gpu) check_form(gpu, platform);
    if (made.gpu.nvlink.generation != 0) made.nvlink_protocol = load_nvlink_protocol(made.gpu.nvlink.generation, gpu);
  }
  use_server_parts(first_gpu, machine.board);
  resolve_plx(written, machine, source);
  resolve_nics(written, machine, source);
  resolve_network(written, machine, source);

  // Apply a what-if on a device first, because it changes derived links; a what-if on a link itself comes last.
  const NodePtr overrides = value_at(source.root, "machine.overrides");
  const auto apply_overrides = [&] {
    if (overrides) read_fields(override_fields(), &machine, *overrides, "machine.overrides", true);
  };
  const std::vector<GroupSpec> before = machine.groups;
  apply_overrides();
  derive_visible_memory(before, machine.groups);
  check_c2c(machine, source);
  check_power(machine, source);
  derive_rates(machine);
  apply_overrides();
  for (GroupSpec& group : machine.groups)
    if (group.gpu.nvlink.links > 0) group.gpu.nvlink.gb_per_s = group.nvlink.gb_per_s;
  resolve_nvlink(written.nvlink_bridge, machine, source);
  return machine;
}

std::vector<Assumption> assumed_parts(const MachineSection& written, const MachineSpec& machine) {
  if (servers_of(machine) == 1 || !written.nic.empty()) return {};
  std::ostringstream value;
  value << machine.nics_per_server << " x " << machine.nic.name << " in each server, "
        << std::lround(kBitsPerByte * machine.nic.gb_per_s) << " Gb/s each, network of " << machine.ib_switch.name;
  return {{"machine.nic", value.str(), machine.board.network_source}};
}

std::vector<ModuleSpec> resolve_modules(const std::vector<ModuleItem>& written, const Source& source) {
  std::vector<ModuleSpec> modules;
  for (const ModuleItem& item : written) {
    ModuleSpec module;
    module.key = "machine.modules." + std::to_string(modules.size());
    module.origin = place_of(source.root, module.key);
    module.name_origin = place_of(source.root, module.key + ".name");
    module.library_origin = place_of(source.root, module.key + ".library");
    module.at_origin = place_of(source.root, module.key + ".at");
    module.name = item.name;
    if (item.name.empty()) module.name = std::string("module_") + static_cast<char>('a' + modules.size() % 26);
    check_name({module.name, module.name_origin, nullptr}, module.key + ".name");
    module.library = item.library;
    module.at = item.at;
    module.parameters = item.parameters;
    modules.push_back(std::move(module));
  }
  return modules;
}

}  // namespace railyard::scenario
