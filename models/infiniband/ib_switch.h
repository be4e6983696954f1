// An InfiniBand switch: cut-through, routing by destination LID, credits per virtual lane. A LID below the switch has
// one port. A LID beyond the next tier has a group of ports, one per path; the routing picks a port for each train.
//
// Adaptive routing picks the port that would finish its present work first: the charge on its line plus the payload
// that waits for it. Equal ports take turns.
//
// The buffer of an input is one queue per virtual lane. InfiniBand has no virtual output queues; work on head-of-line
// blocking emulates them with virtual lanes (Gomez et al., VOQ_SW, IPDPS 2003). Separate lanes for traffic classes do
// the same here.
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

  /// Trains to this LID leave through a port of the group. @pre decoder() does not map the LID, or trains turn around
  void map_to_group(transport::Lid lid, std::uint32_t group);
  void set_group(std::uint32_t group, std::vector<PortId> ports);

  /// The port by destination. With ecmp and adaptive routing: one of the possible ports.
  /// decoder() may map LIDs that have a group as well: their trains turn around in the next tier. Those that come in by a
  /// port of the group leave through the decoder's port.
  void let_turn_around() { turns_around_ = true; }
  /// Deterministic routing: so many LIDs after each other take the same port of their group, the next ones the next port.
  void set_stride(std::uint32_t stride) { stride_ = stride; }

  PortId decode(std::uint64_t address, transport::Lid lid, PortId ingress) const override;
  bool has_choice(transport::Lid lid) const override;

 protected:
  PortId route(const transport::Transaction& transaction) override;
  void receive(transport::Transaction& transaction) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

 private:
  static constexpr std::uint32_t kChooseTag = kFirstSwitchTag;
  using Ports = std::vector<PortId>;

  /// Null if the LID has one port, or no path, or if a train that comes from above goes down.
  const Ports* group_of(transport::Lid lid, PortId ingress = PortId()) const;
  PortId first_free(const Ports& ports);

  Routing routing_;
  std::uint64_t seed_;
  bool turns_around_ = false;
  std::uint32_t stride_ = 1;
  std::vector<Ports> groups_;
  std::vector<std::uint32_t> group_of_lid_;
  std::uint32_t turn_ = 0;  ///< next port to prefer among equal ones
};

}  // namespace railyard::infiniband
