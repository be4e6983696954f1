// The arithmetic of kernel times, for --explain.
#pragma once

#include <string>

#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"
#include "sc_main/value.h"

namespace railyard {

Value kernel_arithmetic(const gpu::GpuDatasheet& gpu, const gpu::KernelTime& time);
/// The numbers as indented lines.
std::string kernel_arithmetic_text(const Value& numbers);

}  // namespace railyard
