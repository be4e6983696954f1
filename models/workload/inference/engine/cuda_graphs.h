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

  /// Tokens for which everything but attention runs: the next captured size, or the batch's own tokens if the batch is
  /// not captured.
  std::uint64_t padded(bool has_prompts, std::uint64_t tokens) const {
    if (!pads || !is_captured(has_prompts, tokens) || tokens <= 2) return tokens;
    if (tokens <= 4) return std::min<std::uint64_t>(4, max_tokens);
    const std::uint64_t step = tokens <= 248 ? 8 : 16;
    return std::min<std::uint64_t>(ceil_div(tokens, step) * step, max_tokens);
  }
  LayerLaunch launch(bool has_prompts, std::uint64_t tokens) const {
    const bool is_compiled = mode == GraphMode::full || mode == GraphMode::piecewise;
    if (mode != GraphMode::piecewise && !has_prompts && is_captured(false, tokens)) return LayerLaunch::nothing;
    return is_compiled ? LayerLaunch::attention : LayerLaunch::kernels;
  }

 private:
  bool is_captured(bool has_prompts, std::uint64_t tokens) const {
    return mode != GraphMode::none && !(mode == GraphMode::decode && has_prompts) && tokens <= max_tokens;
  }
};

}  // namespace railyard::workload::inference
