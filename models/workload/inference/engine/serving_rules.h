// Rules in which serving engines differ besides their schedulers: how a pipeline divides the layers and passes on its
// activations, and how two instances share a request. The values are in platforms/datasheets/engines.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "transformer/routing.h"
#include "workload/inference/engine/micro_batch_rules.h"
#include "workload/inference/engine/speculation_spec.h"
#include "workload/inference/scheduler/replica_choice.h"

namespace railyard::workload::inference {

/// Stages that have one layer more than others, if the number of stages does not divide the layers: the first ones, those
/// before the last one, or the last ones.
enum class ExtraLayers : std::uint8_t { first, before_last, last };
inline constexpr std::array<const char*, 3> kExtraLayersNames{"first", "before_last", "last"};

/// How sampled token ids get from the last stage to the next batch: the host takes them from the last stage to the scheduler,
/// or the last stage sends them to the first one.
enum class SampledIds : std::uint8_t { host, gpu };
inline constexpr std::array<const char*, 2> kSampledIdsNames{"host", "gpu"};

/// Which instant brings the client its first token, with one instance that prefills and one that decodes: the end of the prompt; the
/// start of the request in the instance that decodes, when its KV has arrived; or the end of its first step there, which
/// computes the first token again from the last token of the prompt.
enum class FirstToken : std::uint8_t { prefill, kv_arrival, decode_step };
inline constexpr std::array<const char*, 3> kFirstTokenNames{"prefill", "kv_arrival", "decode_step"};

/// When the KV of a prompt is sent: when it is computed for a layer, a chunk or the prompt, into memory that the decode
/// instance has reserved before; or when the decode instance fetches it, after the prompt.
enum class HandoffGrain { per_layer, per_chunk, at_end, fetched };
inline constexpr std::array<const char*, 4> kHandoffGrainNames{"per_layer", "per_chunk", "at_end", "fetched"};
/// The same with several engines, where who moves the KV matters (workload.kv_transfer.mode).
inline constexpr std::array<const char*, 4> kKvTransferModeNames{"push_per_layer", "push_per_chunk", "push_at_end",
                                                                 "pull"};

/// What a rank sends to the next stage: its shard of the hidden state, or all of it.
enum class PpSend { shard, full };

/// Which KV a kernel of the GPU that sends it gathers in one buffer, and one of the GPU that gets it brings from a buffer to its
/// blocks: none; that of ranks which share the heads in different ways; all.
enum class KvStaging : std::uint8_t { none, resharded, all };
inline constexpr std::array<const char*, 3> kKvStagingNames{"none", "resharded", "all"};

/// How a connector moves KV between two instances. A descriptor is a piece of memory that is one on both sides. A thread of each
/// rank that asks for KV, or sends it, posts descriptors one after the other; bytes move when all of a transfer are posted.
struct KvConnector {
  std::string name = "none";
  double descriptor_us = 0;             ///< to post one
  bool merges_adjacent = true;          ///< blocks that are neighbours on both sides are one piece
  bool cross_layer_blocks = false;      ///< all layers of a block are one piece
  bool scatters_heads = false;          ///< ranks that share the heads in different ways: a piece for each token
  KvStaging staging = KvStaging::none;  ///< what is staged is one piece
  bool seen_at_step = false;            ///< an engine that is in a step learns at its end that KV has arrived
  // Of a fetch, the first one between two instances:
  double metadata_us = 0;  ///< a rank gets the metadata of each rank from which it reads,
  double prepare_us = 0;   ///< and prepares each descriptor of that rank's KV cache, in use or not
  /// KV that nobody has asked for is given up after this time; 0: never. An instance that asks renews two thirds of it.
  double lease_s = 0;
};

/// Instances have met before the first request, as after a warm-up; or two of them meet when the first KV moves from one to the other.
/// An instance that joins has met no other one.
enum class FirstContact : std::uint8_t { before, in_run };
inline constexpr std::array<const char*, 2> kFirstContactNames{"before", "in_run"};

/// Who copies KV between a GPU and host memory: copy engines, or a kernel, whose CTAs take SMs from the kernels beside it.
struct KvCopies {
  std::uint32_t blocks = 0;                ///< CTAs of the kernel; 0: copy engines
  std::uint32_t threads = 0;               ///< of a CTA
  std::uint32_t registers_per_thread = 0;  ///< of 4 bytes
  double gb_per_s_per_block = 0;  ///< of a CTA at most: its bytes in flight over the time to host memory and back
};

struct ServingRules {
  ExtraLayers extra_layers = ExtraLayers::first;
  bool passes_residual = false;  ///< a stage sends the residual beside the hidden state, in models that keep it apart
  SampledIds sampled_ids = SampledIds::gpu;
  HandoffGrain handoff = HandoffGrain::fetched;
  std::string connector = "none";  ///< name of its sheet
  FirstToken first_token = FirstToken::prefill;
  ReplicaRule replica = ReplicaRule::least_load;          ///< which attention replica takes a request
  ReplicaRule prefill_replica = ReplicaRule::least_load;  ///< the same of an instance that prefills for others
  transformer::ReplicaSum replica_sum = transformer::ReplicaSum::all_reduce;
  KvCopies kv_copies;
  MicroBatchRules micro_batches;
  SpeculationRules speculation;

  /// An instance with these rules hands requests over as one with the others does.
  bool hands_over_as(const ServingRules& others) const {
    return handoff == others.handoff && connector == others.connector && first_token == others.first_token;
  }
};

/// Layers of each stage, as even as possible. @pre 1 <= stages <= layers
std::vector<std::uint32_t> divided_layers(std::uint32_t layers, std::uint32_t stages, ExtraLayers extra);

}  // namespace railyard::workload::inference
