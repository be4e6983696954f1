#include "sc_main/scenario/datasheets/engine_record.h"

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/lists.h"

namespace railyard::scenario {

using namespace collective;

namespace {

constexpr double kMostKib = 1 << 22, kMostRanks = 1024, kMostBlocks = 65536, kMostThreads = 1024;

std::vector<Record<SizeLimit>> size_limit_forms() {
  Record<SizeLimit> up_to, below;
  up_to.add("up_to_kib", &SizeLimit::up_to_kib, "the largest vector").range(1, kMostKib).required();
  below.add("below_kib", &SizeLimit::below_kib, "the smallest vector that is too large").range(1, kMostKib).required();
  return {up_to, below};
}

Record<RankLimits> rank_limits_record() {
  Record<RankLimits> r;
  r.add("ranks", &RankLimits::ranks, "numbers of ranks to which the limits apply").range(2, kMostRanks).required();
  r.variants("one_shot", &RankLimits::one_shot, size_limit_forms(), "vectors of the one-shot algorithm");
  r.variants("two_shot", &RankLimits::two_shot, size_limit_forms(),
             "larger vectors of the two-shot algorithm; NCCL reduces even larger ones");
  return r;
}

std::vector<Form<std::optional<PullKernel>>> kernel_forms() {
  Record<PullKernel> pull;
  pull.add("blocks", &PullKernel::blocks, "thread blocks").range(1, kMostBlocks).required();
  pull.add("threads", &PullKernel::threads, "threads of a block").range(1, kMostThreads).required();
  pull.add("read_bytes", &PullKernel::read_bytes, "bytes that a thread reads from each peer at once")
      .range(1, 4096)
      .required();
  return {{"pull", pull.fields(), [](std::optional<PullKernel>& kernel) { return &kernel.emplace(); }},
          {"push", {}, [](std::optional<PullKernel>& kernel) { return &kernel; }}};
}

template <class Kernel>
Field& add_architectures(Record<Kernel>& r) {
  return r.custom(
      "architectures", "GPUs of the kernel, by their datasheets' architecture", "list of words",
      [] {
        return list_schema({{"enum", gpu::kArchitectureNames}});
      },
      [](Kernel& kernel, const Node& node, const std::string& path) {
        for (const std::size_t architecture : read_choices(gpu::kArchitectureNames, node, path))
          kernel.architectures.push_back(gpu::kArchitectureNames[architecture]);
      });
}

Record<gpu::BlockScaledProducts> block_scaled_record() {
  constexpr double kMostMultiple = 1024, kMostTokens = 1 << 20;
  using P = gpu::BlockScaledProducts;
  Record<P> r;
  add_architectures(r).required();
  r.choice("library", &P::library, {"cublas", "deepgemm"}, "whose kernel runs").required();
  r.add("columns", &P::columns, "n must be a multiple of this; other products run in cuBLAS").range(1, kMostMultiple);
  r.add("depth", &P::depth, "k must be a multiple of this; other products run in cuBLAS").range(1, kMostMultiple);
  r.add("experts_from_tokens", &P::experts_from_tokens,
        "routed experts run in it, too, in passes of at least so many tokens; 0: never")
      .range(0, kMostTokens);
  return r;
}

Record<AllReduceKernel> all_reduce_record() {
  Record<AllReduceKernel> r;
  add_architectures(r).fallback("all");
  r.choice("interconnect", &AllReduceKernel::interconnect, words_of(kInterconnectNames),
           "what joins the GPUs of a server")
      .required();
  r.forms("kernel", &AllReduceKernel::pull, "kind", kernel_forms(), "how the kernel moves data",
          "pull: members read from their peers, between exchanges of flags; push: members store to their peers")
      .required();
  r.list("limits", &AllReduceKernel::limits, rank_limits_record(), "size limits, by number of ranks").required();
  return r;
}

template <class M>
M EngineSheet::*of_sheet(M Engine::*member) {
  return member;
}

}  // namespace

Record<EagerCall> eager_call_record(const char* doc) {
  constexpr double kMostUs = 1e6;
  Record<EagerCall> r;
  r.custom(
       "cpus", "CPUs of the servers, by the board's cpu", "list of words",
       [] {
         return list_schema({{"enum", kCpuNames}});
       },
       [](EagerCall& call, const Node& node, const std::string& path) {
         for (const std::size_t cpu : read_choices(kCpuNames, node, path)) call.cpus.push_back(static_cast<Cpu>(cpu));
       })
      .fallback("all");
  r.add("us", &EagerCall::us, doc).above(0, kMostUs).required();
  return r;
}

Record<EngineSheet> engine_record() {
  Record<EngineSheet> r;
  r.choice("attention", &EngineSheet::attention, words_of(gpu::kAttentionLibraryNames),
           "attention kernels of an instance")
      .required();
  r.list("block_scaled_products", of_sheet(&Engine::block_scaled_products), block_scaled_record(),
         "products of fp8 weights with a scale for each block of 128 x 128; the first one for the GPU applies")
      .fallback("[]: cuBLAS");
  r.list("eager_call", of_sheet(&Engine::eager_call), eager_call_record("time of a call"),
         "host time of a collective outside a CUDA graph, by CPU; the first one that fits applies")
      .required();
  r.list("all_reduce", of_sheet(&Engine::all_reduce), all_reduce_record(),
         "the engine's own all-reduce kernels inside a server; the first one that fits applies")
      .required();
  using namespace workload::inference;
  const auto rule = [](auto of_rules) { return within(&EngineSheet::rules, of_rules); };
  r.choice("extra_layers", rule(&ServingRules::extra_layers), words_of(kExtraLayersNames),
           "pipeline stages that have one layer more, if their number does not divide the layers");
  r.add("passes_residual", rule(&ServingRules::passes_residual),
        "a pipeline stage sends the residual beside the hidden state, in models that keep it apart");
  r.choice("sampled_ids", rule(&ServingRules::sampled_ids), words_of(kSampledIdsNames),
           "how sampled tokens get from the last stage to the first: through the host, or as a message between GPUs");
  r.choice("handoff", rule(&ServingRules::handoff), words_of(kHandoffGrainNames),
           "default of workload.handoff, with a prefill and a decode instance");
  r.choice("first_token", rule(&ServingRules::first_token), words_of(kFirstTokenNames),
           "which instant brings the client the first token, with two instances: the end of the prompt; the request's "
           "start in the decode instance, when its KV has arrived; the end of its first step there");
  return r;
}

}  // namespace railyard::scenario
