// The disk of each server for copies of KV. Plain data.
#pragma once

namespace railyard::workload::inference {

struct KvDiskSpec {
  double bytes_per_server = 0;  ///< for all instances of a server, by their ranks; 0: none
  double gb_per_s = 0;          ///< in each direction
  double latency_us = 0;        ///< from when a read or write is asked for until its bytes move
};

}  // namespace railyard::workload::inference
