// InfiniBand's packets. Headers per packet at the MTU: LRH 8, BTH 12, ICRC 4, VCRC 2; RETH 16 on the first
// packet of an RDMA write (linux include/rdma/ib_pack.h). The request of an RDMA read is one packet of these headers, for
// any number of bytes. The packets of its response count as those of a write: AETH (4 bytes on the first and the last
// packet) takes 8 bytes less than RETH.
#pragma once

#include "transport/link/link.h"

namespace railyard::infiniband {

struct Protocol {
  Bytes mtu_bytes = 4096;
  Bytes packet_overhead_bytes = 26;
  Bytes first_overhead_bytes = 16;

  transport::PacketFormat packet_format() const;
};

}  // namespace railyard::infiniband
