// CUDA graphs of a serving engine: batches of a captured size are launched as graphs, and run for that size. Sizes as in
// vLLM V1 (config/vllm.py): 1, 2, 4, then steps of 8 below 256 and of 16 from there on.
//
// Attention with its KV write is not captured together with prompts, or not at all (CompilationConfig.splitting_ops and
// cudagraph_mode). Then the host launches it in each layer, between the graphs of everything else. A batch beyond the
// largest captured size is launched by the host, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace railyard::workload::inference {

struct CudaGraphs {
  enum class Mode : std::uint8_t {
    full,       ///< batches of decodes as one graph; batches with prompts as with piecewise
    piecewise,  ///< everything but attention
    none,       ///< the host launches kernel by kernel, and nothing is padded
  };
  Mode mode = Mode::full;
  std::uint32_t max_tokens = 512;  ///< largest captured batch
  bool pads = true;                ///< otherwise each batch has a graph of its own size

  /// Tokens for which everything but attention runs: the next captured size, or the batch's own tokens if the batch is
  /// larger than all captured sizes.
  std::uint64_t padded(std::uint64_t tokens) const {
    if (!pads || mode == Mode::none || tokens > max_tokens || tokens <= 2) return tokens;
    if (tokens <= 4) return std::min<std::uint64_t>(4, max_tokens);
    const std::uint64_t step = tokens <= 248 ? 8 : 16;
    return std::min<std::uint64_t>(ceil_div(tokens, step) * step, max_tokens);
  }
  /// Whether the host launches kernels of each layer: all of them, or attention.
  bool launches_layers(bool has_prompts, std::uint64_t tokens) const {
    return mode != Mode::full || has_prompts || tokens > max_tokens;
  }
};

}  // namespace railyard::workload::inference
