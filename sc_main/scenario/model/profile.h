// compute.profile: measured kernel times of a model's layers, read from an LLMServingSim profile bundle.
//
// A bundle is a folder with meta.yaml (optional here) and tp<N>/ for each degree of tensor parallelism, with
//   dense.csv         layer,tokens,time_us
//   per_sequence.csv  layer,sequences,time_us
//   attention.csv     prefill_chunk,kv_prefill,n_decode,kv_decode,time_us; rows that mix both may be missing
//   skew_fit.csv      pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha; only if meta.yaml has skew_fit.enabled: true
//   moe.csv           tokens,activated_experts,time_us; only for a mixture of experts
#pragma once

#include <memory>
#include <string>

#include "sc_main/scenario/table/record.h"
#include "transformer/layer_profile.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

struct ComputeSection {
  std::string profile;  ///< "": none
};

Record<ComputeSection> compute_record();

/// Null if the scenario has no profile. @throws InputError: no such bundle, another model, a missing tp, a bad table
std::shared_ptr<const transformer::LayerProfile> load_profile(const ComputeSection& written,
                                                              const transformer::ModelShape& model, std::uint32_t tp,
                                                              const Source& source);

}  // namespace railyard::scenario
