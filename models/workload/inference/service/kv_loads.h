// KV on its way over each link, for a router that chooses by links. It counts what connectors have asked for and what has not landed, by
// whole copies. Collectives are left out: where they are replayed, they are not on the links.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "transport/fabric.h"

namespace railyard::workload::inference {

class KvLoads {
 public:
  explicit KvLoads(transport::Fabric& fabric) : fabric_(fabric) {}

  /// A copy from memory to memory, by copy engines.
  struct Piece {
    transport::Window from = 0, to = 0;
    Bytes bytes = 0;
  };
  /// @param copy  its number, different from that of every other one that is on its way
  void begun(std::uint64_t copy, const std::vector<Piece>& pieces);
  void landed(std::uint64_t copy);
  /// Of copies that begin together now: the longest time that one of them takes alone, or that a link needs for their bytes and those
  /// that are on their way over it, if this is longer.
  Time expected(const std::vector<Piece>& pieces) const;

 private:
  struct Load {
    const transport::Device::Port* port = nullptr;
    double bytes = 0;
    double bytes_per_s = 0;
  };
  std::vector<Load> loads_of(const std::vector<Piece>& pieces) const;

  transport::Fabric& fabric_;
  std::unordered_map<const transport::Device::Port*, double> bytes_;
  std::unordered_map<std::uint64_t, std::vector<Load>> copies_;
};

}  // namespace railyard::workload::inference
