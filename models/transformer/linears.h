// The matrices of a model, one by one, and their shards: ranks that divide weights (generalized tensor parallelism) keep
// 1/N of each matrix of a tensor-parallel rank, cut along its output rows, with its gradient and optimizer state.
//
//   qkv         (a + 2g)d / tp x h      fc1   2f / tp x h (f / tp if the MLP is not gated)
//   proj        h x ad / tp             fc2   h x f / tp
//   embedding   V / tp x h              head  V / tp x h
//   latent attention, instead of qkv (Megatron-LM's names):
//   q_down      query rank x h          q_up     a query_dim / tp x query rank (x h if queries are not compressed)
//   kv_down     cached x h              kv_up    a (nope + value) / tp x kv rank
//   experts_fc1, experts_fc2            fc1 and fc2 of each routed expert of an expert-parallel rank
//
// In a layer with routed experts, fc1 and fc2 are those of its shared experts, if it has some. Other ranks may divide
// experts than all else. Norms, biases, routers and learned positions stay whole; so
// do q_down and kv_down on tensor-parallel ranks. Rows of a shard are padded to a
// multiple of kShardRows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/data_type.h"
#include "transformer/model_shape.h"
#include "transformer/parameters.h"

namespace railyard::transformer {

enum class Linear : std::uint8_t {
  qkv,
  proj,
  fc1,
  fc2,
  experts_fc1,
  experts_fc2,
  q_down,
  q_up,
  kv_down,
  kv_up,
  embedding,
  head
};
constexpr std::array<const char*, 12> kLinearNames{"Qkv",   "Proj", "Fc1",    "Fc2",  "ExpertsFc1", "ExpertsFc2",
                                                   "QDown", "QUp",  "KvDown", "KvUp", "Embedding",  "Head"};

constexpr bool is_of_layer(Linear linear) { return linear < Linear::embedding; }
/// Whether tensor parallelism divides the output, so that the input is alike on all its ranks.
constexpr bool is_column_parallel(Linear linear) {
  return linear == Linear::qkv || linear == Linear::q_up || linear == Linear::kv_up || linear == Linear::fc1 ||
         linear == Linear::head;
}
constexpr bool is_of_experts(Linear linear) { return linear == Linear::experts_fc1 || linear == Linear::experts_fc2; }

/// What a kernel computes with a matrix: the output, the gradient of the input, or the gradient of the matrix.
enum class Product : std::uint8_t { fprop, dgrad, wgrad };

struct LinearUse {
  Linear linear;
  Product product;
  bool operator==(const LinearUse& o) const { return linear == o.linear && product == o.product; }
};
/// The name of the kernel in outputs: "down_wgrad".
const char* kernel_name(const LinearUse& use);

struct Matrix {
  std::uint64_t rows = 0, columns = 0;
  std::uint64_t count = 1;  ///< alike: of all experts of a rank
  std::uint64_t elements() const { return count * rows * columns; }
  bool operator==(const Matrix& o) const { return rows == o.rows && columns == o.columns && count == o.count; }
};

/// On a tensor-parallel and expert-parallel rank. @param kind  of the layer
Matrix matrix_of(const ModelShape& model, Linear linear, std::uint32_t tp, std::uint32_t kind = 0,
                 std::uint32_t ep = 1);

/// Rows of a shard are a multiple of it, so that tiles of the tensor cores end with the shard.
constexpr std::uint64_t kShardRows = 16;
/// The same, where gathers have blocks of scales: mxfp8 has a scale for 32 numbers, in backward passes of one column.
constexpr std::uint64_t shard_rows(DataType gathered) { return gathered == DataType::mxfp8 ? 32 : kShardRows; }
/// The shard of each of `ranks` ranks, padded. @param rows  of a shard are a multiple of it
Matrix shard_of(const Matrix& matrix, std::uint32_t ranks, std::uint64_t rows = kShardRows);

/// How many ranks divide each matrix. 1: it is whole.
struct Division {
  std::uint32_t ranks = 1, expert_ranks = 1;
  std::uint64_t rows = kShardRows;  ///< of a shard are a multiple of it

  std::uint32_t of(Linear linear) const { return is_of_experts(linear) ? expert_ranks : ranks; }
  /// A whole matrix is not padded.
  Matrix shard(const Matrix& matrix, Linear linear) const {
    return of(linear) > 1 ? shard_of(matrix, of(linear), rows) : matrix;
  }
  /// All shards.
  Matrix gathered(const Matrix& matrix, Linear linear) const {
    Matrix whole = shard(matrix, linear);
    whole.rows *= of(linear);
    return whole;
  }
};

/// Parameters of a stage on a rank, of the ranks that divide its matrices.
struct DividedParameters {
  std::uint64_t shards = 0;   ///< with padding
  std::uint64_t experts = 0;  ///< the same of routed experts
  std::uint64_t whole = 0;    ///< the same on all ranks that divide `shards`
};
/// @pre experts have no biases, if the model has experts
DividedParameters divided_parameters(const ModelShape& model, const Stage& stage, std::uint32_t tp, std::uint32_t ep,
                                     const Division& division);

/// Of the layers of a stage: elements of the matrices of a rank / ranks that divide them, without padding.
std::uint64_t divided_projection_weights(const ModelShape& model, const Stage& stage, std::uint32_t tp,
                                         std::uint32_t ep, const Division& division);

/// A matrix of a stage.
struct StageLinear {
  Linear linear;
  std::uint32_t kind = 0;  ///< of its layer
};
/// The matrices of attention, in the order of its forward pass.
std::vector<Linear> attention_linears(const ModelShape& model);
/// The matrices of a layer, in the order of its forward pass. @param kind  of the layer
std::vector<Linear> layer_linears(const ModelShape& model, std::uint32_t kind);
/// The matrices of a stage, in the order of its forward pass.
std::vector<StageLinear> linears_of(const ModelShape& model, const Stage& stage);

}  // namespace railyard::transformer
