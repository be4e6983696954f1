#include <algorithm>
#include <limits>
#include <memory>

#include "workload/inference/service/prefill_spec.h"

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
  prefill.part = RequestPart::prompt;
  prefill.mapping = spec.prefill;
  WholeSequencesSpec& chunks = prefill.whole.emplace();
  chunks.max_batched_tokens = std::min(spec.chunk_tokens, longest);
  chunks.max_seqs = std::numeric_limits<std::uint32_t>::max();
  chunks.prompts_in_turn = true;
  chunks.is_eager = true;
  InstanceSpec decode;
  decode.name = "decode";
  decode.part = RequestPart::answer;
  decode.mapping = spec.decode;
  WholeSequencesSpec& steps = decode.whole.emplace();
  steps.max_batched_tokens = steps.max_seqs = spec.max_batch;
  steps.groups = spec.decode.pp;
  steps.is_eager = steps.placeholders = spec.host.async;
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
