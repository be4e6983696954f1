// Number formats of weights, activations and KV cache.
//
// mxfp8 stores an 8-bit scale for each block of 32 numbers (OCP Microscaling Formats 1.0), nvfp4 one for each block of
// 16 (NVIDIA, "Introducing NVFP4"). The byte counts below include these scales.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace railyard {

enum class DataType { fp16, bf16, tf32, fp8, int8, fp4, mxfp8, nvfp4 };
constexpr std::size_t kDataTypes = 8;
constexpr std::array<std::string_view, kDataTypes> kDataTypeNames{"fp16", "bf16", "tf32",  "fp8",
                                                                  "int8", "fp4",  "mxfp8", "nvfp4"};

/// Bytes of 32 numbers.
constexpr std::uint64_t block_bytes(DataType type) {
  switch (type) {
    case DataType::fp16:
    case DataType::bf16: return 64;
    case DataType::tf32: return 128;
    case DataType::fp8:
    case DataType::int8: return 32;
    case DataType::fp4: return 16;
    case DataType::mxfp8: return 33;
    case DataType::nvfp4: return 18;
  }
  return 64;
}

constexpr double bytes_of(DataType type) { return static_cast<double>(block_bytes(type)) / 32; }
/// Rounded up.
constexpr std::uint64_t stored_bytes(std::uint64_t elements, DataType type) {
  return (elements * block_bytes(type) + 31) / 32;
}
constexpr std::string_view name_of(DataType type) { return kDataTypeNames[static_cast<std::size_t>(type)]; }

}  // namespace railyard
