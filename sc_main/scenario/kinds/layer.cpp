// workload.kind: layer
#include <algorithm>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/precision.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "sc_main/scenario/kinds/requests.h"
#include "workload/bench/layer_spec.h"

namespace railyard::scenario {

using workload::layer::LayerSpec;
using workload::layer::Phase;

namespace {

struct LayerSection : LayerSpec {
  PrecisionSection precision;
  std::optional<std::string> written_library;  ///< nullopt: depends on the phase
  bool reduce_beside_wgrad = false;
};

Record<LayerSection> layer_record() {
  using Section = LayerSection;
  Record<Section> r;
  r.choice("phase", &Section::phase, words_of(workload::layer::kPhaseNames),
           "prefill: new tokens; decode: one token per sequence; training: forward and backward")
      .required();
  r.add("tp", &Section::tp,
        "tensor-parallel ranks, on the first GPUs of the first group; must divide the attention heads")
      .range(1, 1024);
  r.add("batch", &Section::batch, "number of sequences").range(1, 65536);
  r.add("tokens", &Section::tokens, "prefill, training: new tokens of each sequence")
      .range(1, kMostTokens)
      .fallback("");
  r.add("context_tokens", &Section::context_tokens, "prefill, decode: tokens of each sequence before the new ones")
      .range(0, kMostTokens);
  r.add("sequence_parallel", &Section::sequence_parallel,
        "prefill, training: norms on tokens / tp, between a reduce-scatter and an all-gather");
  using transformer::TrainingForm;
  r.choice("attention", within(&Section::form, &TrainingForm::attention), words_of(transformer::kAttentionFormNames),
           "training: flash, one kernel; unfused, products of all scores in memory, with softmax between them");
  r.add("dropout", within(&Section::form, &TrainingForm::dropout),
        "training: dropout after attention and MLP, and of the softmax if attention is unfused");
  r.choice(
      "recompute", within(&Section::form, &TrainingForm::recompute), words_of(transformer::kRecomputeNames),
      "training: what the backward pass runs again; selective: attention between its projections; full: the layer");
  r.add("residual_norm_fused",
        within(&Section::form, within(&TrainingForm::fused, &transformer::FusedKernels::residual)),
        "training: the residual's sum and the norm after it are one kernel; backward sum of gradients and norm");
  r.add("keep_gathered", within(&Section::form, &TrainingForm::keep_gathered),
        "training with sequence_parallel: gathered inputs of column-parallel products are kept for backward; otherwise "
        "gathered again, beside the product before");
  r.add("reduce_beside_wgrad", &Section::reduce_beside_wgrad,
        "training: sums of input gradients run beside the products for weight gradients (Megatron-LM)");
  r.group("precision", precision_record(&Section::precision), "training: number format of products");
  r.add("library", &Section::written_library,
        "library of the collectives, as for kind: collective; prefill, decode: also of attention")
      .is_path(Field::Path::unless_name)
      .fallback("training: nccl, launched from a stream; else vllm-0.19, in a CUDA graph");
  return r;
}

LayerSpec resolve_layer(const LayerSection& written, const Setting& setting) {
  const transformer::ModelShape& model = setting.model;
  const platforms::MachineSpec& machine = setting.machine;
  const Source& source = setting.source;
  const auto refuse_with_phase = [&](const char* key) {
    if (value_at(source.root, std::string("workload.") + key))
      refuse_workload(source, key, std::string("is not accepted with phase: ") + name_of(written.phase));
  };
  if (written.phase == Phase::decode) {
    refuse_with_phase("tokens");
    refuse_with_phase("sequence_parallel");
  } else if (!value_at(source.root, "workload.tokens")) {
    throw InputError(place_of(source.root, "workload"),
                     std::string("workload.tokens: is required by phase: ") + name_of(written.phase));
  }
  if (written.phase == Phase::training)
    refuse_with_phase("context_tokens");
  else
    for (const char* key : {"attention", "dropout", "recompute", "residual_norm_fused", "keep_gathered",
                            "reduce_beside_wgrad", "precision"})
      refuse_with_phase(key);

  LayerSpec spec = written;
  if (written.reduce_beside_wgrad) spec.form.input_reduce.fill(transformer::InputReduce::beside_wgrad);
  const std::string library =
      written.written_library.value_or(written.phase == Phase::training ? "nccl" : kDefaultEngine);
  spec.engine = load_engine({library, "workload.library", place_of(source.root, "workload.library")});
  if (written.phase == Phase::training && !setting.compute.profile.empty())
    throw InputError(place_of(source.root, "compute.profile"),
                     "compute.profile: profiles have no times for a backward pass; not accepted with phase: training");
  const auto is_narrow = [](const transformer::LayerShape& l) { return l.attention || l.mlp || l.experts; };
  if (written.phase == Phase::training && std::any_of(model.kinds.begin(), model.kinds.end(), is_narrow))
    throw InputError(place_of(source.root, "model.config"),
                     "model.config: " + model.name +
                         " has quantised weights, which cannot be trained; accepted with model.quantization: none");
  check_heads(spec.tp, model, "workload.tp", source);
  const platforms::GroupSpec& group = machine.groups.front();
  if (written.phase == Phase::training)
    spec.form.narrow = resolve_narrow(written.precision, "", model.dtype, group.gpu, source);
  const std::uint32_t gpus = group.servers * machine.board.gpus;
  if (spec.tp > gpus)
    refuse_workload(source, "tp",
                    std::to_string(spec.tp) + "; the first group has " + std::to_string(gpus) +
                        " GPUs; set machine.groups." + group.name + ".servers for more");
  if (spec.sequence_parallel && spec.tp == 1)
    refuse_workload(source, "sequence_parallel", "needs workload.tp of 2 or more");
  if (spec.sequence_parallel && spec.all_tokens() % spec.tp != 0)
    refuse_workload(source, "sequence_parallel",
                    std::to_string(spec.all_tokens()) + " tokens cannot be divided evenly among " +
                        std::to_string(spec.tp) + " ranks");
  spec.profile = load_profile(setting.compute, model, spec.tp, source);
  check_groups_used({0}, machine, source);
  return spec;
}

}  // namespace

Kind layer_kind() {
  Kind kind = kind_of("layer", layer_record(), resolve_layer);
  kind.runs_model = true;
  return kind;
}

}  // namespace railyard::scenario
