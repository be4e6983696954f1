// An InfiniBand switch: cuts through, routes by destination LID, credits per virtual lane. A LID below it has one port; one
// that is reached through the next tier has a group of ports, all the ways there, and the routing picks one for each train.
//
// Adaptive routing judges a port by when it would be through with what it has: the charge of its line, and the payload that
// waits for it. Ports that are equal take turns.
//
// An input's buffer is one queue per lane: virtual output queues would change the architecture's buffer organisation, and work
// on head-of-line blocking in InfiniBand emulates them with lanes (Gomez et al., VOQ_SW, IPDPS 2003). Lanes of their own for
// classes do the same here.
#pragma once

#include <vector>

#include "infiniband/routing.h"
#include "transport/device/switch.h"

namespace railyard::infiniband {

class IbSwitch : public transport::Switch {
 public:
  IbSwitch(sc_core::sc_module_name name, transport::FabricContext& context, Routing routing = Routing::deterministic,
           std::uint64_t seed = 0)
      : Switch(name, context, DecodeBy::lid), routing_(routing), seed_(seed) {}

  /// What is addressed to this LID, which decoder() does not map, leaves through a port of that group.
  void map_to_group(transport::Lid lid, std::uint32_t group);
  void set_group(std::uint32_t group, std::vector<PortId> ports);

  /// The way by destination: of the other routings, one of those that it may take.
  PortId decode(std::uint64_t address, transport::Lid lid, PortId ingress) const override;
  bool has_choice(transport::Lid lid) const override;

 protected:
  PortId route(const transport::Transaction& transaction) override;
  void receive(transport::Transaction& transaction) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

 private:
  static constexpr std::uint32_t kChooseTag = kFirstSwitchTag;
  using Ports = std::vector<PortId>;

  /// Null where the LID has a port of its own, or no way at all.
  const Ports* group_of(transport::Lid lid) const;
  PortId first_free(const Ports& ports);

  Routing routing_;
  std::uint64_t seed_;
  std::vector<Ports> groups_;
  std::vector<std::uint32_t> group_of_lid_;
  std::uint32_t turn_ = 0;  ///< after the port chosen last
};

}  // namespace railyard::infiniband
