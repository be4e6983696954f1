#include "workload/inference/prefill_scheduler.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::inference {

PrefillScheduler::PrefillScheduler(Instance& prefill, Instance& decode, const PrefillSpec& spec, Executor& executor,
                                   PrefillClient& client)
    : prefill_(prefill),
      spec_(spec),
      executor_(executor),
      client_(client),
      pipeline_(prefill, executor, PassNames::prefill, spec.pp_send, *this),
      handoff_(prefill, decode, spec, emitted_, executor, *this),
      first_token_(spec.requests.size()) {}

void PrefillScheduler::admit(std::uint32_t request) {
  const std::uint32_t prompt = spec_.requests[request].prompt_tokens;
  for (std::uint32_t start = 0, index = 0; start < prompt; ++index) {
    const std::uint32_t tokens = std::min(spec_.chunk_tokens, prompt - start);
    waiting_.push_back({request, index, start, tokens, start + tokens == prompt});
    start += tokens;
  }
  schedule();
}

void PrefillScheduler::schedule() {
  // Do not emit during another emission: the jobs of two passes must not interleave in a stream.
  if (scheduled_ || waiting_.empty() || emitted_.size() > begun_) return;
  scheduled_ = true;
  executor_.fabric().calendar().at(executor_.fabric().now(), *this, 0, 0);
}

void PrefillScheduler::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  const Batch::Chunk chunk = waiting_.front();
  waiting_.pop_front();
  emit(chunk);
  schedule();
}

void PrefillScheduler::emit(const Batch::Chunk& chunk) {
  Pass pass = plan_pass(prefill_, {{chunk}, {}}, spec_.host);
  pass.index = chunk.index;
  if (spec_.requests.size() > 1) pass.request = chunk.request;
  emitted_.push_back(chunk);
  pipeline_.emit(pass);
}

void PrefillScheduler::on_pass_begun(std::uint32_t pass) {
  ++begun_;
  if (emitted_[pass].start == 0) client_.on_prefill_begun(emitted_[pass].request);
  schedule();
}

void PrefillScheduler::on_handed_off(std::uint32_t request) {
  executor_.reached(this, request);
  check_landed(request);
}

void PrefillScheduler::on_pass_done(std::uint32_t pass) {
  const Batch::Chunk& chunk = emitted_[pass];
  tokens_done_ += chunk.tokens;
  if (!chunk.last) return;
  first_token_[chunk.request] = true;
  executor_.reached(this, chunk.request);
  client_.on_first_token(chunk.request);
  check_landed(chunk.request);
}

void PrefillScheduler::check_landed(std::uint32_t request) {
  if (!first_token_[request] || !handoff_.done(request)) return;
  executor_.passed(this, request);
  client_.on_kv_landed(request);
}

}  // namespace railyard::workload::inference
