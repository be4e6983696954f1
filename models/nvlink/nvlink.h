// NVLink and the NVSwitch: what the protocol adds to transport. A packet is one header flit and up to 16 data flits of 16 B
// (en.wikichip.org, NVLink); SM stores fill 128 B of it, copy engines 256 B (NVIDIA/nccl-tests#149). A write is answered by a
// one-flit response on the reverse direction, alone or shared by several (NVIDIA/nccl-tests#258); a read is a request flit out
// and data packets back. The data link layer takes one flit in so many. What a generation does of this is in its datasheet,
// links/nvlink*.yaml, chosen so that copy engines and SMs, one way and both ways, reach what they reach on hardware.
//
// A GPU has a bundle of links to each switch plane; one plane's bundle is one port. Addresses stripe over the planes in
// proportion to their links, so that 5:4:4:5 links of a DGX H100 carry the full 450 GB/s.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/device/group_switch.h"

namespace railyard::nvlink {

struct Protocol {
  Bytes flit_bytes = 16;
  Bytes header_flits = 1;    ///< of a packet with data
  Bytes request_flits = 1;   ///< of a read request
  Bytes response_flits = 1;  ///< of a write response
  Bytes writes_per_response = 1;
  Bytes flits_per_link_flit = 0;      ///< of packets, per flit of the data link layer; 0: it takes none
  Bytes max_payload_bytes = 256;      ///< written
  Bytes read_payload_bytes = 256;     ///< per packet of data read
  Bytes reduced_payload_bytes = 256;  ///< per packet of a reduction's operands and result
  Bytes max_request_bytes = 256;      ///< asked for by one read request

  transport::PacketFormat packet_format() const;
};

/// What an engine of a GPU puts into one packet, and asks for with one request.
struct EnginePackets {
  Bytes written_bytes = 0;
  Bytes requested_bytes = 0;
};

/// One NVSwitch chip: a crossbar with one port per GPU bundle, routing by memory window, that copies and reduces (NVLS).
class NvSwitch : public transport::GroupSwitch {
 public:
  using GroupSwitch::GroupSwitch;
};

/// The address interleave: granules of `granule_bytes` go to planes in a fixed pattern, each plane as often as it has links.
class Stripes {
 public:
  Stripes() = default;
  Stripes(const std::vector<std::uint32_t>& links_per_plane, Bytes granule_bytes);

  std::size_t planes() const { return links_.size(); }
  std::uint32_t links(std::size_t plane) const { return links_[plane]; }
  Bytes granule_bytes() const { return granule_; }
  /// No plane has links.
  bool empty() const { return pattern_.empty(); }
  /// Where offset 0 is. @pre not empty
  std::uint32_t first_plane() const { return pattern_.front(); }
  /// Bytes of [offset, offset + bytes) on each plane.
  void split(std::uint64_t offset, Bytes bytes, std::vector<Bytes>& on_plane) const;

 private:
  std::vector<std::uint32_t> links_;
  std::vector<std::uint32_t> pattern_;  ///< plane of each granule of a cycle
  Bytes granule_ = 1;
};

}  // namespace railyard::nvlink
