// The tables of keys of machines' datasheets: links, protocols, switches, NICs and boards. A key's name, unit, range and text stand here
// once; loading (datasheets.cpp), overrides, help and the reference page use them.
#pragma once

#include "platforms/machine_spec.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

constexpr double kMostNics = 256;  // of one server

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
Record<platforms::NicDatasheet> nic_record();
Record<platforms::IbSwitchDatasheet> ib_switch_record();
Record<platforms::BoardDatasheet> board_record();
/// The physical roles of a machine: what a board file gives, and what machine.overrides may change.
void add_link_roles(Record<platforms::MachineSpec>& r);

}  // namespace railyard::scenario
