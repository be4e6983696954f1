// The aggregation node of a switch (SHARP). It takes messages from the members and nodes below it, and sends their sums: up to
// the node of a switch in the next tier, or, as the root of a tree, back down. It ends the connections of its children and
// parent (Graham et al., Scalable Hierarchical Aggregation Protocol, COMHPC 2016). It adds whole messages. Which messages belong to
// one sum is known to the collective (collective/network_sums.h).
#pragma once

#include "transport/device/endpoint.h"
#include "transport/device/routes.h"

namespace railyard::infiniband {

class AggregationNode : public transport::Endpoint, public transport::Sender {
 public:
  /// Where the messages of nodes lead.
  class Directory {
   public:
    /// The NIC that serves a memory, or the node.
    virtual transport::Lid lid_of(transport::Window memory) const = 0;

   protected:
    ~Directory() = default;
  };

  /// Its port towards the switch is to be added.
  AggregationNode(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window,
                  transport::Lid lid, const Directory& directory);

  static constexpr std::uint32_t kNetworkPort = 0;
  transport::Lid lid() const { return lid_; }
  std::vector<std::uint64_t> traits(PortId) const override { return {lid_}; }

  void send(transport::Message& message) override;
  transport::Path path_to(transport::Window destination, std::uint8_t traffic_class,
                          transport::Engine engine) const override;

 private:
  transport::Lid lid_;
  const Directory& directory_;
};

}  // namespace railyard::infiniband
