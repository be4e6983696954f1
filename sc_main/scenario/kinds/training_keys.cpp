// Where each key of workload.kind: training is written.
#include "sc_main/scenario/kinds/training_keys.h"

#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/datasheets/mixture_keys.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/mapping.h"
#include "sc_main/scenario/kinds/pipeline_groups.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "sc_main/scenario/kinds/requests.h"
#include "sc_main/scenario/kinds/routing.h"
#include "sc_main/scenario/kinds/tp_overlap.h"
#include "sc_main/scenario/kinds/word_list.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using workload::training::ScheduleKind;

namespace {

using workload::training::Software;

constexpr std::uint32_t kMostBatchSequences = 1u << 20, kMostLoraRank = 1u << 16;
constexpr double kLeastCapacity = 0.01, kMostCapacity = 1024;
constexpr const char* kOfSoftware = "of the software";

template <class Member>
auto of_software(Member member) {
  return within(&TrainingSpec::software, member);
}

void add_software_keys(Record<TrainingSection>& r) {
  r.choice("pp_send", of_software(&Software::pp_send), words_of(workload::training::kPipelineSendNames),
           "without sequence_parallel: what a rank sends to the next stage. shard: 1/tp of the activations, gathered "
           "there; full: all of them")
      .fallback(kOfSoftware);
  r.add("dp_overlap", of_software(&Software::dp_overlap),
        "a bucket of gradients is reduced as soon as its last gradient is there; otherwise after the last slot")
      .fallback(kOfSoftware);
  r.add("param_gather_overlap", of_software(&Software::param_gather_overlap),
        "zero_stage 1 and 2: the weights of a step are gathered beside its forward slots, which wait for the layers "
        "that "
        "they need; otherwise the optimizer of the step before ends with their gathers")
      .fallback(kOfSoftware);
  r.choice("attention", of_software(&Software::attention), words_of(transformer::kAttentionFormNames),
           "kernels of the attention core. flash: one; unfused: products, softmax and dropout")
      .fallback(kOfSoftware);
  r.choice("selective_recompute", of_software(&Software::selective_recompute),
           words_of(workload::training::kSelectiveRecomputeNames),
           "what recompute: selective computes again. attention: the core of attention; operators: all but the core of "
           "attention and every second matrix product")
      .fallback(kOfSoftware);
  r.choice("loss", of_software(&Software::loss), words_of(workload::training::kLossKernelsNames),
           "kernels of the loss. in_place: on one fp32 copy of the logits; operators: those of PyTorch, each with a "
           "result of its own; fused: on the logits in 16 bits")
      .fallback(kOfSoftware);
  r.add("loss_chunks", of_software(&Software::loss_chunks),
        "parts of the tokens whose logits are in memory one after the other")
      .range(1, 4096)
      .fallback(kOfSoftware);
  r.add("recompute_stops_early", of_software(&Software::recompute_stops_early),
        "recompute: full leaves out the last product of a layer without experts, whose result nothing needs")
      .fallback(kOfSoftware);
  r.number_or("flash_attention", "auto", of_software(&Software::flash_attention),
              "version of FlashAttention, of those with a rate on the GPU: 1 and 2 on Ampere, 2 on Ada, 1 to 3 on "
              "Hopper; auto: the kernels of the GPU's datasheet")
      .range(1, 3)
      .fallback(kOfSoftware);
  r.add("dropout", of_software(&Software::dropout), "dropout after attention and MLP").fallback(kOfSoftware);
  const auto routed = [](auto member) { return within(within(&TrainingSpec::software, &Software::routed), member); };
  add_mixture_keys(r, routed, [](Field& field) { field.fallback(kOfSoftware); });
  r.number_or("expert_capacity", "none", routed(&transformer::RoutedForm::capacity),
              "copies of a rank's tokens that an expert gets at most, in even shares; others are dropped "
              "(Megatron-LM, --moe-expert-capacity-factor)")
      .range(kLeastCapacity, kMostCapacity)
      .fallback("none");
  r.add("pad_to_capacity", routed(&transformer::RoutedForm::pads),
        "expert_capacity: each expert gets as many rows, so that no host waits for their numbers");
  r.add("shared_experts_beside", routed(&transformer::RoutedForm::shared_beside),
        "shared experts run beside the exchanges with routed ones (Megatron-LM, --moe-shared-expert-overlap)");
  r.choice("expert_exchange", routed(&transformer::RoutedForm::dispatch), words_of(transformer::kTokenDispatchNames),
           "how tokens reach the ranks with their experts. all_to_all: a copy for each expert, in NCCL's all-to-alls; "
           "deepep: once for each server and rank, in DeepEP's normal kernels");
  r.choice("launch", of_software(&Software::launch), words_of(workload::training::kLaunchNames),
           "eager: the host launches each kernel; graph: the GPU runs a captured graph")
      .fallback(kOfSoftware);
  r.add("host_us", of_software(&Software::host_us), "host time of each eager launch")
      .range(0, kLongestHostUs)
      .fallback(kOfSoftware);
  r.add("expert_call_us", of_software(&Software::expert_call_us),
        "launch: eager. Host time of each call in a layer with experts, beside its launches")
      .range(0, kLongestHostUs)
      .fallback("of the software, by the CPU");
  r.add("slot_host_us", of_software(&Software::slot_host_us),
        "launch: eager. Host time of each forward slot besides launches: the batch, masks, the loss")
      .range(0, kLongestHostUs)
      .fallback(kOfSoftware);
  r.add("slots_synchronize", of_software(&Software::slots_synchronize),
        "launch: eager. The host waits for the GPU before each slot")
      .fallback(kOfSoftware);
  r.add("nvls", of_software(&Software::nvls), "NCCL may use NVLink SHARP").fallback(kOfSoftware);
  r.choice(
       "comm_priority", of_software(&Software::comm_priority), words_of(gpu::kCommPriorityNames),
       "when collectives get SMs that kernels hold. high: at the end of a wave of thread blocks; normal: behind all "
       "thread blocks of kernels that began before")
      .fallback(
          "of the software; high for gathers and scatters of gtp, and for tp_overlap: ring, pipelined, bulk and "
          "userbuffers");
  r.number_or("nccl_ctas", "auto", of_software(&Software::nccl_ctas),
              "limit for the thread blocks of a collective; auto: NCCL's own choice")
      .range(1, 64)
      .fallback(kOfSoftware);
  r.add("reserved_bytes", of_software(&Software::reserved_bytes), "memory of CUDA context, NCCL buffers and workspaces")
      .range(0, 1e12)
      .fallback(kOfSoftware);
}

void add_gradients_key(Record<TrainingSection>& precision) {
  precision
      .choice("gradients", of_software(&Software::gradients), words_of(workload::training::kGradientFormatNames),
              "number format in which gradients are accumulated and reduced")
      .fallback(kOfSoftware);
}

void add_state_keys(Record<TrainingSection>& precision) {
  precision.choice(
      "parameters", &TrainingSection::parameters, words_of(kParameterFormatNames),
      "weights in memory. model: model.dtype; gemm: matrices of layers in the type of precision.gemm only, "
      "also on the links");
  precision.choice("moments", &TrainingSection::moments, words_of(workload::training::kMomentFormatNames),
                   "number format of the optimizer's two moments");
  precision.choice("master", &TrainingSection::master, words_of(workload::training::kMasterFormatNames),
                   "the optimizer's own copy of the weights; none: it updates the weights themselves");
}

Record<TrainingSection> offload_record() {
  const auto offload = [](auto member) { return within(&TrainingSpec::offload, member); };
  using workload::training::Offload;
  Record<TrainingSection> r;
  r.add("activations", offload(&Offload::activations),
        "share of what a layer keeps for its backward pass that goes to host memory and comes back")
      .range(0, 1);
  r.number_or("layers", "all", &TrainingSection::offload_layers,
              "layers of each virtual stage whose activations go there, from the first one on")
      .range(1, kMostLayers)
      .fallback("all");
  r.add("prefetch_layers", offload(&Offload::prefetch_layers),
        "layers whose activations come back before the layer whose backward pass runs")
      .range(0, 64);
  r.add("optimizer", offload(&Offload::optimizer),
        "the CPUs run the optimizer: gradients go to host memory, where its state is, and weights come back");
  return r;
}

}  // namespace

Record<TrainingSection> training_record() {
  using Section = TrainingSection;
  Record<Section> r;
  r.add("seq_tokens", &Section::seq_tokens, "tokens of a sequence").range(1, kMostTokens).required();
  r.add("global_batch", &Section::global_batch, "sequences of a step, over all data-parallel replicas")
      .range(1, kMostBatchSequences)
      .required();
  r.add("micro_batch", &Section::micro_batch, "sequences of a micro-batch").range(1, kMostBatchSequences);
  r.add("tp", &Section::written_tp, "tensor-parallel ranks; must divide the attention heads").range(1, kMostRanks);
  const auto shards = [](auto member) { return within(&Section::gtp_shards, member); };
  using workload::training::WeightShards;
  Record<Section> gtp;
  gtp.add("size", &Section::written_gtp,
          "ranks that divide the weights of a tensor-parallel rank among themselves; each has micro-batches of its "
          "own; 1: "
          "weights are not divided")
      .range(1, kMostRanks)
      .required();
  gtp.add("experts_size", shards(&WeightShards::experts_size),
          "adjacent ranks of these that divide the matrices of routed experts; must divide size; 1: experts are whole, "
          "and their gradients are reduced over these ranks, too")
      .range(1, kMostRanks);
  gtp.add("prefetch_depth", shards(&WeightShards::prefetch_depth),
          "matrices that are gathered before the matrix in use; fc1 and fc2 of routed experts are gathered one layer "
          "before, but for 0")
      .range(0, 64);
  gtp.choice(
      "wgrad_order", shards(&WeightShards::wgrad_order), words_of(workload::training::kWgradOrderNames),
      "whether the gradient of a matrix is computed after or before that of its input; before_dgrad needs tp: 1");
  gtp.choice(
      "gather_dtype", &Section::gather_dtype, words_of(kGatherFormatNames),
      "number format in which matrices of layers are gathered. auto: that of their products (precision.gemm); mxfp8 "
      "and nvfp4 need products in this format; bf16: products narrow gathered matrices themselves");
  gtp.choice("quantize", shards(&WeightShards::quantize), words_of(workload::training::kShardCastNames),
             "narrow gathers: when a rank makes its shards narrow. at_optimizer: once a step; per_gather: before each "
             "gather");
  gtp.choice("keep_gathered", shards(&WeightShards::keep_gathered), words_of(workload::training::kGatheredForNames),
             "how long gathered matrices stay. micro_batch: each pass gathers them again; step: until the optimizer");
  gtp.choice(
      "reduce", shards(&WeightShards::reduce), words_of(workload::training::kShardReduceNames),
      "how gradients of matrices are summed. ring: a reduce-scatter; all_to_all_fp32: each rank receives its part "
      "from all ranks and adds in 32 bits; nvls: a reduce-scatter in which NVSwitches add");
  gtp.choice(
      "activations", shards(&WeightShards::activations), words_of(workload::training::kKeptInputsNames),
      "inputs of column-parallel products that are kept for the gradients of their matrices, which are alike on all "
      "tensor-parallel ranks. whole: kept as usual; sharded: a rank keeps 1/tp of each, and gathers it in the chain of "
      "matrices "
      "before it computes the gradient; needs tp of 2 or more");
  r.group_or(
      "gtp", "none", gtp,
      "generalized tensor parallelism: a rank keeps a shard of each matrix, its gradient and its optimizer state; "
      "matrices are gathered one by one just before their products, and gradients reduce-scattered after them");
  r.add("sequence_parallel", &Section::sequence_parallel,
        "norms on tokens / tp, between a reduce-scatter and an all-gather; tp must divide the tokens");
  r.add("pp", &Section::written_pp, "pipeline ranks").range(1, kMostRanks);
  r.add("virtual_stages", &Section::written_virtual_stages, "parts of the model on each pipeline rank").range(1, 64);
  r.add("schedule", &Section::written_schedule,
        "order of the pipeline's slots: naive, gpipe, 1f1b, interleaved, zb_h1, zb_h2, zb_auto, zbv, dualpipe_v, "
        "dualpipe, or a "
        "file with a table of slots (docs/training.md)")
      .is_path(Field::Path::unless_name);
  r.add("group_micro_batches", &Section::written_group, "interleaved: micro-batches in a row through one virtual stage")
      .range(1, kMostMicroBatches)
      .fallback("pp");
  r.add("memory_limit_stages", &TrainingSection::memory_limit_stages,
        "zb_auto: a rank keeps the activations of at most this x pp micro-batches")
      .range(1, 2);
  r.add(
      "defer_embedding_wgrad", &Section::defer_embedding_wgrad,
      "the head's gradients of weights follow all other slots of the last pipeline rank, while other ranks end; needs "
      "pp of 2 or more, whole backward slots, zero_stage of 0 or 1, and memory for inputs and gradients of logits of "
      "all micro-batches");
  r.add("overlap_moe", &Section::overlap_moe,
        "F of a micro-batch and B of another run interleaved, so that exchanges with experts of one run beside kernels "
        "of the other (schedules 1f1b and interleaved, with more F first, dualpipe_v and dualpipe)");
  r.number_or("stage_layers", "auto", &Section::written_stage_layers,
              "layers of each virtual stage, in the order of the model; 0 in the first or last stage: it has only the "
              "embedding or only head and loss")
      .range(0, kMostLayers)
      .fallback("auto: as even as possible; earlier stages take the remainder");
  r.list("stages", &Section::stages, pipeline_stage_record(),
         "pipeline ranks with GPUs of several groups of the machine, in the order of the model; in place of pp, "
         "stage_layers and placement");
  r.add("cp", &Section::written_cp,
        "context-parallel ranks: each has seq_tokens / cp tokens of each sequence; must divide seq_tokens / 2")
      .range(1, kMostRanks);
  r.choice("cp_comm", &Section::cp_comm, words_of(transformer::kContextExchangeNames),
           "cp: how attention gets the keys and values of other ranks. p2p: a ring beside kernels; all_gather: before "
           "one kernel; a2a: all-to-alls that trade tokens for heads");
  r.add("ep", &Section::written_ep,
        "expert-parallel ranks, of the data-parallel ones: each has experts / ep of the experts; must divide experts "
        "and dp. With expert_tp: 1 of all tp x dp ranks: a multiple of tp that divides tp x dp")
      .range(1, kMostRanks);
  r.add("expert_tp", &Section::expert_tp,
        "tensor-parallel ranks that divide each routed expert: tp, or 1: ranks have whole experts, and exchange tokens "
        "with all ep ranks; needs sequence_parallel and ep of tp or more (Megatron-LM, --expert-tensor-parallel-size)")
      .range(1, kMostRanks)
      .fallback("tp");
  r.custom(
       "routing",
       "how tokens are dealt to experts. uniform: each expert gets the same share; skew: some experts of each layer "
       "are more popular, so expert-parallel ranks get unequal shares; a file: LAYER,TOKENS OF EXPERT 0,... for each "
       "layer, as traced",
       kRoutingType, routing_schema,
       [](Section& section, const Node& node, const std::string& path) {
         section.routing = read_routing(node, path, section.routing_file);
       })
      .is_path(Field::Path::unless_name)
      .fallback("uniform");
  r.number_or("dp", "auto", &Section::written_dp,
              "data-parallel replicas of all weights but those of experts; auto: GPUs / (tp gtp cp pp)")
      .range(1, 1u << 16);
  r.add("zero_stage", &Section::zero_stage,
        "0: gradients are all-reduced; 1: the optimizer's state is divided among replicas: gradients are "
        "reduce-scattered, weights gathered after the step; 2: gradients, too, after each backward slot; 3: weights, "
        "too: each layer's are gathered just before it runs")
      .range(0, 3);
  r.add("hsdp", &Section::hsdp,
        "ranks that divide state by zero_stage; further groups of so many ranks hold the same state and all-reduce "
        "gradients with them (hybrid sharding)")
      .range(2, kMostRanks)
      .fallback("all replicas");
  r.add("prefetch_layers", &Section::prefetch_layers,
        "zero_stage 3: layers whose weights are gathered before the layer that runs")
      .range(0, 64);
  r.add("reshard_after_forward", &Section::reshard_after_forward,
        "zero_stage 3: a forward slot frees gathered weights, and the backward slot gathers them again");
  r.add("keep_gathered", within(&Section::form, &transformer::TrainingForm::keep_gathered),
        "sequence_parallel: keep gathered inputs for the gradients of weights; otherwise gather them again, beside the "
        "product for the gradients of inputs");
  r.custom(
       "recompute",
       "what a backward slot computes again. selective: the core of attention; full: every layer, one by one; method "
       "uniform: every layer, in groups of `layers` of which the first input is kept; method block: the first "
       "`layers` layers of each virtual stage; modules, as Megatron-LM names them: core_attn, layernorm (both norms), "
       "mlp (of layers without experts), moe (router, exchanges, experts), moe_act (activation of experts)",
       "none, selective, full, {method: uniform or block, layers} or {modules}", recompute_schema,
       [](Section& section, const Node& node, const std::string& path) {
         section.recompute = read_recompute(node, path);
       })
      .fallback("none");
  r.word("rank_order", &Section::written_order,
         {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "tp-cp-pp-ep-dp", "tp-pp-cp-ep-dp"},
         "dimensions of parallelism, from adjacent ranks to ranks far apart; gtp follows tp");
  r.number_or("placement", "auto", &Section::written_placement, "GPU of each rank; auto: GPU r for rank r")
      .range(0, kMostGpus);
  r.add("software", &Section::written_software,
        "datasheet of the software stack, shipped or a file: kernels, launches, overlap, buckets")
      .is_path(Field::Path::unless_name);
  r.add("steps", &Section::steps, "optimizer steps").range(1, 1000);
  r.add("pp_overlap", &Section::pp_overlap_key,
        "sends and receives of the pipeline run beside kernels; otherwise the next slot waits for both")
      .fallback(kOfSoftware);
  r.custom(
       "tp_overlap",
       "sequence_parallel: how products overlap with their collectives, for all of them or by product (default and "
       "qkv, proj, fc1, fc2 with _fprop, _dgrad, _wgrad). ring, decomposed, fused: with the gather before a product; "
       "pipelined, decomposed, fused: with the reduce-scatter after it; bulk: collectives beside the products of qkv "
       "and fc1 backward; userbuffers: Transformer Engine's choice for each. A mapping {method: pipelined or bulk, "
       "comm_sms: N} in place of a product's word gives its collectives N SMs, otherwise 16",
       "none, ring, pipelined, bulk, decomposed, fused or userbuffers; or a mapping of products to them",
       tp_overlap_schema,
       [](Section& section, const Node& node, const std::string& path) {
         section.tp_overlap_key = read_tp_overlap(node, path);
       })
      .fallback(kOfSoftware);
  r.add("bucket_parameters", &Section::bucket_key, "least parameters of a bucket of gradients; 0: one bucket")
      .none_or(1, 1e12)
      .fallback("zero_stage 2 and 3: a bucket for each layer; otherwise of the software");
  add_software_keys(r);
  Record<Section> precision = precision_record(&Section::precision);
  add_gradients_key(precision);
  add_state_keys(precision);
  r.group("precision", precision, "number formats; weights have model.dtype");
  Record<Section> lora;
  lora.add("rank", &Section::lora_rank, "rows of A and columns of B; at most the width of the model")
      .range(1, kMostLoraRank)
      .required();
  lora.custom(
          "modules", "matrices with adapters", "list of qkv, proj, fc1, fc2",
          [] { return word_list_schema(words_of(transformer::kAdaptedNames)); },
          [](Section& section, const Node& node, const std::string& path) {
            section.lora_modules = read_word_set(transformer::kAdaptedNames, node, path);
          })
      .fallback("all of them");
  r.group_or(
      "lora", "none", lora,
      "low-rank adapters: the weights of the model are frozen, and two matrices of this rank beside each of some "
      "matrices are trained");
  r.group("offload", offload_record(), "what a step keeps in the memory of the CPU sockets");
  r.choice(
      "grad_norm", &Section::grad_norm, words_of(workload::training::kGradientNormNames),
      "norm of all gradients. before: every rank waits for it before the optimizer; post_validation: a rank waits for "
      "the norm of its own and earlier stages only, needs pp of 2 or more");
  return r;
}

void read_over(Software& software, const Source& source) {
  TrainingSection section;
  section.software = std::move(software);
  const auto read = [&](const std::string& parent, const Record<TrainingSection>& keys) {
    for (const Field& field : keys.fields()) {
      const std::string path = parent + "." + field.key;
      if (const NodePtr node = value_at(source.root, path)) field.store(field, &section, *node, path);
    }
  };
  Record<TrainingSection> keys, gradients;
  add_software_keys(keys);
  add_gradients_key(gradients);
  read("workload", keys);
  read("workload.precision", gradients);
  software = std::move(section.software);
}

}  // namespace railyard::scenario
