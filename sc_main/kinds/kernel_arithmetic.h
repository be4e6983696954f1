// The arithmetic of kernel times, for --explain.
#pragma once

#include <string>

#include "gpu/datasheet.h"
#include "gpu/kernels/kernel_time.h"
#include "sc_main/value.h"

namespace railyard {

Value kernel_arithmetic(const gpu::GpuDatasheet& gpu, const gpu::KernelTime& time);
/// 0 if no time has passed.
inline double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

/// The numbers as indented lines.
std::string kernel_arithmetic_text(const Value& numbers);

}  // namespace railyard
