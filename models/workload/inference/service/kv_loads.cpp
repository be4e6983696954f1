#include "workload/inference/service/kv_loads.h"

#include <algorithm>

#include "workload/traffic.h"

namespace railyard::workload::inference {

std::vector<KvLoads::Load> KvLoads::loads_of(const std::vector<Piece>& pieces) const {
  std::vector<Load> loads;
  for (const Piece& piece : pieces) {
    const transport::Path path =
        fabric_.path(piece.from, piece.to, number(TrafficClass::kv), transport::Engine::copy_engine);
    const Bytes transaction = fabric_.transaction_bytes(path);
    double weights = 0;
    for (const transport::Lane& lane : path.lanes) weights += lane.weight;
    for (const transport::Lane& lane : path.lanes) {
      const double bytes = static_cast<double>(piece.bytes) * lane.weight / weights;
      for (const transport::Hop& hop : lane.hops) {
        const transport::Device::Port* const port = &hop.device->port(hop.port);
        const auto same = std::find_if(loads.begin(), loads.end(), [&](const Load& load) { return load.port == port; });
        if (same != loads.end())
          same->bytes += bytes;
        else
          loads.push_back({port, bytes, transport::payload_rate(path, hop, transaction)});
      }
    }
  }
  return loads;
}

void KvLoads::begun(std::uint64_t copy, const std::vector<Piece>& pieces) {
  std::vector<Load>& loads = copies_[copy] = loads_of(pieces);
  for (const Load& load : loads) bytes_[load.port] += load.bytes;
}

void KvLoads::landed(std::uint64_t copy) {
  const auto found = copies_.find(copy);
  for (const Load& load : found->second) bytes_[load.port] -= load.bytes;
  copies_.erase(found);
  if (copies_.empty()) bytes_.clear();  // and what rounding has left
}

Time KvLoads::expected(const std::vector<Piece>& pieces) const {
  Time expected;
  for (const Piece& piece : pieces)
    expected = later(expected, fabric_.uncontended(piece.from, piece.to, number(TrafficClass::kv), piece.bytes,
                                                   transport::Engine::copy_engine));
  for (const Load& load : loads_of(pieces)) {
    const auto others = bytes_.find(load.port);
    const double bytes = load.bytes + (others == bytes_.end() ? 0 : others->second);
    expected = later(expected, Time::seconds(bytes / load.bytes_per_s));
  }
  return expected;
}

}  // namespace railyard::workload::inference
