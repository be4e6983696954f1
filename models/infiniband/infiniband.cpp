#include "infiniband/infiniband.h"

namespace railyard::infiniband {

transport::PacketFormat Protocol::packet_format() const {
  transport::PacketFormat format;
  format.max_payload_bytes = mtu_bytes;
  format.overhead_bytes = packet_overhead_bytes;
  format.first_overhead_bytes = first_overhead_bytes;
  format.read_request_bytes = packet_overhead_bytes + first_overhead_bytes;
  return format;
}

}  // namespace railyard::infiniband
