#include "infiniband/aggregation_node.h"

namespace railyard::infiniband {

AggregationNode::AggregationNode(sc_core::sc_module_name name, transport::FabricContext& context,
                                 transport::Window window, transport::Lid lid, const Directory& directory)
    : Endpoint(name, context, window), lid_(lid), directory_(directory) {}

void AggregationNode::send(transport::Message& message) {
  message.address = transport::window_base(message.destination) + message.offset;
  Part part = whole_of(message);
  part.lid = directory_.lid_of(message.destination);
  inject(PortId(kNetworkPort), part);
}

transport::Path AggregationNode::path_to(transport::Window destination, std::uint8_t, transport::Engine) const {
  transport::Path path;
  path.lanes.push_back({transport::walk(*this, PortId(kNetworkPort), transport::window_base(destination),
                                        directory_.lid_of(destination)),
                        1});
  return path;
}

}  // namespace railyard::infiniband
