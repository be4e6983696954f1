#include <algorithm>
#include <limits>
#include <memory>

#include "workload/inference/service/prefill_spec.h"

namespace railyard::workload::inference {

namespace {

/// An engine before paged KV cache.
SchedulerSpec whole_sequences() {
  SchedulerSpec scheduler;
  scheduler.reserve = Reserve::ahead;
  scheduler.preemption = Preemption::never;
  scheduler.prefix_caching = false;
  return scheduler;
}

}  // namespace

ServingSpec as_serving(const PrefillSpec& spec) {
  ServingSpec serving;
  const auto requests = std::make_shared<const std::vector<Request>>(spec.requests);
  serving.listed = requests;
  serving.requests = [=] { return std::make_unique<RequestList>(requests); };
  serving.names_requests = requests->size() > 1;
  std::uint32_t longest = 0;
  for (const Request& request : *requests) longest = std::max(longest, request.prompt_tokens);

  InstanceSpec prefill;
  prefill.name = "prefill";
  prefill.part = RequestPart::prompt;
  prefill.mapping = spec.prefill;
  prefill.scheduler = whole_sequences();
  prefill.scheduler.max_batched_tokens = std::min(spec.chunk_tokens, longest);
  prefill.scheduler.max_seqs = std::numeric_limits<std::uint32_t>::max();
  prefill.scheduler.prompts_in_turn = true;
  prefill.scheduler.is_eager = true;
  InstanceSpec decode;
  decode.name = "decode";
  decode.part = RequestPart::answer;
  decode.mapping = spec.decode;
  decode.scheduler = whole_sequences();
  decode.scheduler.max_batched_tokens = decode.scheduler.max_seqs = spec.max_batch;
  decode.scheduler.groups = spec.decode.pp;
  decode.scheduler.is_eager = decode.scheduler.placeholders = spec.host.async;
  prefill.engine = decode.engine = spec.engine;
  serving.instances = {prefill, decode};

  serving.memory.memory_limit_ratio = spec.memory_limit_ratio;
  serving.cudagraph.mode = spec.host.cudagraph;
  serving.cudagraph.pads = false;
  serving.host = spec.host;
  serving.pp_send = spec.pp_send;
  serving.handoff = spec.handoff;
  return serving;
}

}  // namespace railyard::workload::inference
