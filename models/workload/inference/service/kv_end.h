// One end of a transfer of KV: an attention replica of an instance, whose ranks are numbered p*tp+t.
#pragma once

#include <cstdint>
#include <utility>

#include "workload/inference/engine/instance.h"

namespace railyard::workload::inference {

struct KvEnd {
  const Instance* instance = nullptr;
  std::uint32_t replica = 0;

  const Instance& operator*() const { return *instance; }
  const Instance* operator->() const { return instance; }
  std::uint32_t ranks() const { return instance->grid().replica_ranks(); }
  /// Rank r of the replica among those of the instance.
  std::uint32_t place(std::uint32_t r) const { return instance->grid().rank_of(replica, r); }
  /// Stage of its rank r, and place among the ranks of the stage.
  std::uint32_t stage(std::uint32_t r) const { return r / instance->grid().tp(); }
  std::uint32_t in_stage(std::uint32_t r) const { return place(r) % instance->grid().width(); }
  Rank& rank(std::uint32_t r) const { return instance->grid().rank(place(r)); }
  /// Blocks of its KV cache, the reserved one included.
  std::uint64_t blocks() const { return instance->scheduler().memory().total / instance->grid().replicas() + 1ull; }
  bool operator==(const KvEnd& other) const { return instance == other.instance && replica == other.replica; }
  /// For keys.
  std::pair<std::uint32_t, std::uint32_t> number() const { return {instance->id(), replica}; }
};

}  // namespace railyard::workload::inference
