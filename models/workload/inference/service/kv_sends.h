// When KV is sent from one instance to another. A fetch sends when its descriptors are posted; before that, the instance with the
// answer must take memory for the request, and the prompt must be complete. KV that is pushed is sent when a stage has computed the
// last layer of a chunk; per layer, at any time while its prompt is computed.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "transport/fabric.h"
#include "transport/horizon.h"

namespace railyard::workload::inference {

class KvSends final : public transport::Horizon {
 public:
  /// @param next_transfer  the earliest instant at which another transfer may be asked for
  KvSends(std::string name, const transport::Fabric& fabric, std::function<Time()> next_transfer)
      : Horizon(std::move(name)), fabric_(fabric), next_transfer_(std::move(next_transfer)) {}

  /// A copy has been emitted, which waits for posts. @param earliest  when it may begin
  void waits(Time earliest) { waiting_.insert(earliest); }
  /// That copy begins. arrived() follows.
  void begun(Time earliest) {
    waiting_.erase(waiting_.find(earliest));
    begun();
  }
  /// KV of a prompt may be sent at any time, until closes().
  void opens() { ++open_; }
  void closes() { --open_; }
  void begun() {
    begins(fabric_.now());
    ++under_way_;
  }
  /// The last byte of a copy is there.
  void arrived() { --under_way_; }

 private:
  Time next() override {
    const Time now = fabric_.now();
    if (under_way_ > 0 || open_ > 0) return now;
    const Time transfer = next_transfer_();
    return waiting_.empty() ? transfer : sooner(transfer, later(now, *waiting_.begin()));
  }

  const transport::Fabric& fabric_;
  std::function<Time()> next_transfer_;
  std::multiset<Time> waiting_;
  std::uint32_t open_ = 0;       ///< prompts
  std::uint64_t under_way_ = 0;  ///< copies
};

}  // namespace railyard::workload::inference
