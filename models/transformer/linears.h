// The matrices of a dense model, one by one, and their shards: ranks that divide weights (generalized tensor parallelism)
// keep 1/N of each matrix of a tensor-parallel rank, cut along its output rows, with its gradient and optimizer state.
//
//   qkv         (a + 2g)d / tp x h      fc1   2f / tp x h (f / tp if the MLP is not gated)
//   proj        h x ad / tp             fc2   h x f / tp
//   embedding   V / tp x h              head  V / tp x h
//
// Norms, biases and learned positions stay whole. Rows of a shard are padded to a multiple of kShardRows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/data_type.h"
#include "transformer/model_shape.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

enum class Linear : std::uint8_t { qkv, proj, fc1, fc2, embedding, head };
constexpr std::array<const char*, 6> kLinearNames{"Qkv", "Proj", "Fc1", "Fc2", "Embedding", "Head"};
constexpr std::array<Linear, 4> kLayerLinears{Linear::qkv, Linear::proj, Linear::fc1, Linear::fc2};

constexpr bool is_of_layer(Linear linear) { return linear < Linear::embedding; }

/// What a kernel computes with a matrix: the output, the gradient of the input, or the gradient of the matrix.
enum class Product : std::uint8_t { fprop, dgrad, wgrad };

struct LinearUse {
  Linear linear;
  Product product;
};

/// The matrix that a kernel of layer_kernels.h multiplies by, or whose gradient it computes.
std::optional<LinearUse> linear_use(std::string_view kernel);

struct Matrix {
  std::uint64_t rows = 0, columns = 0;
  std::uint64_t elements() const { return rows * columns; }
  bool operator==(const Matrix& o) const { return rows == o.rows && columns == o.columns; }
};

/// On a tensor-parallel rank.
Matrix matrix_of(const ModelShape& model, Linear linear, std::uint32_t tp);

/// Rows of a shard are a multiple of it, so that tiles of the tensor cores end with the shard.
constexpr std::uint64_t kShardRows = 16;
/// The same, where gathers have blocks of scales: mxfp8 has a scale for 32 numbers, in backward passes of one column.
constexpr std::uint64_t shard_rows(DataType gathered) { return gathered == DataType::mxfp8 ? 32 : kShardRows; }
/// The shard of each of `ranks` ranks, padded. @param rows  of a shard are a multiple of it
Matrix shard_of(const Matrix& matrix, std::uint32_t ranks, std::uint64_t rows = kShardRows);

/// Parameters of a stage on a rank, of `ranks` ranks that divide its matrices.
struct DividedParameters {
  std::uint64_t shards = 0;  ///< with padding
  std::uint64_t whole = 0;   ///< the same on all these ranks
};
/// @pre a dense model
DividedParameters divided_parameters(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ranks,
                                     std::uint64_t rows = kShardRows);

/// The matrices of a stage, in the order of its forward pass.
std::vector<Linear> linears_of(const Stage& stage);
struct GatheredMatrix {
  Matrix matrix;
  DataType type = DataType::bf16;
  bool operator==(const GatheredMatrix& o) const { return matrix == o.matrix && type == o.type; }
};
/// Bytes of whole matrices that a chain of gathers holds at once: each matrix and the `ahead` matrices after it.
/// Matrices of the same shape and type share a buffer unless they are held together.
Bytes held_bytes(const std::vector<GatheredMatrix>& chain, std::uint32_t ahead);

}  // namespace railyard::transformer
