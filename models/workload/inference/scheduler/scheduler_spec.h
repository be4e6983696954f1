// Settings of schedulers. Plain data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "workload/inference/kv/kv_store.h"

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

/// Speculative decoding, as a scheduler sees it: a decode computes some drafts, which are guessed tokens, beside its next token.
struct DraftSpec {
  std::uint32_t tokens = 0;  ///< drafts of a decode; 0: none
  /// By position: how likely a draft is right if those before it are (acceptance.h). @pre as many as tokens
  std::vector<double> acceptance;
  std::uint64_t seed = 1;
  std::uint32_t lookahead = 0;  ///< tokens beyond a batch for which a request takes blocks: the draft model's KV
  bool drops_last_hit = false;  ///< a request computes the last block again that it finds in the prefix index
  bool frees_rejected = false;  ///< blocks of wrong drafts are given back; otherwise the request's next tokens use them
};

struct SchedulerSpec {
  QueuePolicy policy = QueuePolicy::fcfs;
  std::uint32_t max_batched_tokens = 8192;
  std::uint32_t max_seqs = 1024;
  std::uint32_t max_model_len = 0;                  ///< tokens of a request, prompt and answer; 0: no limit
  std::uint32_t long_prefill_threshold_tokens = 0;  ///< longest chunk of a prompt; 0: the budget only
  bool chunked_prefill = true;
  BatchMix mix = BatchMix::mixed;
  Reserve reserve = Reserve::sequence;
  KvBelow below;  ///< of its KV cache
  Preemption preemption = Preemption::recompute;
  double watermark_ratio = 0;  ///< share of all blocks that stays free when a request starts beside others
  bool prefix_caching = true;
  std::uint32_t block_tokens = 16;
  std::uint32_t max_in_flight = 1;  ///< batches
  bool placeholders = false;        ///< a request may run on a token that is not known yet
  /// Of SglangScheduler: steps after which it looks for requests (--scheduler-recv-interval).
  std::uint32_t receive_interval = 1;
  DraftSpec drafts;
  bool computes_first_token =
      false;  ///< of the part `answer`: when the KV has arrived, a step on the last token of the prompt
              ///< gives the first token

  /// Tokens for which a request of `all` tokens has blocks at most: also for drafts beyond its end. Batches that are composed
  /// ahead count all drafts before them as right.
  std::uint64_t most_slots(std::uint64_t all) const {
    const std::uint64_t beyond = std::uint64_t{drafts.tokens} * (placeholders ? max_in_flight : 1) + drafts.lookahead;
    return max_model_len > 0 ? std::min(all + beyond, std::max<std::uint64_t>(all, max_model_len)) : all + beyond;
  }
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
