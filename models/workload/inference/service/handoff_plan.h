// The KV bytes that each rank of one grid (prefill) sends to each rank of another (decode): the layers that their two stages share, times
// the KV heads that the decode rank needs from that prefill rank. If several prefill ranks have a head, decode ranks are distributed over
// them. Of a grid with attention replicas, the ranks are those of one replica (Grid::rank_of).
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/engine/grid.h"

namespace railyard::workload::inference {

class HandoffPlan {
 public:
  HandoffPlan(const Grid& prefill, const Grid& decode);

  struct Share {
    std::uint32_t decode_rank = 0;
    std::uint32_t heads = 0;
    std::uint32_t first_layer = 0, last_layer = 0;  ///< [first, last), global
  };
  /// Shares that rank p*tp+t of a prefill replica sends to a decode replica.
  const std::vector<Share>& shares(std::uint32_t rank) const { return shares_[rank]; }
  /// Tokens [begin, end) of a prompt.
  struct Tokens {
    std::uint64_t begin = 0, end = 0, prompt = 0;
  };
  /// Bytes of a share for these tokens in the layers [first, last). In a layer with a window, only tokens count that
  /// are in the window of the first token after the prompt.
  Bytes bytes(const Share& share, std::uint32_t first, std::uint32_t last, const Tokens& tokens) const;
  Bytes bytes(const Share& share, const Tokens& tokens) const {
    return bytes(share, share.first_layer, share.last_layer, tokens);
  }

 private:
  transformer::ModelShape model_;
  std::vector<std::vector<Share>> shares_;
  Bytes head_bytes_ = 0;  ///< key and value of one token, one layer and one head
};

}  // namespace railyard::workload::inference
