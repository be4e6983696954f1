#include "workload/training/memory/memory_plan.h"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "workload/training/plan/weight_cache.h"

namespace railyard::workload::training {

using transformer::KeptTensor;
using transformer::Linear;
using transformer::Recompute;
using transformer::TrainingForm;

namespace {

constexpr Bytes kGradientBytes = 4;  // fp32

/// Whole matrices of the ranks that divide them (gtp): buffers of gathers, or all matrices if they stay; and two gradients,
/// of which one is computed and one scattered, and what a rank receives of all ranks to add in 32 bits.
void add_gathered_matrices(PeakMemory& peak, const transformer::ModelShape& model, const TrainingSpec& spec,
                           const std::vector<transformer::Stage>& stages, const std::vector<std::uint32_t>& rank_of,
                           std::uint32_t pipeline_rank) {
  const transformer::Division division = spec.division();
  const bool keeps = spec.gtp_shards.keep_gathered == GatheredFor::step;
  WeightCache cache;
  std::uint64_t largest = 0;
  enum class Pass : std::uint8_t { forward, again, backward };
  const bool both_sides = spec.gtp_shards.narrow && spec.form.narrow->copies() > 1;
  const auto run = [&](const transformer::Stage& stage, Pass pass) {
    std::array<std::vector<WeightCache::Kind>, kGatherChains> chains;
    std::vector<transformer::StageLinear> linears = linears_of(model, stage);
    if (pass == Pass::backward) std::reverse(linears.begin(), linears.end());
    for (const auto& [linear, kind] : linears) {
      const DataType type = spec.gathered(linear, model.dtype);
      const GatherChain chain = chain_of(linear, pass == Pass::again);
      const bool along_columns = pass == Pass::backward && both_sides && type != model.dtype;
      // Backward: the embedding has no product, and matrices that stay are there, but for narrow ones along columns.
      const bool gathers = pass != Pass::backward || (linear != Linear::embedding && (!keeps || along_columns));
      if (division.of(linear) > 1 && gathers) {
        const transformer::Matrix whole =
            division.gathered(matrix_of(model, linear, spec.tp(), kind, spec.ep()), linear);
        chains[static_cast<std::size_t>(chain)].push_back({whole, type, along_columns, chain});
        largest = std::max(largest, whole.elements());
      }
      if (pass == Pass::backward && spec.gtp_shards.activations == KeptInputs::sharded && is_column_parallel(linear))
        chains[static_cast<std::size_t>(chain)].push_back(input_buffer(spec, model, linear));
    }
    for (const std::vector<WeightCache::Kind>& chain : chains) {
      if (chain.empty()) continue;
      const std::size_t held =
          keeps ? chain.size() : 1 + gathered_ahead(chain[0].chain, spec.gtp_shards.prefetch_depth);
      for (std::size_t i = 0; i < chain.size(); ++i) {
        cache.take(chain[i]);
        if (i + 1 >= held && !keeps) cache.give_back(chain[i + 1 - held]);
      }
      for (std::size_t i = chain.size() - std::min(chain.size(), held - 1); i < chain.size() && !keeps; ++i)
        cache.give_back(chain[i]);
    }
  };
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    if (rank_of[s] != pipeline_rank) continue;
    run(stages[s], Pass::forward);
    run(stages[s], Pass::backward);
    if (spec.form.recompute == Recompute::full && !keeps)
      run({stages[s].layers, false, false, stages[s].first_layer}, Pass::again);
  }
  const std::uint64_t gradients = spec.gtp_shards.reduce == ShardReduce::all_to_all_fp32 ? 3 : 2;
  peak.whole_gradients = gradients * stored_bytes(largest, model.dtype);
  peak.gathered = cache.bytes() + peak.whole_gradients;
}

/// Results that a layer keeps with SelectiveRecompute::operators: of attention, reduce-scatters, and the first, third ...
/// of its products: queries, values, the first of the MLP and its last one. Narrow products run again, all of them.
std::vector<KeptTensor> kept_results(const transformer::ModelShape& model, std::uint32_t kind,
                                     const transformer::MicroBatch& batch, const transformer::LayerSplit& split,
                                     TrainingForm form) {
  form.recompute = Recompute::full;
  std::vector<KeptTensor> kept = kept_by_layer(model, kind, batch, split, form);
  form.recompute = Recompute::none;
  const bool narrow = form.narrow.has_value(), dense = !model.routes(model.kinds[kind]);
  for (const KeptTensor& tensor : kept_by_layer(model, kind, batch, split, form)) {
    const auto is = [&](const char* name) { return tensor.name == name; };
    const bool attended =
        is("attention.statistics") || is("attention.output") || (!narrow && is("attention.o_proj_input"));
    const bool product = is("attention.queries") || is("attention.values") || is("mlp.down_input");
    if (attended || (product && !narrow)) kept.push_back(tensor);
  }
  const Bytes hidden = transformer::hidden_bytes(model, batch.tokens());
  if (dense && !narrow) kept.push_back({"mlp.down_output", hidden});
  if (split.sequence_parallel && split.tp > 1) kept.push_back({"reduce_scattered", 2 * hidden / split.tp});
  return kept;
}

Bytes share_of_bytes(Bytes bytes, double share) {
  return std::min(bytes, static_cast<Bytes>(static_cast<double>(bytes) * share));
}

/// On an expert-parallel rank.
StageMemory stage_memory(const transformer::ModelShape& model, const TrainingSpec& spec,
                         const transformer::Stage& stage, std::uint32_t place) {
  const transformer::MicroBatch batch{spec.micro_batch, spec.seq_tokens / spec.cp()};
  transformer::LayerSplit split = spec.split();
  TrainingForm whole = spec.form;  // of a layer that is not recomputed
  if (whole.recompute == Recompute::full) whole.recompute = Recompute::none;
  StageMemory memory;
  const auto keep = [&](const std::vector<KeptTensor>& tensors) {
    for (const KeptTensor& tensor : tensors) {
      memory.kept += tensor.bytes;
      const auto same = std::find_if(memory.tensors.begin(), memory.tensors.end(),
                                     [&](const KeptTensor& t) { return t.name == tensor.name; });
      same == memory.tensors.end() ? memory.tensors.push_back(tensor) : void(same->bytes += tensor.bytes);
    }
  };
  if (stage.first) keep(kept_by_embedding(model, batch, split, spec.form));
  Bytes group = 0;  // activations of the layers that run again together
  const auto offload = [&](Bytes before) {
    if (spec.offload.activations == 0) return;
    const bool leaves = memory.offloaded.size() < spec.offload.layers;
    const Bytes bytes = leaves ? share_of_bytes(memory.kept - before, spec.offload.activations) : 0;
    memory.offloaded.push_back(bytes);
    memory.kept -= bytes;
  };
  for (std::uint32_t l = stage.first_layer; l < stage.first_layer + stage.layers; ++l) {
    const Bytes before = memory.kept;
    const std::uint32_t kind = model.kind(l);
    split.load = spec.load(model, l, place);
    memory.for_wgrad += sum_of(kept_for_wgrad(model, kind, batch, split, spec.form));
    const LayerRange again = spec.recomputed_with(stage, l);
    if (spec.form.recompute != Recompute::full || again.end == 0) {
      const bool operators = spec.recomputes_operators();
      const std::vector<KeptTensor> kept =
          operators ? kept_results(model, kind, batch, split, whole) : kept_by_layer(model, kind, batch, split, whole);
      keep(kept);
      offload(before);
      if (spec.form.recompute != Recompute::selective) continue;
      TrainingForm none = whole;
      none.recompute = Recompute::none;
      const Bytes all = sum_of(kept_by_layer(model, kind, batch, split, none));
      memory.recomputed = std::max(memory.recomputed, all - std::min(all, sum_of(kept)));
      continue;
    }
    if (l == again.begin) {
      keep(kept_by_layer(model, kind, batch, split, spec.form));
      group = 0;
    }
    offload(before);
    group += sum_of(kept_by_layer(model, kind, batch, split, whole));
    memory.recomputed = std::max(memory.recomputed, group);
  }
  if (stage.last) {
    const LogitBytes of_logit = logit_bytes(spec.software.loss, spec.tp() > 1);
    const Bytes chunks = spec.software.loss_chunks, logits = transformer::logits(model, batch, split);
    const bool whole_logits = chunks == 1;  // otherwise the backward kernels of each chunk follow its forward kernels
    keep(kept_by_head(model, batch, split, spec.form, whole_logits ? of_logit.kept : 0));
    const Bytes in_chunks = ceil_div(logits, chunks) * (of_logit.kept + of_logit.beside) +
                            batch.tokens() * model.hidden * kGradientBytes;  // gradients of all chunks' inputs, in fp32
    memory.recomputed = std::max(memory.recomputed, whole_logits ? logits * of_logit.beside : in_chunks);
    memory.defers = spec.defer_embedding_wgrad;
    if (memory.defers) memory.for_wgrad = 0;
    memory.for_wgrad += sum_of(kept_for_head_wgrad(model, batch, split, spec.form));
  }
  return memory;
}

Bytes weight_bytes(const transformer::ModelShape& model, const TrainingSpec& spec, const transformer::Stage& part) {
  return rank_parameters(model, part, spec.tp(), spec.ep()).total() * static_cast<Bytes>(bytes_of(model.dtype));
}

/// Zero stage 3: the layer that runs and those before which it is gathered, or all layers if they stay until the backward
/// slot; and the larger end.
Bytes gathered(const transformer::ModelShape& model, const TrainingSpec& spec,
               const std::vector<transformer::Stage>& stages, const std::vector<std::uint32_t>& rank_of,
               std::uint32_t pipeline_rank) {
  Bytes layers = 0, most = 0, end = 0;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    if (rank_of[s] != pipeline_rank) continue;
    const transformer::Stage& stage = stages[s];
    const std::uint32_t together = std::min(stage.layers, spec.prefetch_layers + 1);
    layers += weight_bytes(model, spec, {stage.layers, false, false, stage.first_layer});
    most = std::max(most, weight_bytes(model, spec, {together, false, false, stage.first_layer}));
    if (stage.first) end = std::max(end, weight_bytes(model, spec, {0, true, false, 0}));
    if (stage.last) end = std::max(end, weight_bytes(model, spec, {0, false, true, 0}));
  }
  return (spec.reshard_after_forward ? most : layers) + end;
}

}  // namespace

double kept_for_weights(const transformer::ModelShape& model, const TrainingSpec& spec) {
  double most = 0;
  for (const transformer::Stage& stage : transformer::stages_of(spec.stage_layers)) {
    const StageMemory memory = stage_memory(model, spec, stage, 0);
    if (memory.kept > 0)
      most = std::max(most, static_cast<double>(memory.for_wgrad) / static_cast<double>(memory.kept));
  }
  return most;
}

Bytes StageMemory::on_host() const { return std::accumulate(offloaded.begin(), offloaded.end(), Bytes{0}); }

MemoryPlan::MemoryPlan(const transformer::ModelShape& model, const TrainingSpec& spec, const Schedule& schedule)
    : prefetch_layers_(spec.offload.prefetch_layers) {
  const std::vector<transformer::Stage> stages = transformer::stages_of(spec.stage_layers);
  for (const transformer::Stage& stage : stages) {
    stages_.push_back(stage_memory(model, spec, stage, 0));
    for (std::uint32_t place = 1; spec.routing && place < spec.ep(); ++place) {
      StageMemory other = stage_memory(model, spec, stage, place);
      if (other.kept > stages_.back().kept) stages_.back() = std::move(other);
    }
  }
  const transformer::StatePrecision precision = spec.precision(model.dtype);
  for (std::uint32_t p = 0; p < schedule.ranks(); ++p) {
    PeakMemory peak;
    peak.pipeline_rank = p;
    transformer::RankParameters parameters;
    std::uint64_t projections = 0, adapters = 0;
    std::uint64_t whole = 0;  // of ranks that divide all else
    Bytes of_micro_batch = 0;
    for (std::uint32_t s = 0; s < stages.size(); ++s) {
      if (schedule.rank_of[s] != p) continue;
      const transformer::RankParameters of_stage = rank_parameters(model, stages[s], spec.tp(), spec.ep());
      if (spec.gtp() > 1) {
        const transformer::DividedParameters divided =
            divided_parameters(model, stages[s], spec.tp(), spec.ep(), spec.division());
        parameters.common += divided.shards;
        parameters.experts += divided.experts;
        whole += divided.whole;
      } else {
        parameters.common += of_stage.common;
        parameters.experts += of_stage.experts;
      }
      if (spec.form.adapters) adapters += adapter_parameters(model, stages[s], *spec.form.adapters, spec.tp());
      projections += divided_projection_weights(model, stages[s], spec.tp(), spec.ep(), spec.division());
      of_micro_batch += stages_[s].kept;
    }
    SavedState& saved = saved_.emplace_back();
    // Of parameters that so many of its ranks hold alike.
    const auto save = [&](std::uint64_t held, std::uint32_t copies) {
      const transformer::TrainingState once = training_state(held, precision, {0, 1});
      const Bytes distinct = spec.ranks() / spec.pp() / copies;
      saved.weights += distinct * once.weights;
      saved.optimizer += distinct * once.optimizer;
    };
    save(spec.form.adapters ? adapters : parameters.common, spec.replicas());
    save(spec.form.adapters ? 0 : parameters.experts, spec.expert_replicas());
    save(whole, spec.replicas() * spec.gtp());
    const transformer::StateSharding sharding{spec.zero_stage, spec.state_shards()};
    if (spec.form.adapters) {
      peak.state = training_state(adapters, precision, sharding);
      peak.state.weights += parameters.common * precision.weights;  // frozen
      parameters = {};
    } else {
      peak.state = training_state(parameters.common, precision, sharding);
    }
    peak.state += training_state(parameters.experts, precision, {spec.zero_stage, spec.expert_replicas()});
    if (spec.gtp_shards.quantize == ShardCast::at_optimizer)
      peak.narrow_weights = narrow_weight_bytes(projections, spec.form);
    peak.state += training_state(whole, precision, {spec.zero_stage, spec.replicas() * spec.gtp()});
    if (spec.narrow_primary) peak.state.weights -= projections * precision.weights;
    if (spec.offload.optimizer) {
      peak.host_state = peak.state.optimizer + peak.state.owned * (precision.gradients + precision.weights);
      peak.state.optimizer = peak.state.gradient_copies = 0;
    }
    if (spec.gtp() > 1) add_gathered_matrices(peak, model, spec, stages, schedule.rank_of, p);
    if (spec.zero_stage == 3) peak.gathered = gathered(model, spec, stages, schedule.rank_of, p);
    peak.reserved = static_cast<Bytes>(spec.software.reserved_bytes);
    if (spec.software.routed.dispatch == transformer::TokenDispatch::deepep)
      peak.reserved += collective::deepep_buffer_bytes(spec.expert_ranks(), transformer::hidden_bytes(model, 1));
    Bytes held = 0, on_host = 0;
    for (std::size_t i = 0; i < schedule.slots[p].size(); ++i) {
      const Slot& slot = schedule.slots[p][i];
      const Bytes buffers = recomputed(slot), moving = staged(slot);
      if (slot.kind == SlotKind::forward) on_host += stages_[slot.stage].on_host();
      if (slot.kind == SlotKind::backward) on_host -= stages_[slot.stage].on_host();
      peak.host_activations = std::max(peak.host_activations, on_host);
      held += taken(slot) - buffers;
      if (held + moving + buffers > peak.activations + peak.buffers) {
        peak.activations = held + moving;
        peak.buffers = buffers;
        peak.slot = i;
      }
      held += buffers;
      held -= freed(slot);
    }
    if (peak.state.gradient_copies > peak.activations + peak.buffers) {
      peak.in_optimizer = true;
      peak.activations = peak.buffers = 0;
    }
    peak.micro_batches =
        of_micro_batch > 0 ? static_cast<double>(peak.activations) / static_cast<double>(of_micro_batch) : 0;
    peaks_.push_back(peak);
  }
}

const PeakMemory& MemoryPlan::largest() const {
  return *std::max_element(peaks_.begin(), peaks_.end(),
                           [](const PeakMemory& a, const PeakMemory& b) { return a.total() < b.total(); });
}

Bytes MemoryPlan::taken(const Slot& slot) const {
  const StageMemory& memory = stages_[slot.stage];
  switch (slot.kind) {
    case SlotKind::forward: return memory.kept;
    case SlotKind::backward:
      if (!memory.defers) return memory.recomputed;
      [[fallthrough]];
    // Layer by layer, what is kept becomes what the gradients of weights need.
    case SlotKind::backward_inputs:
      return memory.recomputed + (memory.for_wgrad > memory.kept ? memory.for_wgrad - memory.kept : 0);
    case SlotKind::backward_weights: return 0;
  }
  return 0;
}

Bytes MemoryPlan::recomputed(const Slot& slot) const {
  const bool recomputes = slot.kind == SlotKind::backward || slot.kind == SlotKind::backward_inputs;
  return recomputes ? stages_[slot.stage].recomputed : 0;
}

Bytes MemoryPlan::staged(const Slot& slot) const {
  const std::vector<Bytes>& offloaded = stages_[slot.stage].offloaded;
  // Forward, a layer and the one before it; backward, a layer and those that come back early.
  const std::size_t together = slot.kind == SlotKind::forward ? 2 : 1 + std::size_t(prefetch_layers_);
  Bytes most = 0;
  for (std::size_t first = 0; first < offloaded.size(); ++first) {
    const auto begin = offloaded.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(together, offloaded.size() - first));
    most = std::max(most, std::accumulate(begin, end, Bytes{0}));
  }
  return most;
}

Bytes MemoryPlan::freed(const Slot& slot) const {
  const StageMemory& memory = stages_[slot.stage];
  switch (slot.kind) {
    case SlotKind::forward: return 0;
    case SlotKind::backward:
      if (!memory.defers) return memory.kept + memory.recomputed;
      [[fallthrough]];
    case SlotKind::backward_inputs:
      return memory.recomputed + (memory.kept > memory.for_wgrad ? memory.kept - memory.for_wgrad : 0);
    case SlotKind::backward_weights: return memory.for_wgrad;
  }
  return 0;
}

std::string sum_text(const PeakMemory& peak) {
  std::string text;
  for (const auto& [name, bytes] : {std::pair{"weights", peak.state.weights},
                                    {"narrow weights", peak.narrow_weights},
                                    {"gradients", peak.state.gradients},
                                    {"optimizer", peak.optimizer()},
                                    {"gathered weights", peak.gathered},
                                    {"activations", peak.activations},
                                    {"buffers", peak.buffers},
                                    {"software", peak.reserved}})
    if (bytes > 0)
      text += fmt::format("{}{} {:.2f} GB", text.empty() ? "" : " + ", name, static_cast<double>(bytes) * 1e-9);
  return text + fmt::format(" = {:.2f} GB", static_cast<double>(peak.total()) * 1e-9);
}

}  // namespace railyard::workload::training
