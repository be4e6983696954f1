#include "sc_main/list_parameters.h"

#include <fmt/format.h>
#include <cstring>

namespace railyard {

namespace {

using scenario::MachineParameter;

class Lister {
 public:
  Lister(Simulation& simulation, const std::vector<MachineParameter>& parameters)
      : machine_(simulation.machine()), modules_(simulation.modules()), parameters_(parameters) {}

  Value rows() {
    add("machine", "");
    for (const char* protocol : {"pcie", "pcie_credits", "c2c", "infiniband"})
      add(fmt::format("machine.{}", protocol), protocol);
    for (const auto& server : machine_.servers()) add_server(*server);
    for (const auto& device : machine_.network()) add(device->name(), "ib_switch");
    for (const UserModules::Parameter& p : modules_.parameters())
      rows_.push_back({{"name", p.name}, {"value", p.value}, {"unit", p.unit}, {"origin", p.origin}});
    return std::move(rows_);
  }

 private:
  /// The parameters of a role, under a name.
  void add(const std::string& name, const char* role, std::uint32_t group = 0) {
    for (const MachineParameter& p : parameters_)
      if (p.role == role && p.group == group)
        rows_.push_back(
            {{"name", fmt::format("{}.{}", name, p.key)}, {"value", p.value}, {"unit", p.unit}, {"origin", p.origin}});
  }
  void add_below(const sc_core::sc_object& device, const char* part, const char* role, std::uint32_t group = 0) {
    add(fmt::format("{}.{}", device.name(), part), role, group);
  }
  void add_server(const platforms::Server& server) {
    const std::uint32_t group = machine_.place(GpuId(server.gpus.front()->window())).group;
    const platforms::MachineSpec& spec = machine_.spec();
    for (const auto& gpu : server.gpus) {
      add(gpu->name(), "gpu", group);
      add_below(*gpu, "kernels", "kernels", group);
      add_below(*gpu, "pcie", "gpu_pcie", group);
      if (spec.groups[group].nvlink_planes.empty()) continue;
      add_below(*gpu, "nvlinks", "nvlink", group);  // of the board; nvlink has what the GPU says
      add_below(*gpu, "nvlink_protocol", "nvlink_protocol", group);
    }
    for (const auto& nic : server.nics) {
      add(nic->name(), "nic");
      add_below(*nic, "pcie", "nic_pcie");
      add_below(*nic, "network", "ib_cable");
    }
    for (const auto& plx : server.plx) {
      add(plx->name(), "plx");
      const bool is_cascaded = spec.uplink == platforms::Uplink::cascaded && plx != server.plx.front();
      add_below(*plx, "uplink", is_cascaded ? "plx_cascade" : "plx_uplink");
    }
    for (const auto& root : server.roots) {
      add(root->name(), "root_complex");
      if (server.roots.size() > 1) add_below(*root, "socket", "socket_link");
    }
    for (const auto& host : server.hosts) add(host->name(), "host_memory");
    for (const auto& nvswitch : server.nvswitches) add(nvswitch->name(), "nvswitch");
  }

  platforms::Machine& machine_;
  const UserModules& modules_;
  const std::vector<MachineParameter>& parameters_;
  Value rows_ = Value::empty_list();
};

}  // namespace

Value list_parameters(Simulation& simulation, const std::vector<MachineParameter>& parameters) {
  return Lister(simulation, parameters).rows();
}

std::string parameters_text(const Value& parameters) {
  std::string text;
  for (const Value& p : parameters.items())
    text += fmt::format("{} = {}  # {}{}{}\n", p["name"].text(), p["value"].text(), p["unit"].text(),
                        p["unit"].text().empty() ? "" : "; ", p["origin"].text());
  return text;
}

}  // namespace railyard
