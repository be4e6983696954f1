#include "workload/inference/scheduler/progress.h"

namespace railyard::workload::inference {

ScheduledBatch::Item Progress::schedule(std::uint64_t tokens, std::uint32_t drafts) {
  ScheduledBatch::Item item;
  item.request = number;
  item.tokens = static_cast<std::uint32_t>(tokens);
  item.start = computed;
  item.is_first = !has_started;
  const bool is_answer = computed + (decodes_first ? 1 : 0) >= prompt;
  const bool has_drafts = computed >= prefill && tokens <= 1 + drafts;
  item.is_decode = is_answer && (tokens == 1 || has_drafts);
  if (!item.is_decode) item.chunk = chunks++;
  has_started = true;
  computed += tokens;
  // The model has tokens after those that are known, and after each draft.
  if (item.is_decode && item.tokens > 1) {
    item.produces = item.tokens;
  } else {
    item.produces = computed == known + sampling ? 1 : 0;
  }
  sampling += item.produces;
  return item;
}

}  // namespace railyard::workload::inference
