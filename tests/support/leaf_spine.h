// A leaf-spine network of InfiniBand switches with memories below each leaf; each memory has its own NICs. After a link
// failure, leaves keep uplinks that still lead to the other leaf, and a memory uses its next NIC or another NIC of the
// destination.
#pragma once

#include "infiniband/ib_switch.h"
#include "tests/support/simulation.h"
#include "transport/faults.h"

namespace railyard::test {

class LeafSpine : public Simulation, private transport::LinkObserver {
 public:
  struct Shape {
    std::uint32_t leaves = 2, spines = 2, nodes_per_leaf = 2, nics_per_node = 1;
    transport::LinkDirection pcie, cable, between;
    infiniband::NicTiming nic;
  };

  LeafSpine(const Shape& shape, infiniband::Routing routing, Bytes cut) : Simulation(cut), shape_(shape) {
    fabric.set_router(this);
    for (std::uint32_t s = 0; s < shape.spines; ++s)
      spines.push_back(&add_ib_switch("spine" + std::to_string(s), routing));
    for (std::uint32_t l = 0; l < shape.leaves; ++l) {
      infiniband::IbSwitch& leaf = add_ib_switch("leaf" + std::to_string(l), routing);
      leaves.push_back(&leaf);
      for (std::uint32_t n = 0; n < shape.nodes_per_leaf; ++n) {
        test::MemoryNode& memory = node();
        transport::Switch& plx = add_switch();
        attach(memory, plx, shape.pcie);
        for (std::uint32_t k = 0; k < shape.nics_per_node; ++k) add_nic(plx, leaf);
      }
    }
    const auto lids = static_cast<transport::Lid>(nics.size());
    for (std::uint32_t l = 0; l < shape.leaves; ++l)
      for (transport::Lid lid = 0; lid < lids; ++lid)
        if (leaf_of(lid) != l) leaves[l]->map_to_group(lid, leaf_of(lid));
    for (std::uint32_t l = 0; l < shape.leaves; ++l)
      for (infiniband::IbSwitch* spine : spines) {
        const auto [at_leaf, at_spine] = join(*leaves[l], *spine, shape.between, shape.between);
        for (transport::Lid lid = 0; lid < lids; ++lid)
          if (leaf_of(lid) == l) spine->decoder().map(lid, at_spine);
      }
    on_links_changed();
    const std::uint32_t k = shape.nics_per_node;
    for (std::uint32_t from = 0; from < nodes.size(); ++from)
      for (std::uint32_t to = 0; to < nodes.size(); ++to)
        for (std::uint32_t uplink = 0; from != to && uplink < k * k; ++uplink)
          nodes[from].route_otherwise(to, nics[from * k + uplink / k], to * k + uplink % k);
  }

  transport::LinkEnd up(std::uint32_t leaf, std::uint32_t spine) {
    return {leaves[leaf], PortId(shape_.nodes_per_leaf * shape_.nics_per_node + spine)};
  }
  transport::LinkEnd cable(std::uint32_t nic) { return {&nics[nic], PortId(infiniband::Nic::kNetworkPort)}; }
  transport::LinkEnd pcie(std::uint32_t nic) { return {&nics[nic], PortId(infiniband::Nic::kPciePort)}; }
  static transport::LinkEnd back(const transport::LinkEnd& end) { return {end.state().peer, end.state().peer_port}; }
  /// Both directions of a link fail.
  void lose(Time when, const transport::LinkEnd& end) { fabric.faults().fail(when, {end, back(end)}); }

  std::deque<infiniband::Nic> nics;
  std::deque<infiniband::IbSwitch> ib_switches;
  std::vector<infiniband::IbSwitch*> spines, leaves;

 private:
  static constexpr transport::Window kFirstNicWindow = 1000;
  std::uint32_t leaf_of(transport::Lid lid) const { return lid / shape_.nics_per_node / shape_.nodes_per_leaf; }
  void add_nic(transport::Switch& plx, infiniband::IbSwitch& leaf) {
    const auto number = static_cast<std::uint32_t>(nics.size());
    infiniband::Nic& nic = nics.emplace_back(("nic" + std::to_string(number)).c_str(), fabric.context(),
                                             kFirstNicWindow + number, number, shape_.nic);
    fabric.add_device(nic);
    plx.decoder().map(nic.window(), join(nic, plx, shape_.pcie, shape_.pcie).second);
    leaf.decoder().map(number, join(nic, leaf, shape_.cable, shape_.cable).second);
  }
  void on_links_changed() override {
    for (std::uint32_t from = 0; from < shape_.leaves; ++from)
      for (std::uint32_t to = 0; to < shape_.leaves; ++to) {
        std::vector<PortId> ports;
        for (std::uint32_t s = 0; s < shape_.spines; ++s)
          if (!up(from, s).state().egress.failed() && !back(up(to, s)).state().egress.failed())
            ports.push_back(up(from, s).port);
        if (from != to) leaves[from]->set_group(to, std::move(ports));
      }
  }
  infiniband::IbSwitch& add_ib_switch(const std::string& name, infiniband::Routing routing) {
    infiniband::IbSwitch& made = ib_switches.emplace_back(name.c_str(), fabric.context(), routing);
    fabric.add_device(made);
    return made;
  }

  Shape shape_;
};

}  // namespace railyard::test
