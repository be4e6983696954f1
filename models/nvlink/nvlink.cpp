#include "nvlink/nvlink.h"

#include <algorithm>
#include <numeric>

namespace railyard::nvlink {

transport::PacketFormat Protocol::packet_format() const {
  transport::PacketFormat format;
  format.max_payload_bytes = max_payload_bytes;
  format.overhead_bytes = header_flits * flit_bytes;
  format.max_read_request_bytes = max_request_bytes;
  format.read_request_bytes = request_flits * flit_bytes;
  format.response_payload_bytes = read_payload_bytes;
  format.response_overhead_bytes = header_flits * flit_bytes;
  format.reduced_payload_bytes = reduced_payload_bytes;
  format.reverse_bytes_per_packet = response_flits * flit_bytes;
  format.packets_per_ack = writes_per_response;
  format.line_interval_bytes = flits_per_link_flit * flit_bytes;
  format.line_bytes_per_interval = flit_bytes;
  return format;
}

Stripes::Stripes(const std::vector<std::uint32_t>& links_per_plane, Bytes granule_bytes)
    : links_(links_per_plane), granule_(granule_bytes) {
  // Smooth weighted round robin: the plane furthest behind its share is next.
  const auto cycle = static_cast<std::int64_t>(std::accumulate(links_.begin(), links_.end(), 0u));
  std::vector<std::int64_t> behind(links_.size(), 0);
  for (std::int64_t i = 0; i < cycle; ++i) {
    for (std::size_t p = 0; p < links_.size(); ++p) behind[p] += links_[p];
    const auto most = static_cast<std::size_t>(std::max_element(behind.begin(), behind.end()) - behind.begin());
    behind[most] -= cycle;
    pattern_.push_back(static_cast<std::uint32_t>(most));
  }
}

void Stripes::split(std::uint64_t offset, Bytes bytes, std::vector<Bytes>& on_plane) const {
  on_plane.assign(links_.size(), 0);
  const Bytes cycles = bytes / cycle_bytes();
  for (std::size_t p = 0; p < links_.size(); ++p) on_plane[p] = cycles * links_[p] * granule_;
  std::uint64_t at = offset;
  const std::uint64_t end = offset + bytes % cycle_bytes();
  while (at < end) {
    const std::uint64_t granule_end = std::min<std::uint64_t>(end, (at / granule_ + 1) * granule_);
    on_plane[pattern_[at / granule_ % pattern_.size()]] += granule_end - at;
    at = granule_end;
  }
}

}  // namespace railyard::nvlink
