#include <algorithm>

#include "sc_main/scenario/model/profile.h"
#include "sc_main/scenario/workload.h"

namespace railyard::scenario {

using workload::layer::LayerSpec;
using workload::layer::Phase;

LayerSpec resolve_layer(const LayerSection& written, const ComputeSection& compute,
                        const transformer::ModelShape& model, const platforms::MachineSpec& machine,
                        const Source& source) {
  const auto refuse_with_phase = [&](const char* key) {
    if (value_at(source.root, std::string("workload.") + key))
      refuse_workload(source, key, std::string("does not go with phase: ") + name_of(written.phase));
  };
  if (written.phase == Phase::decode) {
    refuse_with_phase("tokens");
    refuse_with_phase("sequence_parallel");
  } else if (!written.tokens) {
    throw InputError(place_of(source.root, "workload"),
                     std::string("workload.tokens: is required by phase: ") + name_of(written.phase));
  }
  if (written.phase == Phase::training) refuse_with_phase("context_tokens");

  LayerSpec spec;
  spec.phase = written.phase;
  spec.tp = written.tp;
  spec.batch = written.batch;
  spec.tokens = written.tokens.value_or(1);
  spec.context_tokens = written.context_tokens;
  spec.sequence_parallel = written.sequence_parallel;
  spec.library = written.library.value_or(written.phase == Phase::training ? collective::Library::nccl
                                                                           : collective::Library::vllm);
  if (written.phase == Phase::training && !compute.profile.empty())
    throw InputError(place_of(source.root, "compute.profile"),
                     "compute.profile: profiles time no backward pass; not with phase: training");
  const auto is_narrow = [](const transformer::LayerShape& l) { return l.attention || l.mlp || l.experts; };
  if (written.phase == Phase::training && std::any_of(model.kinds.begin(), model.kinds.end(), is_narrow))
    throw InputError(
        place_of(source.root, "model.config"),
        "model.config: " + model.name + " has quantised weights, which do not train; not with phase: training");
  check_heads(spec.tp, model, "workload.tp", source);
  const platforms::GroupSpec& group = machine.groups.front();
  const std::uint32_t gpus = group.servers * machine.board.gpus;
  if (spec.tp > gpus)
    refuse_workload(source, "tp",
                    std::to_string(spec.tp) + "; the first group has " + std::to_string(gpus) +
                        " GPUs; set machine.groups." + group.name + ".servers for more");
  if (spec.sequence_parallel && spec.tp == 1)
    refuse_workload(source, "sequence_parallel", "needs workload.tp of 2 or more");
  if (spec.sequence_parallel && spec.all_tokens() % spec.tp != 0)
    refuse_workload(
        source, "sequence_parallel",
        std::to_string(spec.all_tokens()) + " tokens do not split over " + std::to_string(spec.tp) + " ranks");
  spec.profile = load_profile(compute, model, spec.tp, source);
  return spec;
}

}  // namespace railyard::scenario
