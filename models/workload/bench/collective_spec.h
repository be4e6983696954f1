// workload.kind: collective, typed and validated: the options of nccl-tests' command line. Plain data; no SystemC.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "collective/engine.h"
#include "collective/spec.h"

namespace railyard::workload::collective_bench {

/// Element types of nccl-tests, with the names of this project.
enum class ElementType : std::uint8_t { bf16, fp16, fp32, fp64, fp8, int8, int32, int64 };
constexpr std::array<const char*, 8> kElementTypeNames{"bf16", "fp16", "fp32", "fp64", "fp8", "int8", "int32", "int64"};
constexpr std::array<const char*, 8> kNcclTypeNames{"bfloat16", "half", "float", "double",
                                                    "f8e4m3",   "int8", "int32", "int64"};
constexpr Bytes bytes_of(ElementType type) {
  constexpr std::array<Bytes, 8> kBytes{2, 2, 4, 8, 1, 1, 4, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

struct CollectiveBenchSpec {
  collective::Operation operation = collective::Operation::all_reduce;
  std::vector<std::uint32_t> gpus;  ///< rank -> GPU, counted over all groups; at least two, no GPU twice
  std::vector<Bytes> sizes;         ///< in the order of the runs
  ElementType dtype = ElementType::fp32;
  collective::Engine engine;
  std::optional<collective::Algorithm> algorithm;  ///< nullopt: the library's choice
  std::optional<collective::Protocol> protocol;
  collective::NcclVersion nccl_version = collective::NcclVersion::v2_29;
  std::uint32_t root = 0;        ///< of a broadcast: the rank that has the data; of a reduce: that gets the sum
  bool both_directions = false;  ///< ring: every second channel runs in the opposite direction
  bool in_graph = false;
  std::uint32_t iterations = 1;
  std::vector<Time> skew;  ///< by rank; empty: none
  // Of a folded test (collective/collective.h): `gpus` are those of the ranks that run.
  std::vector<std::uint32_t> numbers;             ///< of each rank that runs, among all; empty: they are its ranks
  std::vector<collective::FoldedMember> members;  ///< all ranks; empty: not folded
};

}  // namespace railyard::workload::collective_bench
