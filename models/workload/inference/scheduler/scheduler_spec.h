// Settings of schedulers. Plain data.
#pragma once

#include <cstdint>

namespace railyard::workload::inference {

enum class QueuePolicy : std::uint8_t { fcfs, priority };
/// Whether prompts and decodes share a batch, or a batch has only prompts as long as there are any.
enum class BatchMix : std::uint8_t { mixed, prefill_first };
/// Blocks that must be free for a request to start: for its first chunk; for all its known tokens; for these, its answer,
/// and SGLang's estimate of the remaining output tokens of running requests (it decays); or for the answers of all running
/// requests and its own. It decides the strategy (paged_strategies.h).
enum class Reserve : std::uint8_t { chunk, sequence, expected_output, full_output };
/// What happens to a running request without blocks. never: this does not occur, with Reserve::full_output.
enum class Preemption : std::uint8_t { recompute, never };

struct SchedulerSpec {
  QueuePolicy policy = QueuePolicy::fcfs;
  std::uint32_t max_batched_tokens = 8192;
  std::uint32_t max_seqs = 1024;
  std::uint32_t max_model_len = 0;                  ///< tokens of a request, prompt and answer; 0: no limit
  std::uint32_t long_prefill_threshold_tokens = 0;  ///< longest chunk of a prompt; 0: the budget only
  bool chunked_prefill = true;
  BatchMix mix = BatchMix::mixed;
  Reserve reserve = Reserve::sequence;
  std::uint64_t host_blocks = 0;  ///< of KV cache in host memory; 0: none
  Preemption preemption = Preemption::recompute;
  double watermark_ratio = 0;  ///< share of all blocks that stays free when a request starts beside others
  bool prefix_caching = true;
  std::uint32_t block_tokens = 16;
  std::uint32_t max_in_flight = 1;  ///< batches
  bool placeholders = false;        ///< a request may run on a token that is not known yet
  /// Guessed tokens that a decoding request computes beside its next token. The batch says how many were right
  /// (ScheduledBatch::Item::produces); the others are given back. @pre 0 with placeholders
  std::uint32_t draft_tokens = 0;
  bool computes_first_token =
      false;  ///< of the part `answer`: when the KV has arrived, a step on the last token of the prompt
              ///< gives the first token
};

/// Of the scheduler WholeSequences.
struct WholeSequencesSpec {
  std::uint32_t max_batched_tokens = 8192;
  std::uint32_t longest_pass = ~0u;  ///< tokens; no batch of the requests has more, whatever the limit
  std::uint32_t max_seqs = 1024;
  std::uint32_t max_in_flight = 1;  ///< batches, of each group
  bool is_eager = false;  ///< instead of max_in_flight: a batch is composed as soon as the one before has begun
  /// A request stays in the group of its first batch, so requests that decode together stay together. With one group for
  /// each pipeline stage, all stages can work at the same time.
  std::uint32_t groups = 1;
  bool prompts_in_turn = false;  ///< a batch has a chunk of one prompt
  bool placeholders = false;     ///< a request may run on a token that is not known yet
};

}  // namespace railyard::workload::inference
