#include "sc_main/scenario/kinds/training_states.h"

#include <algorithm>

namespace railyard::scenario {

using workload::training::Offload;

void resolve_states(TrainingSpec& spec, const TrainingSection& written, DataType model, const Source& source) {
  if (written.parameters == ParameterFormat::model) return;
  const auto refuse = [&](const std::string& needs) {
    refuse_workload(source, "precision.parameters", "gemm needs " + needs + "; accepted: model");
  };
  if (!spec.form.narrow) refuse("precision.gemm: fp8, mxfp8 or nvfp4");
  if (spec.form.narrow->weight_cast == transformer::WeightCast::product) refuse("precision.weight_cast: step");
  if (spec.zero_stage == 3) refuse("zero_stage: 0, 1 or 2");
  if (spec.gtp() > 1) refuse("gtp: none");
  if (bytes_of(model) != 2) refuse("model.dtype: bf16 or fp16");
  if (spec.master == workload::training::MasterFormat::none) refuse("precision.master: fp32");
  spec.narrow_primary = true;
}

void resolve_adapters(TrainingSpec& spec, const TrainingSection& written, bool divides,
                      const transformer::ModelShape& model, const Source& source) {
  if (written.lora_rank == 0) return;
  if (written.lora_rank > model.hidden)
    refuse_workload(source, "lora.rank",
                    std::to_string(written.lora_rank) + " is more than the width of " + model.name +
                        "; accepted: 1 to " + std::to_string(model.hidden));
  const auto needs = [&](const std::string& what) { refuse_workload(source, "lora", "needs " + what); };
  if (model.experts > 0) needs("a model without experts");
  if (model.latent) needs("a model without latent attention");
  if (divides) needs("a schedule without W slots");
  if (spec.stage_layers.front() == 0) needs("layers in the first virtual stage");
  if (spec.zero_stage == 3) needs("zero_stage: 0, 1 or 2");
  if (spec.gtp() > 1) needs("gtp: none");
  if (spec.defer_embedding_wgrad) needs("defer_embedding_wgrad: false");
  spec.form.adapters = transformer::Adapters{written.lora_rank, written.lora_modules, !spec.form.fused.projections};
}

void check_adapters_overlap(const TrainingSpec& spec, const Source& source) {
  if (spec.form.adapters && spec.tp_overlap.any()) refuse_workload(source, "lora", "needs tp_overlap: none");
}

void check_modules_format(const TrainingSpec& spec, const transformer::ModelShape& model, const Source& source) {
  using transformer::RecomputeModule;
  if (model.latent && spec.form.recomputes(RecomputeModule::layernorm))
    refuse_workload(source, "recompute.modules",
                    "layernorm: is not modelled with the latent attention of " + model.name);
  for (const RecomputeModule module : {RecomputeModule::layernorm, RecomputeModule::moe_act})
    if (spec.form.narrow && spec.form.recomputes(module))
      refuse_workload(
          source, "recompute.modules",
          std::string(transformer::kRecomputeModuleNames[static_cast<std::size_t>(module)]) +
              ": needs products in 16 bits, not precision.gemm: " + std::string(name_of(spec.form.narrow->dtype)));
}

void resolve_offload(TrainingSpec& spec, const TrainingSection& written, bool divides, const Source& source) {
  Offload& offload = spec.offload;
  const auto refuse = [&](const std::string& key, const std::string& what) {
    refuse_workload(source, "offload." + key, what);
  };
  if (offload.optimizer && spec.gtp() > 1) refuse("optimizer", "true needs gtp: none; accepted: false");
  if (offload.optimizer && spec.narrow_primary)
    refuse("optimizer", "true needs precision.parameters: model; accepted: false");
  if (offload.activations == 0) {
    if (value_at(source.root, "workload.offload.activations")) return;
    for (const char* key : {"layers", "prefetch_layers"})
      if (value_at(source.root, std::string("workload.offload.") + key))
        refuse(key, "needs offload.activations above 0");
    return;
  }
  offload.layers = written.offload_layers.value_or(Offload::kAllLayers);
  const std::uint32_t most = *std::max_element(spec.stage_layers.begin(), spec.stage_layers.end());
  if (written.offload_layers.value_or(1) > most)
    refuse("layers",
           std::to_string(offload.layers) + " is more than the " + std::to_string(most) + " layers of a stage");
  if (const std::string needs = offload_needs(spec, divides); !needs.empty())
    refuse("activations", "needs " + needs + "; accepted: 0");
}

}  // namespace railyard::scenario
