#include "sc_main/scenario/kinds/scheduler.h"

#include <algorithm>
#include <iterator>

#include "base/input_error.h"
#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

using workload::inference::BatchMix;
using workload::inference::InstanceSpec;
using workload::inference::Preemption;
using workload::inference::Reserve;
using workload::inference::SchedulerSpec;

namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

/// vLLM v0.19 (config/scheduler.py, engine/arg_utils.py): the API server's defaults. A100 is left out of the large
/// budget because it lost throughput there (vllm-project/vllm#17885).
SchedulerSpec vllm(const gpu::GpuDatasheet& gpu) {
  SchedulerSpec spec;
  const bool is_large = gpu.hbm.visible_bytes() >= 70 * kGib && gpu.name.rfind("A100", 0) != 0;
  spec.max_batched_tokens = is_large ? 8192 : 2048;
  spec.max_seqs = is_large ? 1024 : 256;
  return spec;
}

/// vLLM 0.4 to 0.8, engine V0 (core/scheduler.py, config.py, engine/arg_utils.py of v0.6): prompts first and whole, in
/// batches without decodes; 1 % of the blocks stays free. Its budget is the longest sequence of the model, at least 2048
/// tokens; 8192 is that of Llama 3.
SchedulerSpec vllm_v0(const gpu::GpuDatasheet&) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 8192;
  spec.max_seqs = 256;
  spec.chunked_prefill = false;
  spec.mix = BatchMix::prefill_first;
  spec.prefix_caching = false;
  spec.watermark_ratio = 0.01;
  return spec;
}

/// SGLang (server_args.py): prompts alone, in chunks by GPU memory.
SchedulerSpec sglang(const gpu::GpuDatasheet& gpu) {
  SchedulerSpec spec;
  const double gib = gpu.hbm.visible_bytes() / kGib;
  spec.max_batched_tokens = gib < 35 ? 2048 : gib < 60 ? 4096 : gib < 160 ? 8192 : 16384;
  spec.max_seqs = 2048;
  spec.mix = BatchMix::prefill_first;
  spec.reserve = Reserve::expected_output;
  return spec;
}

/// TensorRT-LLM 1.0 (llmapi/llm_args.py): GUARANTEED_NO_EVICT.
SchedulerSpec trtllm(const gpu::GpuDatasheet&) {
  SchedulerSpec spec;
  spec.max_batched_tokens = 8192;
  spec.max_seqs = 2048;
  spec.reserve = Reserve::full_output;
  spec.preemption = Preemption::never;
  return spec;
}

struct Preset {
  const char *name, *host, *library;
  SchedulerSpec (*make)(const gpu::GpuDatasheet&);
};
constexpr Preset kPresets[] = {{"vllm", "vllm_v1", "vllm", vllm},
                               {"vllm_v0", "vllm_v0", "vllm", vllm_v0},
                               {"sglang", "sglang", "sglang", sglang},
                               {"trtllm", "trtllm", "trtllm", trtllm}};

/// @pre the name was read with scheduler_record()
const Preset& preset_of(const std::string& name) {
  return *std::find_if(std::begin(kPresets), std::end(kPresets),
                       [&](const Preset& preset) { return name == preset.name; });
}

template <class T>
void take(T& to, const std::optional<T>& written) {
  if (written) to = *written;
}

void apply(SchedulerSpec& spec, const SchedulerSection& written) {
  take(spec.policy, written.policy);
  take(spec.mix, written.mix);
  take(spec.reserve, written.reserve);
  take(spec.preemption, written.preemption);
  take(spec.max_batched_tokens, written.max_batched_tokens);
  take(spec.max_seqs, written.max_seqs);
  take(spec.long_prefill_threshold_tokens, written.long_prefill_threshold_tokens);
  take(spec.block_tokens, written.block_tokens);
  take(spec.chunked_prefill, written.chunked_prefill);
  take(spec.prefix_caching, written.prefix_caching);
  take(spec.watermark_ratio, written.watermark_ratio);
}

}  // namespace

Record<SchedulerSection> scheduler_record() {
  using S = SchedulerSection;
  Record<S> r;
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  r.word("preset", &S::preset, names, "engine: the defaults of all keys below").fallback("vllm");
  r.add("library", &S::library, "datasheet of the engine's collectives and attention kernels, shipped or a file")
      .is_path(Field::Path::unless_name)
      .fallback("the preset's");
  r.choice("policy", &S::policy, {"fcfs", "priority"},
           "order of the queue: by arrival, or by the requests' priority and then by arrival")
      .fallback("from the preset");
  r.add("max_batched_tokens", &S::max_batched_tokens, "most tokens in a batch")
      .range(1, 1 << 20)
      .fallback("vllm: 8192 with 70 GiB or more, except A100, else 2048; sglang: by memory; others: 8192");
  r.add("max_seqs", &S::max_seqs, "most requests that run at once")
      .range(1, 1 << 20)
      .fallback("vllm: 1024 with 70 GiB or more, except A100, else 256; vllm_v0: 256; sglang, trtllm: 2048");
  r.add("max_model_len", &S::max_model_len,
        "most tokens of a request, prompt and answer; a longer request is refused. At most the context of the model's "
        "config")
      .range(1, 1 << 30)
      .fallback("the context of the model's config");
  r.add("long_prefill_threshold_tokens", &S::long_prefill_threshold_tokens,
        "most tokens of one prompt in a batch; 0: only the budget limits them")
      .range(0, 1 << 20)
      .fallback("from the preset");
  r.add("chunked_prefill", &S::chunked_prefill, "a prompt may be split over batches").fallback("from the preset");
  r.choice("mix", &S::mix, {"mixed", "prefill_first"},
           "mixed: prompts and decodes share a batch; prefill_first: decodes wait while a prompt can run")
      .fallback("from the preset");
  r.choice("reserve", &S::reserve, {"chunk", "sequence", "expected_output", "full_output"},
           "KV blocks that must be free for a request to start: for its first chunk; for its prompt; also for the "
           "share of all answers that SGLang expects; for all answers in full")
      .fallback("from the preset");
  r.choice("preemption", &S::preemption, {"recompute", "never"},
           "recompute: when blocks run out, the latest request gives up its blocks and starts again")
      .fallback("from the preset");
  r.add("watermark_ratio", &S::watermark_ratio, "share of the blocks that stays free when a request starts")
      .range(0, 1)
      .fallback("from the preset");
  r.add("prefix_caching", &S::prefix_caching, "blocks with the same tokens before them are shared")
      .fallback("from the preset");
  r.add("block_tokens", &S::block_tokens, "tokens of a KV block").range(1, 4096).fallback("16");
  r.add("max_in_flight", &S::max_in_flight, "batches in flight")
      .range(1, 4096)
      .fallback("pp; 2 with pp 1 and an asynchronous host");
  return r;
}

std::string scheduler_preset(const SchedulerSection& written) { return written.preset.value_or(kPresets[0].name); }

std::string host_of_scheduler(const std::string& preset) { return preset_of(preset).host; }

void resolve_engine(InstanceSpec& instance, const SchedulerSection& common, const SchedulerSection& own,
                    const std::string& key, const Source& source) {
  instance.scheduler_preset = own.preset.value_or(scheduler_preset(common));
  const std::string library_key = (own.library ? key : "workload") + ".scheduler.library";
  const char* const library = preset_of(instance.scheduler_preset).library;
  const EngineSheet sheet = load_engine(
      {own.library.value_or(common.library.value_or(library)), library_key, place_of(source.root, library_key)});
  instance.engine = sheet;
  instance.rules = sheet.rules;
}

void resolve_scheduler(InstanceSpec& instance, const SchedulerSection& common, const SchedulerSection& own,
                       const SchedulerSetting& setting, const std::string& key, const Source& source) {
  instance.scheduler = preset_of(instance.scheduler_preset).make(setting.gpu);
  SchedulerSpec& spec = instance.scheduler;
  apply(spec, common);
  apply(spec, own);
  const std::uint32_t pp = instance.mapping.pp;
  spec.placeholders = setting.async_host && pp == 1;
  spec.max_in_flight = own.max_in_flight.value_or(common.max_in_flight.value_or(spec.placeholders ? 2 : pp));

  const auto refuse = [&](const char* setting_key, const std::string& what) {
    std::string where = key + ".scheduler." + setting_key;
    if (!value_at(source.root, where)) where = std::string("workload.scheduler.") + setting_key;
    throw InputError(place_of(source.root, where), where + ": " + what);
  };
  const std::uint32_t context = setting.context_tokens;
  spec.max_model_len = own.max_model_len.value_or(common.max_model_len.value_or(context));
  if (context > 0 && spec.max_model_len > context)
    refuse("max_model_len", std::to_string(spec.max_model_len) +
                                " is more than the context of the model's config"
                                "; accepted: up to " +
                                std::to_string(context));
  if (spec.max_batched_tokens < spec.max_seqs)
    refuse(value_at(source.root, "workload.scheduler.max_seqs") ? "max_seqs" : "max_batched_tokens",
           "max_batched_tokens " + std::to_string(spec.max_batched_tokens) + " is less than max_seqs " +
               std::to_string(spec.max_seqs) + "; each running request needs a token of the budget");
  if (spec.preemption == Preemption::never && spec.reserve != Reserve::full_output)
    refuse("preemption", "never needs reserve: full_output; else the answers of running requests may not fit");
}

}  // namespace railyard::scenario
