// Converts datasheet values into directions of links.
#pragma once

#include <cmath>

#include "platforms/machine_spec.h"
#include "transport/link/link.h"

namespace railyard::platforms {

inline Bytes whole(double bytes) { return static_cast<Bytes>(std::llround(bytes)); }

/// One direction of a link: the latency of the link, plus the pipeline and buffer of the receiving device.
inline transport::LinkDirection direction(const LinkDatasheet& link, const transport::PacketFormat& packet,
                                          double receiver_ns, double receiver_buffer_bytes) {
  transport::LinkDirection d;
  d.rate = Rate::gb_per_s(link.gb_per_s);
  d.latency = Time::nanoseconds(link.latency_ns + receiver_ns);
  d.credit_latency = Time::nanoseconds(link.latency_ns);
  d.buffer_bytes = whole(receiver_buffer_bytes);
  d.headers = {whole(link.posted_headers), whole(link.non_posted_headers), whole(link.completion_headers)};
  d.packet = packet;
  return d;
}

}  // namespace railyard::platforms
