// The dimensions of parallelism, and the sizes and the order in which a mesh of ranks has them. Plain data; no SystemC.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace railyard::workload {

/// gtp: ranks that divide the weights of a tensor-parallel rank among themselves, each with a micro-batch of its own.
enum class Dimension : std::uint8_t { tp, cp, ep, dp, pp, gtp };
constexpr std::size_t kDimensions = 6;
constexpr std::array<const char*, kDimensions> kDimensionNames{"tp", "cp", "ep", "dp", "pp", "gtp"};

/// Dimensions from the innermost to the outermost, each once.
using RankOrder = std::array<Dimension, kDimensions>;
constexpr RankOrder kMegatronOrder{Dimension::tp, Dimension::gtp, Dimension::cp,
                                   Dimension::ep, Dimension::dp,  Dimension::pp};

/// By copy of a folded mesh (mesh.h): which of the copies that run does what it does. Copies that run are numbered in the
/// order of all copies. Empty: the mesh is not folded.
using Copies = std::vector<std::uint32_t>;
inline std::uint32_t running(const Copies& copies) {
  return copies.empty() ? 1 : *std::max_element(copies.begin(), copies.end()) + 1;
}

using MeshSizes = std::array<std::uint32_t, kDimensions>;  ///< by Dimension, each at least 1

}  // namespace railyard::workload
