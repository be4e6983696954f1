#include "workload/inference/scheduler/progress.h"

namespace railyard::workload::inference {

ScheduledBatch::Item Progress::schedule(std::uint64_t tokens) {
  ScheduledBatch::Item item;
  item.request = number;
  item.tokens = static_cast<std::uint32_t>(tokens);
  item.start = computed;
  item.is_first = !has_started;
  const bool is_answer = computed + (decodes_first ? 1 : 0) >= prompt;
  computed += tokens;
  if (computed > known + sampling) item.drafts = static_cast<std::uint32_t>(computed - known - sampling);
  item.is_decode = is_answer && tokens == 1 + item.drafts;
  if (!item.is_decode) item.chunk = chunks++;
  has_started = true;
  // The model has a token after those that are known, and after each draft.
  item.produces = computed >= known + sampling ? 1 + item.drafts : 0;
  sampling += item.produces;
  if (item.produces > 0) ++batches;
  return item;
}

void Progress::take_back(const ScheduledBatch::Item& item) {
  computed = item.start;
  sampling -= item.produces;
  if (item.produces > 0) --batches;
}

void Progress::complete(const ScheduledBatch::Item& item) {
  sampling -= 1 + item.drafts;
  --batches;
  known += item.produces;
}

}  // namespace railyard::workload::inference
