// Host software of a serving engine: CPU time that requests and steps take in addition to GPU time. Plain arithmetic,
// for every kind of workload that serves requests.
//
//   request   the API server is one process: it takes `request_us` for each request, one after the other, before the
//             request is in the engine's queue
//   step      before the first kernel of a step: `step_us`, plus `sequence_us` for each sequence: scheduler, inputs
//   layer     in batches that are not one CUDA graph, each layer's launch takes `layer_us` if the host launches only
//             attention, and `eager_layer_us` if it launches every kernel of a dense layer (inference/cuda_graphs.h), in
//             proportion more if a layer has more kernels; the layer's kernels begin after that
//   token     an output token reaches the client `token_us` after the end of its step: detokenizer, streaming
//
// A synchronous engine prepares a step when the previous step has left the GPUs, so a step takes the sum of host and
// GPU time. An asynchronous engine prepares a step when the previous step begins on the GPUs, so a step takes the
// longer of the two times; a request that arrives during the preparation waits for the next step.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/units.h"

namespace railyard::workload {

/// Batches that an engine has captured as CUDA graphs.
enum class GraphMode : std::uint8_t {
  full,       ///< batches of decodes as one graph; batches with prompts as with piecewise
  piecewise,  ///< everything but attention
  decode,     ///< batches of decodes as one graph; batches with prompts not at all
  none,       ///< nothing
};
inline constexpr std::array<const char*, 4> kGraphModeNames{"full", "piecewise", "decode", "none"};

/// What the host launches in each layer of a batch.
enum class LayerLaunch : std::uint8_t { nothing, attention, kernels };

/// Kernels of a dense layer, for which `eager_layer_us` is measured: two norms, four products, rotary embedding, attention,
/// activation.
inline constexpr double kDenseLayerKernels = 9;

struct Host {
  std::string name;  ///< name of the preset
  bool async = false;
  GraphMode cudagraph = GraphMode::full;  ///< unless the scenario says otherwise
  double step_us = 0;
  double sequence_us = 0;
  double layer_us = 0;
  double eager_layer_us = 0;
  double request_us = 0;
  double token_us = 0;

  Time request() const { return us(request_us); }
  Time token() const { return us(token_us); }
  /// Time until the first kernel of a step can begin.
  Time step(std::uint64_t sequences) const { return us(step_us + sequence_us * static_cast<double>(sequences)); }
  /// Time between the launches of two layers.
  /// @param kernels  of a layer, on average; collectives have their own launches (collective::EagerCall)
  Time layer(LayerLaunch launch, double kernels) const {
    if (launch == LayerLaunch::nothing) return Time();
    return us(launch == LayerLaunch::attention ? layer_us : eager_layer_us * kernels / kDenseLayerKernels);
  }
  /// Whether the host of a stage ever has anything to do.
  bool is_modelled() const { return step_us > 0 || sequence_us > 0 || layer_us > 0 || eager_layer_us > 0; }

 private:
  static Time us(double microseconds) { return Time::seconds(microseconds * 1e-6); }
};

}  // namespace railyard::workload
