// CUDA graphs of a serving engine: batches of a captured size are launched as graphs, and run for that size. Sizes as in
// vLLM V1 (config/vllm.py): 1, 2, 4, then steps of 8 below 256 and of 16 from there on.
//
// vLLM V1 compiles a model into pieces between its attentions (CompilationConfig.splitting_ops). Attention with its KV
// write is not captured together with prompts, or not at all (cudagraph_mode). Then the host launches it in each layer,
// between the graphs of everything else. Beyond the largest captured size the compiled pieces are launched, too; the
// source of `layer_us` has one time for both. Without graphs (--enforce-eager) and in engines that capture decodes only,
// nothing is compiled, and the host launches kernel by kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "workload/host.h"

namespace railyard::workload::inference {

struct CudaGraphs {
  GraphMode mode = GraphMode::full;
  std::uint32_t max_tokens = 512;  ///< largest captured batch
  bool pads = true;                ///< otherwise each batch has a graph of its own size
  /// Tokens of each decode in graphs of decodes: one, and drafts. A batch with others is like one with prompts.
  std::uint32_t decode_tokens = 1;

  /// Tokens for which everything but attention runs: the next captured size, or the batch's own tokens if the batch is
  /// not captured.
  /// @param decodes  the batch has only decodes of decode_tokens tokens
  std::uint64_t padded(bool decodes, std::uint64_t tokens) const {
    return pads && is_captured(decodes, tokens) ? size_for(tokens) : tokens;
  }
  bool is_captured(bool decodes, std::uint64_t tokens) const {
    return mode != GraphMode::none && (mode != GraphMode::decode || decodes) &&
           (pads ? size_for(tokens) : tokens) <= max_tokens;
  }
  LayerLaunch launch(bool decodes, std::uint64_t tokens) const {
    const bool is_compiled = mode == GraphMode::full || mode == GraphMode::piecewise;
    if (mode != GraphMode::piecewise && decodes && is_captured(true, tokens)) return LayerLaunch::nothing;
    return is_compiled ? LayerLaunch::attention : LayerLaunch::kernels;
  }

 private:
  /// The captured size for so many tokens; more than max_tokens if there is none. Full graphs have sizes that hold whole decodes:
  /// the next multiples of the others (vLLM V1, config/compilation.py, adjust_cudagraph_sizes_for_spec_decode).
  std::uint64_t size_for(std::uint64_t tokens) const {
    if (tokens > max_tokens) return tokens;
    const std::uint64_t multiple = mode == GraphMode::piecewise ? 1 : decode_tokens;
    // The smallest size whose next multiple is not less than `tokens`.
    const std::uint64_t least = (tokens - 1) / multiple * multiple + 1;
    std::uint64_t size = least;
    if (least > 2) {
      const std::uint64_t step = least <= 4 ? 4 : least <= 248 ? 8 : 16;
      size = std::min<std::uint64_t>(ceil_div(least, step) * step, max_tokens);
    }
    return ceil_div(size, multiple) * multiple;
  }
};

}  // namespace railyard::workload::inference
