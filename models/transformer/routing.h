// How a router deals tokens to experts. Even: each expert gets the same share. Skewed: the i-th most popular expert of a
// layer is chosen i^-skew times as often as the first one (Zipf's law). A token goes to k different experts, so no expert
// gets more than 1/k of the copies; what is over goes to the others by their popularity. Each layer has its own order of
// experts, drawn by the seed, and keeps it for the whole run. Traced: shares of each layer, as counted in a real model.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "transformer/model_shape.h"

namespace railyard::transformer {

/// So much of some copies of tokens, in whole ones.
std::uint64_t part_of_copies(std::uint64_t copies, double part);

struct Routing {
  double skew = 0;  ///< exponent of Zipf's law; 0: even
  std::uint32_t seed = 0;
  /// By layer that routes, of its experts; the sum of a layer is 1. Null: by skew.
  std::shared_ptr<const std::map<std::uint32_t, std::vector<double>>> traced = nullptr;
};

/// Of the copies that all tokens make, the share of each expert of a layer. The sum is 1.
std::vector<double> expert_shares(const Routing& routing, std::uint32_t experts, std::uint32_t experts_per_token,
                                  std::uint32_t layer);

/// Of the copies of all expert-parallel ranks, those that reach one of them. Whole numbers, for equal results everywhere.
struct RankLoad {
  static constexpr std::uint32_t kWhole = 1u << 20;
  std::shared_ptr<const std::vector<std::uint32_t>> shares;  ///< by expert-parallel rank; the sum is about kWhole
  std::uint32_t rank = 0;
  double kept = 1;  ///< of the copies of all ranks; less if experts have a capacity
  /// Copies that reach the rank if each rank makes so many.
  std::uint64_t of(std::uint64_t copies) const;
};
/// What reaches the experts of a rank from all expert-parallel ranks, if each token is sent once to each (token_exchange.h).
struct ReceivedTokens {
  std::uint64_t tokens = 0, copies = 0;
  std::uint32_t experts = 0;  ///< of the rank
};

/// Shares of experts that get at most `factor` / experts of all copies.
std::vector<double> capped_shares(std::vector<double> expert_shares, double factor);

/// By expert-parallel rank: each has experts / ep consecutive experts.
/// @param expert_shares  their sum is 1, or less if copies are dropped
std::vector<RankLoad> rank_loads(const std::vector<double>& expert_shares, std::uint32_t ep);

/// Experts placed by their loads instead: some have more than one place, and the share of each rank is as even as the rules of
/// DeepSeek's EPLB make it (github.com/deepseek-ai/EPLB, eplb.py, without groups): `copies` times, the expert with most
/// tokens a place gets another place; then places, the heaviest first, go to the rank with least load that has room.
/// @return the share of each rank  @pre ranks divides the experts and copies together
std::vector<double> balanced_shares(const std::vector<double>& expert_shares, std::uint32_t copies,
                                    std::uint32_t ranks);

/// How attention replicas bring tokens to the ranks with their experts, and the results back (replica_steps.h).
enum class ExpertExchange : std::uint8_t { allgather_reducescatter, all_to_all, deepep_low_latency };
constexpr std::array<const char*, 3> kExpertExchangeNames{"allgather_reducescatter", "all_to_all",
                                                          "deepep_low_latency"};

/// How the ranks of an attention replica add the results of attention in a layer with experts: each gets all
/// tokens, of which it routes its share (vLLM), or only its share (SGLang); or replicas have one rank (TensorRT-LLM).
enum class ReplicaSum : std::uint8_t { all_reduce, reduce_scatter, one_rank };
constexpr std::array<const char*, 3> kReplicaSumNames{"all_reduce", "reduce_scatter", "one_rank"};

/// How the kernels of two micro-batches take turns on a rank, while tokens of the other one are under way (replica_steps.h).
enum class MicroBatchTurns : std::uint8_t { none, at_exchanges, in_stages };
constexpr std::array<const char*, 3> kMicroBatchTurnsNames{"none", "at_exchanges", "in_stages"};

/// Whole experts dealt to tensor-parallel ranks that all have the same tokens: each rank computes the copies for its own
/// experts, and the all-reduce after them adds the results (vLLM, enable_expert_parallel without data parallelism).
struct ExpertRanks {
  std::uint32_t ranks = 1;  ///< 1: tensor parallelism divides every expert
  double fullest = 1;       ///< copies of the rank with most of them, relative to an even share; the others wait for it
  std::uint32_t redundant = 0;  ///< places of experts, beside one of each, on all ranks
  ExpertExchange exchange = ExpertExchange::allgather_reducescatter;  ///< of attention replicas
  ReplicaSum sum = ReplicaSum::all_reduce;
};
/// @param routing    none: even
/// @param redundant  none: consecutive experts on a rank; otherwise balanced_shares()
/// @pre ranks divides the experts, redundant ones included
ExpertRanks expert_ranks(const ModelShape& model, std::uint32_t ranks, const std::optional<Routing>& routing,
                         const std::optional<std::uint32_t>& redundant = std::nullopt);

}  // namespace railyard::transformer
