// A GPU's memory with a bundle of NVLinks to each of several switch planes.
#pragma once

#include <vector>

#include "nvlink/nvlink.h"
#include "tests/support/memory_node.h"

namespace railyard::test {

class StripedNode : public MemoryNode {
 public:
  StripedNode(sc_core::sc_module_name name, transport::Assembly& fabric, transport::Window window,
              const nvlink::Stripes& stripes)
      : MemoryNode(name, fabric, window), stripes_(stripes) {}
  void send(transport::Message& message) override {
    std::vector<Bytes> on_plane;
    stripes_.split(0, message.bytes, on_plane);
    for (std::uint32_t plane = 0; plane < on_plane.size(); ++plane) {
      Part part;
      part.message = &message;
      part.address = transport::window_base(message.destination);
      part.bytes = on_plane[plane];
      if (part.bytes != 0) inject(PortId(plane), part);
    }
  }
  transport::Path path_to(transport::Window destination, std::uint8_t, transport::Engine) const override {
    transport::Path path;
    for (std::uint32_t plane = 0; plane < stripes_.planes(); ++plane)
      path.lanes.push_back(
          {transport::walk(*this, PortId(plane), transport::window_base(destination), 0), stripes_.links(plane)});
    return path;
  }

 private:
  nvlink::Stripes stripes_;
};

}  // namespace railyard::test
