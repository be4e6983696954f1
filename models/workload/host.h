// Host software of a serving engine: CPU time that requests and steps take in addition to GPU time. Plain arithmetic,
// for every kind of workload that serves requests.
//
//   request   a request reaches the queue `request_us` after its arrival: API server, tokenizer
//   step      before the first kernel of a step: `step_us`, plus `sequence_us` for each sequence: scheduler, inputs
//   layer     in batches that are not one CUDA graph (inference/cuda_graphs.h), each layer's launch takes `layer_us`; its
//             kernels begin after that
//   token     an output token reaches the client `token_us` after the end of its step: detokenizer, streaming
//
// A synchronous engine prepares a step when the previous step has left the GPUs, so a step takes the sum of host and
// GPU time. An asynchronous engine prepares a step when the previous step begins on the GPUs, so a step takes the
// longer of the two times; a request that arrives during the preparation waits for the next step.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace railyard::workload {

struct Host {
  std::string name;  ///< name of the preset
  bool async = false;
  double step_us = 0;
  double sequence_us = 0;
  double layer_us = 0;
  double request_us = 0;
  double token_us = 0;

  Time request() const { return us(request_us); }
  Time token() const { return us(token_us); }
  /// Time until the first kernel of a step can begin.
  Time step(std::uint64_t sequences) const { return us(step_us + sequence_us * static_cast<double>(sequences)); }
  /// Time between the launches of two layers.
  Time layer() const { return us(layer_us); }

 private:
  static Time us(double microseconds) { return Time::seconds(microseconds * 1e-6); }
};

}  // namespace railyard::workload
