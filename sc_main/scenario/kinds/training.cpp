// workload.kind: training. What is written (training_keys.h) is checked and resolved.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "gpu/kernels/flash_attention.h"
#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/expert_exchange.h"
#include "sc_main/scenario/kinds/gtp_sums.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/pipeline_groups.h"
#include "sc_main/scenario/kinds/precision.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "sc_main/scenario/kinds/recompute.h"
#include "sc_main/scenario/kinds/requests.h"
#include "sc_main/scenario/kinds/routing.h"
#include "sc_main/scenario/kinds/tp_overlap.h"
#include "sc_main/scenario/kinds/training_keys.h"
#include "sc_main/scenario/kinds/training_schedule.h"
#include "sc_main/scenario/kinds/training_states.h"
#include "sc_main/scenario/table/words.h"
#include "workload/training/plan/training_spec.h"

namespace railyard::scenario {

using workload::Dimension;
using workload::training::ScheduleKind;
using workload::training::TrainingSpec;

namespace {

workload::RankOrder order_of(const std::string& text) {
  workload::RankOrder order{};
  std::size_t place = 0;
  for (std::size_t begin = 0; begin < text.size(); begin += 3)
    for (std::size_t d = 0; d < workload::kDimensions; ++d) {
      if (text.compare(begin, 2, workload::kDimensionNames[d]) != 0) continue;
      order[place++] = static_cast<Dimension>(d);
      if (static_cast<Dimension>(d) == Dimension::tp) order[place++] = Dimension::gtp;
    }
  return order;
}

void check_flash_attention(const workload::training::Software& software, const gpu::GpuDatasheet& gpu,
                           const Source& source) {
  if (!software.flash_attention) return;
  std::string accepted = "auto";
  for (const std::uint32_t version : gpu::flash_attention_versions(gpu)) {
    if (version == *software.flash_attention) return;
    accepted += ", " + std::to_string(version);
  }
  refuse_workload(source, "flash_attention",
                  std::to_string(*software.flash_attention) + " of " + software.name + " has no rate on " + gpu.name +
                      "; accepted: " + accepted);
}

void resolve_software(TrainingSpec& spec, const TrainingSection& written, DataType weights, bool is_latent,
                      const gpu::GpuDatasheet& gpu, Cpu cpu, const Source& source) {
  using namespace workload::training;
  Software& software = spec.software;
  software = load_software({written.written_software, "workload.software", place_of(source.root, "workload.software")});
  if (software.cudnn_on_blackwell && gpu.architecture == gpu::Architecture::blackwell) software.flash_attention.reset();
  software.expert_call_us = collective::call_us(software.expert_call, cpu);
  read_over(software, source);
  if (written.recompute.modules) software.selective_recompute = SelectiveRecompute::attention;
  spec.form.dropout = software.dropout;
  spec.form.fused = software.fused;
  spec.form.routed = software.routed;
  spec.form.sequence_first = software.sequence_first;
  spec.form.attention = software.attention;
  if (spec.cp() > 1 && spec.form.attention == transformer::AttentionForm::unfused)
    refuse_workload(source, "cp", "needs attention: flash");
  if (is_latent && spec.form.attention == transformer::AttentionForm::unfused)
    refuse_workload(source, "attention", "unfused is not modelled with multi-head latent attention; accepted: flash");
  if (spec.cp() > 1 && spec.recomputes_operators())
    refuse_workload(source, "recompute",
                    "selective with selective_recompute: operators needs cp: 1; accepted: none and full");
  if (spec.gtp() > 1 && spec.gtp_shards.prefetch_depth == 0 && software.launch == Launch::graph)
    refuse_workload(source, "gtp.prefetch_depth", "0 needs launch: eager; accepted with launch: graph: 1 or more");
  spec.overlap_priority =
      value_at(source.root, "workload.comm_priority") ? software.comm_priority : gpu::CommPriority::high;
  check_flash_attention(software, gpu, source);
  if (!software.has_zero_stage(spec.zero_stage)) {
    std::string accepted;
    for (const std::uint32_t stage : software.zero_stages)
      accepted += (accepted.empty() ? "" : ", ") + std::to_string(stage);
    refuse_workload(source, "zero_stage",
                    std::to_string(spec.zero_stage) + "; " + software.name + " has zero stages " + accepted);
  }
  // Split backward slots leave no order of blocking sends and receives that suits all ranks; zero-bubble schedules come
  // with asynchronous sends (sail-sg/zero-bubble-pipeline-parallelism, zb_schedules.py).
  const bool needs_overlap = spec.table || spec.schedule.kind > ScheduleKind::interleaved;
  if (!spec.table && needs_overlap && written.pp_overlap_key == false)
    refuse_workload(source, "pp_overlap",
                    std::string("false; schedule: ") + name_of(spec.schedule.kind) +
                        " needs sends and receives beside kernels; accepted: true");
  spec.pp_overlap = written.pp_overlap_key.value_or(
      needs_overlap || written.overlap_moe || software.pp_overlap == PipelineOverlap::all ||
      (software.pp_overlap == PipelineOverlap::interleaved && spec.virtual_stages() > 1));
  constexpr std::uint64_t kEachLayer = 1;
  spec.bucket_parameters =
      written.bucket_key.value_or(spec.zero_stage >= 2 ? kEachLayer : software.bucket(spec.replicas()));
  spec.gradients = software.gradients == GradientFormat::fp32 ? DataType::tf32 : weights;
  spec.form.gradients = spec.gradients;
  if (spec.zero_stage < 2 && spec.gtp() == 1) spec.form.gradient_sum = software.gradient_sum;
}

bool deals_unevenly(const TrainingSection& written) { return written.routing || !written.routing_file.empty(); }

/// Tensor-parallel ranks have whole experts.
bool has_whole_experts(const TrainingSection& written) {
  return written.expert_tp.value_or(written.written_tp) != written.written_tp;
}

void check_whole_experts(const TrainingSection& written, std::uint64_t dp, const transformer::ModelShape& model,
                         const Source& source) {
  const auto refuse = [&](const char* key, const std::string& why) { refuse_workload(source, key, why); };
  const std::uint32_t tp = written.written_tp, ep = written.written_ep;
  if (*written.expert_tp != 1)
    refuse("expert_tp", std::to_string(*written.expert_tp) + "; accepted: 1, or tp, which is " + std::to_string(tp));
  if (model.experts == 0) refuse("expert_tp", model.name + " has no experts");
  if (!written.sequence_parallel) refuse("expert_tp", "1 needs sequence_parallel: true");
  if (deals_unevenly(written)) refuse("expert_tp", "1 needs routing: uniform");
  if (written.written_cp > 1 || written.written_gtp > 1) refuse("expert_tp", "1 needs cp: 1 and gtp: none");
  if (ep % tp != 0 || tp * dp % ep != 0)
    refuse("ep", std::to_string(ep) + " with expert_tp: 1; accepted: a multiple of tp, " + std::to_string(tp) +
                     ", that divides tp x dp, " + std::to_string(tp * dp));
}

void check_experts(const TrainingSection& written, std::uint64_t dp, const transformer::ModelShape& model,
                   const Source& source) {
  const bool whole = has_whole_experts(written);
  if (whole) check_whole_experts(written, dp, model, source);
  const std::uint32_t ep = written.written_ep;
  if (deals_unevenly(written) && model.experts == 0) refuse_workload(source, "routing", model.name + " has no experts");
  if (ep == 1) return;
  if (model.experts == 0) refuse_workload(source, "ep", model.name + " has no experts; accepted: 1");
  if (model.experts % ep != 0)
    refuse_workload(
        source, "ep",
        std::to_string(ep) + " does not divide the " + std::to_string(model.experts) + " experts of " + model.name);
  if (!whole && dp % ep != 0)
    refuse_workload(source, "ep", std::to_string(ep) + " does not divide dp " + std::to_string(dp));
  if (written.written_tp > 1 && !written.sequence_parallel)
    refuse_workload(source, "ep", "with tp of 2 or more, ep needs sequence_parallel: true");
}

void check_hsdp(const TrainingSection& written, const TrainingSpec& spec, const Source& source) {
  if (written.hsdp == 0) return;
  if (written.zero_stage == 0)
    refuse_workload(source, "hsdp", "zero_stage 0 divides no state; accepted with zero_stage: 1, 2 and 3");
  if (written.written_ep > 1 || written.written_gtp > 1) refuse_workload(source, "hsdp", "needs ep: 1 and gtp.size: 1");
  if (spec.replicas() % written.hsdp != 0)
    refuse_workload(source, "hsdp",
                    std::to_string(written.hsdp) + " does not divide the " + std::to_string(spec.replicas()) +
                        " data-parallel replicas (dp x cp)");
}

void check_gtp(const TrainingSection& written, const transformer::ModelShape& model, const Source& source) {
  if (written.written_gtp == 1) return;
  const std::uint32_t experts_size = written.gtp_shards.experts_size;
  if (experts_size > 1 && model.experts == 0)
    refuse_workload(source, "gtp.experts_size", model.name + " has no experts; accepted: 1");
  if (written.written_gtp % experts_size != 0)
    refuse_workload(source, "gtp.experts_size",
                    std::to_string(experts_size) + " does not divide gtp.size " + std::to_string(written.written_gtp));
  if (model.experts > 0 && model.mlp_bias)
    refuse_workload(source, "gtp.size", model.name + " has experts with biases; accepted: 1");
  if (written.zero_stage == 3)
    refuse_workload(source, "zero_stage", "3 needs gtp.size: 1; accepted with gtp: 0, 1 and 2");
  if (written.gtp_shards.wgrad_order == workload::training::WgradOrder::before_dgrad && written.written_tp > 1)
    refuse_workload(source, "gtp.wgrad_order", "before_dgrad needs tp: 1; accepted with tp of 2 or more: after_dgrad");
}

/// @pre recompute is known
void resolve_kept_inputs(TrainingSpec& spec, const transformer::ModelShape& model, const Source& source) {
  if (spec.gtp() == 1 || spec.gtp_shards.activations == workload::training::KeptInputs::whole) return;
  const auto refuse = [&](const char* needs) {
    refuse_workload(source, "gtp.activations", std::string("sharded needs ") + needs + "; accepted: whole");
  };
  if (spec.tp() == 1) refuse("tp of 2 or more");
  if (model.experts > 0) refuse("a model without experts");
  if (spec.form.recompute == transformer::Recompute::full) refuse("recompute: none or selective");
  if (spec.gtp_shards.keep_gathered == workload::training::GatheredFor::step) refuse("keep_gathered: micro_batch");
  if (spec.form.keep_gathered) refuse("workload.keep_gathered: false");
  spec.form.keep_gathered = true;  // not gathered again beside the products of inputs
  spec.form.divide_inputs = true;
}

/// Products, and the gathers of their matrices. @pre all sizes are known
void resolve_formats(TrainingSpec& spec, const TrainingSection& written, DataType model, const gpu::GpuDatasheet& gpu,
                     const Source& source) {
  const bool wide = written.gather_dtype == GatherFormat::bf16;
  const std::string frees_weights = spec.zero_stage == 3     ? "zero_stage 3"
                                    : spec.gtp() > 1 && wide ? "gtp with gather_dtype: bf16"
                                                             : "";
  spec.form.narrow = resolve_narrow(written.precision, frees_weights, model, gpu, source);
  if (spec.gtp() == 1) return;
  const auto& narrow = spec.form.narrow;
  spec.gtp_shards.narrow = narrow && !wide;
  const std::string gather(kGatherFormatNames[static_cast<std::size_t>(written.gather_dtype)]);
  if (wide && model != DataType::bf16)
    refuse_workload(source, "gtp.gather_dtype",
                    "bf16; model.dtype is " + std::string(name_of(model)) + "; accepted: auto");
  if (written.gather_dtype > GatherFormat::bf16) {
    const DataType type = written.gather_dtype == GatherFormat::mxfp8 ? DataType::mxfp8 : DataType::nvfp4;
    if (gpu.sm.flop_per_clock[static_cast<std::size_t>(type)] <= 0)
      refuse_workload(source, "gtp.gather_dtype",
                      gather + "; " + gpu.name + " has no tensor rate for " + gather + "; accepted: auto, bf16");
    const std::string products(name_of(narrow ? narrow->dtype : model));
    if (products != gather)
      refuse_workload(
          source, "gtp.gather_dtype",
          gather + "; products in " + products + " cannot use it; accepted: auto, bf16, or precision.gemm: " + gather);
  }
  if (!spec.gtp_shards.narrow && spec.gtp_shards.quantize == workload::training::ShardCast::per_gather)
    refuse_workload(source, "gtp.quantize",
                    "per_gather needs narrow gathers: precision.gemm of fp8, mxfp8 or nvfp4, and gather_dtype: auto");
  if (spec.gtp_shards.narrow && narrow->weight_cast == transformer::WeightCast::product)
    refuse_workload(source, "precision.weight_cast", "product needs gtp.gather_dtype: bf16; accepted: step");
}

/// @param context_tokens  longest sequence by the model's config; 0: the config does not say. Rotary positions go on
/// beyond it; learned ones have no row there.
void check_positions(const TrainingSection& written, const transformer::ModelShape& model, std::uint32_t context_tokens,
                     const Source& source) {
  if (model.positions == 0 || context_tokens == 0 || written.seq_tokens <= context_tokens) return;
  refuse_workload(source, "seq_tokens",
                  "a sequence of " + std::to_string(written.seq_tokens) + " tokens exceeds the " +
                      std::to_string(context_tokens) + " learned positions of " + model.name);
}

void check_context(const TrainingSection& written, const transformer::ModelShape& model, const Source& source) {
  using transformer::ContextExchange;
  const std::uint32_t cp = written.written_cp;
  if (cp == 1) {
    if (value_at(source.root, "workload.cp_comm"))
      refuse_workload(source, "cp_comm", "is accepted only with cp of 2 or more");
    return;
  }
  if (written.seq_tokens % (2ull * cp) != 0)
    refuse_workload(source, "cp",
                    std::to_string(cp) + " does not divide half of the " + std::to_string(written.seq_tokens) +
                        " tokens of a sequence");
  const auto has_window = [](const transformer::LayerShape& l) { return l.window > 0; };
  if (written.cp_comm == ContextExchange::p2p && std::any_of(model.kinds.begin(), model.kinds.end(), has_window))
    refuse_workload(source, "cp_comm", "p2p has no sliding windows, but " + model.name + " has; set all_gather or a2a");
  const std::uint32_t heads = model.heads / written.written_tp,
                      kv_heads = transformer::rank_kv_heads(model, written.written_tp);
  if (written.cp_comm == ContextExchange::a2a && (heads % cp != 0 || kv_heads % cp != 0))
    refuse_workload(source, "cp_comm",
                    "a2a divides heads, but cp " + std::to_string(cp) + " does not divide the " +
                        std::to_string(heads) + " heads and " + std::to_string(kv_heads) +
                        " KV heads of a tensor-parallel rank; set p2p or all_gather");
}

TrainingSpec resolve_training(const TrainingSection& section, const Setting& setting) {
  const transformer::ModelShape& model = setting.model;
  const platforms::MachineSpec& machine = setting.machine;
  const Source& source = setting.source;
  const TrainingSection written = with_stages(section, model, machine, source);
  TrainingSpec spec = written;

  if (!setting.compute.profile.empty())
    throw InputError(place_of(source.root, "compute.profile"),
                     "compute.profile: profiles have no times for a backward pass; not accepted with kind: training");
  constexpr double kLeastBytes = 2;
  if (bytes_of(model.dtype) < kLeastBytes)
    throw InputError(place_of(source.root, "model.dtype"),
                     std::string("model.dtype: ").append(name_of(model.dtype)) +
                         "; accepted: bf16, fp16, tf32, and workload.precision.gemm for narrow products");
  const auto is_narrow = [](const transformer::LayerShape& l) { return l.attention || l.mlp || l.experts; };
  if (std::any_of(model.kinds.begin(), model.kinds.end(), is_narrow))
    throw InputError(place_of(source.root, "model.config"),
                     "model.config: " + model.name +
                         " has quantised weights, which cannot be trained; accepted with model.quantization: none, and "
                         "16-bit models");
  check_heads(written.written_tp, model, "workload.tp", source);

  const platforms::GroupSpec& group = machine.groups.front();
  const std::uint32_t gpus = written.stages.empty() ? group.servers * machine.board.gpus : all_gpus(machine);
  const std::uint64_t model_ranks =
      std::uint64_t(written.written_tp) * written.written_gtp * written.written_cp * written.written_pp;
  const std::string divided = written.written_gtp > 1 ? " x gtp " + std::to_string(written.written_gtp) : "";
  const std::string context = written.written_cp > 1 ? " x cp " + std::to_string(written.written_cp) : "";
  const std::string degrees =
      "tp " + std::to_string(written.written_tp) + divided + context + " x pp " + std::to_string(written.written_pp);
  if (!written.written_dp && (model_ranks > gpus || gpus % model_ranks != 0))
    refuse_workload(source, written.written_gtp > 1 ? "gtp.size" : "tp",
                    degrees + " = " + std::to_string(model_ranks) + " does not divide the " + std::to_string(gpus) +
                        " GPUs of the machine; set workload.dp to use fewer, or machine.groups." + group.name +
                        ".servers");
  const std::uint64_t dp = written.written_dp.value_or(static_cast<std::uint32_t>(gpus / model_ranks));
  if (model_ranks * dp > gpus)
    refuse_workload(source, "dp",
                    degrees + " x dp " + std::to_string(dp) + " needs " + std::to_string(model_ranks * dp) +
                        " GPUs; the machine has " + std::to_string(gpus) + "; set machine.groups." + group.name +
                        ".servers to " + std::to_string(ceil_div(model_ranks * dp, machine.board.gpus)) + " or more");
  check_dualpipe(written, source);
  check_experts(written, dp, model, source);
  if (!written.routing_file.empty())
    spec.routing = traced_routing(written.routing_file, "workload.routing", model, source);
  check_gtp(written, model, source);
  check_positions(written, model, setting.served.context_tokens, source);
  check_context(written, model, source);
  if (model.latent && written.written_cp > 1)
    refuse_workload(source, "cp",
                    std::to_string(written.written_cp) + " with the multi-head latent attention of " + model.name +
                        " is not modelled; accepted: 1");
  const std::uint32_t halves = halves_of(written);
  spec.whole_experts = has_whole_experts(written);
  const std::uint32_t ep = spec.whole_experts ? written.written_ep / written.written_tp : written.written_ep;
  spec.sizes = {written.written_tp,          written.written_cp, ep, static_cast<std::uint32_t>(halves * dp / ep),
                written.written_pp / halves, written.written_gtp};
  spec.order = order_of(written.written_order);
  check_hsdp(written, spec, source);
  const std::uint64_t together = std::uint64_t(spec.micro_batch) * spec.dp() * spec.gtp();
  if (spec.global_batch % together != 0)
    refuse_workload(source, "global_batch",
                    std::to_string(spec.global_batch) + " is not a multiple of micro_batch " +
                        std::to_string(spec.micro_batch) + divided + " x dp " + std::to_string(dp) +
                        (halves > 1 ? " x the 2 ends of schedule dualpipe" : "") + " = " + std::to_string(together));
  if (spec.micro_batches() > kMostMicroBatches)
    refuse_workload(source, "global_batch",
                    std::to_string(spec.micro_batches()) + " micro-batches on each replica; accepted: at most " +
                        std::to_string(kMostMicroBatches));
  if (spec.micro_batch_tokens() > kMostTokens)
    refuse_workload(source, "micro_batch",
                    std::to_string(spec.micro_batch_tokens()) + " tokens in a micro-batch; accepted: at most " +
                        number_text(static_cast<double>(kMostTokens)));
  if (spec.sequence_parallel && spec.tp() == 1)
    refuse_workload(source, "sequence_parallel", "needs workload.tp of 2 or more");
  if (spec.sequence_parallel && spec.rank_tokens() % spec.tp() != 0)
    refuse_workload(source, "sequence_parallel",
                    std::to_string(spec.rank_tokens()) + " tokens cannot be divided evenly among " +
                        std::to_string(spec.tp()) + " ranks");

  const std::uint64_t stages = std::uint64_t(written.written_pp) * written.written_virtual_stages;
  if (!written.written_stage_layers && stages > model.layers)
    refuse_workload(source, written.written_virtual_stages > 1 ? "virtual_stages" : "pp",
                    "pp " + std::to_string(written.written_pp) + " x virtual_stages " +
                        std::to_string(written.written_virtual_stages) + " is more than the " +
                        std::to_string(model.layers) + " layers of " + model.name);
  spec.stage_layers =
      resolve_stage_layers(written.written_stage_layers, static_cast<std::uint32_t>(stages),
                           "pp x virtual_stages is " + std::to_string(stages), model, "workload.stage_layers", source);
  resolve_schedule(spec, written, source);
  if (spec.grad_norm == workload::training::GradientNorm::post_validation && spec.pp() == 1)
    refuse_workload(source, "grad_norm", "post_validation needs pp of 2 or more; accepted with pp: 1: none and before");
  check_empty_stages(spec, source);
  check_deferred_head(spec, source);
  resolve_recompute(written.recompute, spec, model, source);
  resolve_kept_inputs(spec, model, source);
  resolve_overlap_moe(spec, written, model, source);
  for (const platforms::GroupSpec& any : machine.groups) {
    resolve_software(spec, written, model.dtype, model.latent.has_value(), any.gpu, machine.board.cpu, source);
    resolve_formats(spec, written, model.dtype, any.gpu, source);
  }
  resolve_states(spec, written, model.dtype, source);
  check_modules_format(spec, model, source);
  resolve_adapters(spec, written, divides_backward(spec), model, source);
  resolve_offload(spec, written, divides_backward(spec), source);
  check_stages(spec, machine, source);
  spec.placement = spec.stage_groups.empty() ? resolve_placement(written.written_placement, spec.ranks(), gpus,
                                                                 group.name, "workload.placement", source)
                                             : placed_by_stage(spec, machine);
  if (halves > 1) spec.placement = dualpipe_placement(spec);
  resolve_tp_overlap(spec, written.tp_overlap_key, machine, source);
  if (model.latent && spec.tp_overlap.any())
    refuse_workload(source, "tp_overlap",
                    "is not modelled with the multi-head latent attention of " + model.name + "; accepted: none");
  check_adapters_overlap(spec, source);
  check_gtp_sums(spec, machine, source);
  check_expert_exchange(spec, model, machine, source);
  check_groups_used(spec.stage_groups.empty() ? std::vector<std::uint32_t>{0} : spec.placement, machine, source);
  return spec;
}

}  // namespace

Kind training_kind() {
  Kind kind = kind_of("training", training_record(), resolve_training);
  kind.runs_model = true;
  kind.fidelity = transport::Fidelity::automatic;
  return kind;
}

}  // namespace railyard::scenario
