// The keys of workload.kind: training, as they are written. training.cpp checks and resolves them.
#pragma once

#include "sc_main/scenario/kinds/precision.h"
#include "sc_main/scenario/kinds/recompute.h"
#include "sc_main/scenario/table/record.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::scenario {

using workload::training::TrainingSpec;

inline constexpr std::uint32_t kMostMicroBatches = 8192;

/// Number format in which gtp ranks gather matrices of layers.
enum class GatherFormat : std::uint8_t { automatic, bf16, mxfp8, nvfp4 };
constexpr std::array<const char*, 4> kGatherFormatNames{"auto", "bf16", "mxfp8", "nvfp4"};

/// precision.parameters
enum class ParameterFormat : std::uint8_t { model, gemm };
constexpr std::array<const char*, 2> kParameterFormatNames{"model", "gemm"};

/// A pipeline rank.
struct PipelineStage {
  std::string group;
  std::uint32_t layers = 0;
};

struct TrainingSection : TrainingSpec {
  TrainingSection() { form.keep_gathered = false; }
  std::optional<std::uint32_t> expert_tp;
  std::uint32_t written_tp = 1, written_gtp = 1, written_cp = 1, written_ep = 1, written_pp = 1,
                written_virtual_stages = 1;
  std::optional<std::uint32_t> written_dp, written_group;
  std::optional<std::vector<std::uint32_t>> written_stage_layers, written_placement;
  std::vector<PipelineStage> stages;  ///< empty: all have GPUs of the first group
  std::string written_schedule = "1f1b", written_order = "tp-cp-ep-dp-pp";
  std::string written_software = "megatron_core";
  std::string routing_file;
  // Keys that the software's sheet states in another form: by schedule, by rank, by one word.
  std::optional<bool> pp_overlap_key;
  std::optional<std::uint64_t> bucket_key;
  std::optional<workload::training::TpOverlap> tp_overlap_key;
  GatherFormat gather_dtype = GatherFormat::automatic;
  ParameterFormat parameters = ParameterFormat::model;
  std::optional<std::uint32_t> offload_layers;
  std::uint32_t lora_rank = 0;  ///< 0: none
  std::array<bool, transformer::kAdaptedNames.size()> lora_modules{true, true, true, true};
  double memory_limit_stages = 1;
  bool overlap_moe = false;
  PrecisionSection precision;
  RecomputeSection recompute;
};

Record<TrainingSection> training_record();

/// Reads the keys that replace values of the software's sheet over `software`.
void read_over(workload::training::Software& software, const Source& source);

}  // namespace railyard::scenario
