#include "sc_main/scenario/kinds/host.h"

#include "sc_main/scenario/datasheets/datasheets.h"

namespace railyard::scenario {

Record<HostSection> host_record(const char* otherwise) {
  Record<HostSection> r;
  r.word("preset", &HostSection::preset, shipped_datasheets("hosts"),
         "constants of an engine's host software, from platforms/datasheets/hosts")
      .fallback(otherwise);
  r.add("async", &HostSection::async,
        "the host prepares a step while the previous step runs: a step takes the longer of host and GPU time, else "
        "their sum")
      .fallback("from the preset");
  const auto us = [&](const char* key, std::optional<double> HostSection::*member, const char* doc) {
    r.add(key, member, doc).range(0, kLongestHostUs).fallback("from the preset");
  };
  us("step_us", &HostSection::step_us, "time to prepare a step: scheduler, inputs, sampling");
  us("sequence_us", &HostSection::sequence_us,
     "additional time of a step, per sequence: inputs, and handing out its token");
  us("layer_us", &HostSection::layer_us,
     "time to launch a layer of which all but attention is compiled or captured: batches with prompts, and above the "
     "largest captured size");
  us("eager_layer_us", &HostSection::eager_layer_us,
     "time to launch a layer kernel by kernel: cudagraph.mode none, and batches outside of graphs with decode");
  us("request_us", &HostSection::request_us,
     "time of the API server for a request, one after the other, until it is queued: HTTP, tokenizer");
  us("token_us", &HostSection::token_us,
     "time from the end of a step until the client has the token: detokenizer, streaming");
  return r;
}

workload::Host resolve_host(const HostSection& written, const std::string& otherwise, Cpu cpu, bool streams) {
  workload::Host host = load_host(written.preset.value_or(otherwise), cpu, streams);
  host.async = written.async.value_or(host.async);
  host.step_us = written.step_us.value_or(host.step_us);
  host.sequence_us = written.sequence_us.value_or(host.sequence_us);
  host.layer_us = written.layer_us.value_or(host.layer_us);
  host.eager_layer_us = written.eager_layer_us.value_or(host.eager_layer_us);
  host.request_us = written.request_us.value_or(host.request_us);
  host.token_us = written.token_us.value_or(host.token_us);
  return host;
}

}  // namespace railyard::scenario
