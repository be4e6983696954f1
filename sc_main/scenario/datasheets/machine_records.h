// The tables of keys of machine datasheets: links, protocols, switches, NICs and boards. Each key's name, unit, range
// and text is defined here once, for loading (datasheets.cpp), overrides, help and the reference page.
#pragma once

#include "platforms/machine_spec.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

constexpr double kMostNics = 256;  // per server

/// Parts of the vendor's server with a GPU, where they are not those of its board.
struct ServerParts {
  std::string nic, pcie_switch;  ///< datasheets; pcie_switch "": as on the board
  std::string source;
};

Record<platforms::LinkDatasheet> link_record();
Record<platforms::LinkDatasheet> pcie_link_record();
Record<platforms::PcieCredits> pcie_credits_record();
Record<platforms::PcieProtocol> pcie_record();
Record<platforms::NvLinkProtocol> nvlink_record();
Record<platforms::C2cProtocol> c2c_record();
Record<platforms::InfiniBandProtocol> infiniband_record();
Record<platforms::PcieSwitchDatasheet> pcie_switch_record();
Record<platforms::RootComplexDatasheet> root_complex_record();
Record<platforms::NvSwitchDatasheet> nvswitch_record();
Record<platforms::HostMemoryDatasheet> host_memory_record();
Record<platforms::ServerPowerDatasheet> server_power_record();
Record<platforms::NicDatasheet> nic_record();
Record<platforms::IbSwitchDatasheet> ib_switch_record();
/// The parts in which boards for PCIe cards differ.
Record<platforms::BoardDatasheet> pcie_board_record(std::uint32_t most_sockets, std::uint32_t most_switches);
Record<platforms::BoardDatasheet> board_record();
Record<ServerParts> server_parts_record();
/// The physical roles of a machine, and its power: set by a board file, changeable by machine.overrides.
void add_link_roles(Record<platforms::MachineSpec>& r);

}  // namespace railyard::scenario
