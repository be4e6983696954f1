#include "pcie/pcie.h"

namespace railyard::pcie {

transport::PacketFormat Protocol::packet_format() const {
  transport::PacketFormat format;
  format.max_payload_bytes = max_payload_bytes;
  format.overhead_bytes = write_overhead_bytes;
  format.max_read_request_bytes = max_read_request_bytes;
  format.read_request_bytes = read_request_bytes;
  format.response_payload_bytes = max_payload_bytes;
  format.response_overhead_bytes = completion_overhead_bytes;
  format.reverse_interval_bytes = dllp_interval_bytes;
  format.reverse_bytes_per_interval = dllp_bytes;
  format.credit_unit_bytes = credit_unit_bytes;
  return format;
}

}  // namespace railyard::pcie
