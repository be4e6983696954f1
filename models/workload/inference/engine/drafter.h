// The passes that make drafts, after a pass of the model and on the ranks of its last stage (vLLM V1,
// v1/spec_decode/llm_base_proposer.py). The first pass runs on all tokens of the batch, so that the draft model has KV for them; its
// last position of each sequence gives the first draft. Each further pass runs on one token of each sequence, the draft before:
//
//   embedding, with eagle and mtp a product that joins it with the hidden state; the layers; head and sampling
//
// A draft model also computes the token that the batch has just given, beside those of the batch. Wrong drafts of the batch
// are computed, too: the tokens of a batch are not packed again.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/engine/cuda_graphs.h"
#include "workload/inference/engine/pass.h"
#include "workload/inference/engine/speculation_spec.h"

namespace railyard::workload::inference {

class Drafter {
 public:
  /// @param tokens  drafts of a sequence
  /// @param engine  whose kernels run
  /// @param split   of the model's layers; a layer of mtp is divided alike
  /// @pre the method has a model
  Drafter(const Speculation& speculation, std::uint32_t tokens, const gpu::GpuDatasheet& gpu,
          const collective::Engine& engine, const transformer::LayerSplit& split);

  /// Adds the draft passes of a batch; of attention replicas, of the one with most tokens. The host launches their layers like those of batches with prompts, if they are no graphs of
  /// their own.
  void add(Pass& pass, const ScheduledBatch& whole, const CudaGraphs& graphs, const Host& host);

 private:
  /// @param rows  of the head
  std::vector<Pass::Step> plan(transformer::LayerPass layer, std::uint64_t rows, const CudaGraphs& graphs);

  Speculation speculation_;
  std::uint32_t tokens_;
  transformer::LayerSplit split_;
  gpu::KernelTimer kernels_;
  transformer::LayerTimer timer_;
};

}  // namespace railyard::workload::inference
