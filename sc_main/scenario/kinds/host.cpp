#include "sc_main/scenario/kinds/host.h"

#include "sc_main/scenario/datasheets/datasheets.h"

namespace railyard::scenario {

Record<HostSection> host_record() {
  Record<HostSection> r;
  r.word("preset", &HostSection::preset, shipped_datasheets("hosts"),
         "constants of an engine's host software, from platforms/datasheets/hosts");
  r.add("async", &HostSection::async,
        "a step is prepared while the one before runs: it takes the longer of host and GPU, else their sum")
      .fallback("the preset's");
  const auto us = [&](const char* key, std::optional<double> HostSection::*member, const char* doc) {
    r.add(key, member, doc).range(0, kLongestHostUs).fallback("the preset's");
  };
  us("step_us", &HostSection::step_us, "to prepare a step: scheduler, inputs, sampling");
  us("sequence_us", &HostSection::sequence_us, "the same, more for each sequence of the step");
  us("layer_us", &HostSection::layer_us,
     "to launch a layer where kernels are launched one by one: prefill, and decode batches beyond 512");
  us("request_us", &HostSection::request_us, "from a request's arrival until it is queued: API server, tokenizer");
  us("token_us", &HostSection::token_us,
     "from the step that makes a token until the client has it: detokenizer, streaming");
  return r;
}

workload::Host resolve_host(const HostSection& written) {
  workload::Host host = load_host(written.preset);
  host.async = written.async.value_or(host.async);
  host.step_us = written.step_us.value_or(host.step_us);
  host.sequence_us = written.sequence_us.value_or(host.sequence_us);
  host.layer_us = written.layer_us.value_or(host.layer_us);
  host.request_us = written.request_us.value_or(host.request_us);
  host.token_us = written.token_us.value_or(host.token_us);
  return host;
}

}  // namespace railyard::scenario
