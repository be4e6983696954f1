// The numbers of --explain for kinds that serve a model: its layers, and what a pass takes on ideal links.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "gpu/datasheet.h"
#include "sc_main/value.h"
#include "transformer/layer_plan.h"
#include "transport/fabric.h"
#include "workload/inference/engine/grid.h"

namespace railyard {

/// One row for each kind of layer. @param gpus  on which the model runs. @param kv_tokens  of the first request, if it is known
Value layer_arithmetic(const transformer::ModelShape& model, const std::vector<const gpu::GpuDatasheet*>& gpus,
                       std::optional<std::uint64_t> kv_tokens);
std::string layer_arithmetic_text(const Value& row);

/// Kernels of a layer in a pass, and the time of stage 0 with collectives at the rate of their paths, without latency or
/// contention. @param gpus  of the ranks
Value pass_arithmetic(transport::Fabric& fabric, workload::inference::Grid& grid, const std::vector<GpuId>& gpus,
                      transformer::LayerPass layer);
std::string pass_arithmetic_text(const Value& pass);

}  // namespace railyard
