// The arithmetic of a kernel's time, for --explain.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard {

nlohmann::ordered_json kernel_arithmetic(const gpu::GpuDatasheet& gpu, const gpu::KernelTime& time);
/// Lines of it, indented.
std::string kernel_arithmetic_text(const nlohmann::ordered_json& numbers);

}  // namespace railyard
