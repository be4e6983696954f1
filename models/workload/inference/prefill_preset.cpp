#include <algorithm>
#include <memory>

#include "workload/inference/serving_spec.h"

namespace railyard::workload::inference {

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
  prefill.batching = Batching::prompts_in_turn;
  prefill.part = RequestPart::prompt;
  prefill.mapping = spec.prefill;
  prefill.scheduler.max_batched_tokens = std::min(spec.chunk_tokens, longest);
  prefill.scheduler.max_in_flight = spec.prefill.pp;
  InstanceSpec decode;
  decode.name = "decode";
  decode.batching = Batching::decode_groups;
  decode.part = RequestPart::answer;
  decode.mapping = spec.decode;
  decode.scheduler.max_seqs = spec.max_batch;
  decode.scheduler.max_in_flight = spec.decode.pp;
  serving.instances = {prefill, decode};

  serving.memory.memory_limit_ratio = spec.memory_limit_ratio;
  serving.host = spec.host;
  serving.pp_send = spec.pp_send;
  serving.handoff = spec.handoff;
  return serving;
}

}  // namespace railyard::workload::inference
