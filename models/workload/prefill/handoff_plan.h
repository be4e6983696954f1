// Which KV bytes each prefill rank sends to each decode rank: the layers that their two stages share, times the KV heads that the
// decode rank needs from that prefill rank. Where prefill ranks replicate a head, decode ranks take turns among the replicas.
#pragma once

#include <vector>

#include "workload/prefill/grid.h"

namespace railyard::workload::prefill {

class HandoffPlan {
 public:
  HandoffPlan(const Grid& prefill, const Grid& decode);

  struct Share {
    std::uint32_t decode_rank = 0;
    std::uint32_t heads = 0;
    std::uint32_t first_layer = 0, last_layer = 0;  ///< [first, last), global
  };
  /// Shares of prefill rank p*tp+t.
  const std::vector<Share>& shares(std::uint32_t rank) const { return shares_[rank]; }
  /// The tokens [begin, end) of a prompt.
  struct Tokens {
    std::uint64_t begin = 0, end = 0, prompt = 0;
  };
  /// Bytes of a share for these tokens in the layers [first, last): where a layer has a window, only of the tokens that the
  /// token behind the prompt sees.
  Bytes bytes(const Share& share, std::uint32_t first, std::uint32_t last, const Tokens& tokens) const;
  Bytes bytes(const Share& share, const Tokens& tokens) const {
    return bytes(share, share.first_layer, share.last_layer, tokens);
  }

 private:
  transformer::ModelShape model_;
  std::vector<std::vector<Share>> shares_;
  Bytes head_bytes_ = 0;  ///< of one token and one layer for one head: key and value
};

}  // namespace railyard::workload::prefill
