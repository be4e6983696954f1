// The room `nvlink` has the Protocol of NVLink's packets, NvSwitch, which may multicast and add (GroupSwitch), and
// Stripes of addresses over planes. The machine builds them; messages reach them by a GPU's ports.
//
// NVLink and the NVSwitch: what the protocol adds to transport.
//
// A packet has one header flit and up to 16 data flits of 16 B (en.wikichip.org, NVLink). SM stores use 128 B per
// packet, copy engines 256 B (NVIDIA/nccl-tests#149). A write gets a one-flit response in the reverse direction;
// several writes may share one (NVIDIA/nccl-tests#258). A read is one request flit, answered by data packets. The data
// link layer uses one flit in a given number. The datasheet of each generation, links/nvlink*.yaml, has these values.
// They were chosen so that copy engines and SMs reach the rates of the hardware, in one direction and in both.
//
// A GPU has a bundle of links to each switch plane; the bundle of a plane is one port. Addresses stripe over the planes
// in proportion to their links, so the 5:4:4:5 links of a DGX H100 carry the full 450 GB/s.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/device/group_switch.h"

namespace railyard::nvlink {

struct Protocol {
  Bytes flit_bytes = 16;
  Bytes header_flits = 1;    ///< per packet with data
  Bytes request_flits = 1;   ///< per read request
  Bytes response_flits = 1;  ///< per write response
  Bytes writes_per_response = 1;
  Bytes flits_per_link_flit = 0;      ///< flits of packets per flit of the data link layer; 0: that layer uses none
  Bytes max_payload_bytes = 256;      ///< per packet of a write
  Bytes read_payload_bytes = 256;     ///< per packet of read data
  Bytes reduced_payload_bytes = 256;  ///< per packet of operands or result of a reduction
  Bytes max_request_bytes = 256;      ///< most bytes that one read request asks for

  transport::PacketFormat packet_format() const;
};

/// Bytes that an engine of a GPU writes per packet, and requests per read request.
struct EnginePackets {
  Bytes written_bytes = 0;
  Bytes requested_bytes = 0;
};

/// One NVSwitch chip: a crossbar with one port per GPU bundle and routing by memory window. It multicasts and reduces
/// (NVLS).
class NvSwitch : public transport::GroupSwitch {
 public:
  using GroupSwitch::GroupSwitch;
};

/// The address interleave: granules of `granule_bytes` go to planes in a fixed pattern, in proportion to their links.
class Stripes {
 public:
  Stripes() = default;
  Stripes(const std::vector<std::uint32_t>& links_per_plane, Bytes granule_bytes);

  std::size_t planes() const { return links_.size(); }
  std::uint32_t links(std::size_t plane) const { return links_[plane]; }
  Bytes granule_bytes() const { return granule_; }
  /// Bytes after which the pattern repeats.
  Bytes cycle_bytes() const { return granule_ * pattern_.size(); }
  /// No plane has links.
  bool empty() const { return pattern_.empty(); }
  /// The plane of offset 0. @pre not empty
  std::uint32_t first_plane() const { return pattern_.front(); }
  /// Bytes of [offset, offset + bytes) on each plane.
  void split(std::uint64_t offset, Bytes bytes, std::vector<Bytes>& on_plane) const;

 private:
  std::vector<std::uint32_t> links_;
  std::vector<std::uint32_t> pattern_;  ///< plane of each granule of a cycle
  Bytes granule_ = 1;
};

}  // namespace railyard::nvlink
