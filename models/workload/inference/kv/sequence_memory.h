// Memory of sequences whose KV is not paged, as the scheduler sees it. Plain C++; no SystemC.
#pragma once

#include <cstdint>

namespace railyard::workload::inference {

/// Memory that is not paged: a sequence has memory for all its tokens, or none.
class SequenceMemory {
 public:
  /// Blocks of the pool for a sequence of so many tokens.
  virtual std::uint32_t blocks(std::uint64_t tokens) const = 0;
  /// A sequence of so many tokens has taken memory, or has given it back.
  virtual void on_held(std::uint64_t tokens) = 0;
  virtual void on_freed(std::uint64_t tokens) = 0;

 protected:
  ~SequenceMemory() = default;
};

}  // namespace railyard::workload::inference
