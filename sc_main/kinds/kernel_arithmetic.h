// The arithmetic of kernel times, for --explain.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard {

nlohmann::ordered_json kernel_arithmetic(const gpu::GpuDatasheet& gpu, const gpu::KernelTime& time);
/// The numbers as indented lines.
std::string kernel_arithmetic_text(const nlohmann::ordered_json& numbers);

}  // namespace railyard
