// Number formats of weights, activations and KV cache.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace railyard {

enum class DataType { fp16, bf16, tf32, fp8, int8, fp4 };
constexpr std::size_t kDataTypes = 6;
constexpr std::array<std::string_view, kDataTypes> kDataTypeNames{"fp16", "bf16", "tf32", "fp8", "int8", "fp4"};

/// Storage size in half bytes, so that fp4 stays an integer.
constexpr unsigned half_bytes(DataType type) {
  switch (type) {
    case DataType::fp16:
    case DataType::bf16: return 4;
    case DataType::tf32: return 8;
    case DataType::fp8:
    case DataType::int8: return 2;
    case DataType::fp4: return 1;
  }
  return 4;
}

constexpr double bytes_of(DataType type) { return half_bytes(type) / 2.0; }
constexpr std::string_view name_of(DataType type) { return kDataTypeNames[static_cast<std::size_t>(type)]; }

}  // namespace railyard
