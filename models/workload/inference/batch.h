// What one forward pass of an instance computes, and the jobs that follow from it: a batch has chunks of prompts, sequences that
// decode one token each, or both.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/instance.h"

namespace railyard::workload::inference {

struct Batch {
  /// Consecutive tokens of a prompt.
  struct Chunk {
    std::uint32_t request = 0;
    std::uint32_t index = 0;  ///< of the prompt's chunks
    std::uint64_t start = 0;  ///< tokens before it, whose KV is in the cache
    std::uint64_t tokens = 0;
    bool last = false;  ///< of the prompt: its pass makes the first output token
  };
  std::vector<Chunk> chunks;
  std::vector<std::uint64_t> contexts;  ///< of each sequence that decodes, with the token being decoded

  std::uint64_t sequences() const { return chunks.size() + contexts.size(); }
  std::uint64_t tokens() const;
  /// Sequences that the LM head computes a token for.
  std::uint64_t outputs() const;
};

/// A batch with its kernels and collectives.
struct Pass {
  std::uint32_t index = 0;  ///< chunk or step, for names
  static constexpr std::uint32_t kOnly = ~0u;
  std::uint32_t request = kOnly;  ///< for names, where a run has several
  std::uint64_t tokens = 0;
  gpu::SharedChain embedding, head;  ///< null where the pass has none
  /// A step of a layer: kernels, or a collective where there are none.
  struct Step {
    transformer::LayerPart part = transformer::LayerPart::attention;
    gpu::SharedChain kernels;
    collective::Operation operation = collective::Operation::all_reduce;
    Bytes bytes = 0;
  };
  std::vector<std::vector<Step>> layers;  ///< by the model's kinds of layers
  Time prepare;                           ///< of the host, before the first kernel
  Time launch;                            ///< of the host, for each layer; 0: all are launched at once
  bool host_is_async = false;             ///< prepared at once; else when stage 0 is through with the pass before
};

Pass plan_pass(Instance& instance, const Batch& batch, const Host& host);

}  // namespace railyard::workload::inference
