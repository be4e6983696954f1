#include "sc_main/scenario/kinds/scheduler.h"

#include "base/input_error.h"
#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

using workload::inference::BatchMix;
using workload::inference::Preemption;
using workload::inference::Reserve;
using workload::inference::SchedulerSpec;

Record<SchedulerSpec> scheduler_record() {
  using S = SchedulerSpec;
  Record<S> r;
  r.add("max_batched_tokens", &S::max_batched_tokens, "most tokens in a batch").range(1, 1 << 20);
  r.add("max_seqs", &S::max_seqs, "most requests that run at once").range(1, 1 << 20);
  add_scheduler_rules(r);
  r.fallback_all("from the engine's sheet");
  r.add("max_model_len", &S::max_model_len,
        "most tokens of a request, prompt and answer; a longer request is refused. At most the context of the model's "
        "config")
      .range(1, 1 << 30)
      .fallback("the context of the model's config");
  r.add("receive_interval", &S::receive_interval,
        "of SGLang's scheduler (reserve: expected_output): batches of decodes after which it looks for new requests; "
        "after "
        "a batch of prompts, and when nothing runs, it looks at once")
      .range(1, 1e6)
      .fallback("1")
      .cite("sgl-project/sglang --scheduler-recv-interval");
  r.add("max_in_flight", &S::max_in_flight, "batches in flight")
      .range(1, 4096)
      .fallback("pp; 2 with pp 1 and an asynchronous host");
  return r;
}

SchedulerSpec resolve_scheduler(const SchedulerSetting& setting, std::uint32_t pp, const std::string& key,
                                const Source& source) {
  SchedulerSpec spec = setting.sheet.on(setting.gpu);
  spec.placeholders = setting.async_host && pp == 1;
  spec.max_in_flight = spec.placeholders ? 2 : pp;
  spec.max_model_len = setting.context_tokens;
  const std::string common = "workload.scheduler", own = key + ".scheduler";
  for (const std::string& path : {common, own})
    if (const NodePtr node = value_at(source.root, path)) scheduler_record().read(spec, *node, path);

  const auto refuse = [&](const char* setting_key, const std::string& what) {
    std::string where = own + "." + setting_key;
    if (!value_at(source.root, where)) where = common + "." + setting_key;
    throw InputError(place_of(source.root, where), where + ": " + what);
  };
  const std::uint32_t context = setting.context_tokens;
  if (context > 0 && spec.max_model_len > context)
    refuse("max_model_len", std::to_string(spec.max_model_len) +
                                " is more than the context of the model's config"
                                "; accepted: up to " +
                                std::to_string(context));
  if (spec.max_batched_tokens < spec.max_seqs)
    refuse(value_at(source.root, common + ".max_seqs") ? "max_seqs" : "max_batched_tokens",
           "max_batched_tokens " + std::to_string(spec.max_batched_tokens) + " is less than max_seqs " +
               std::to_string(spec.max_seqs) + "; each running request needs a token of the budget");
  if (spec.preemption == Preemption::never && spec.reserve != Reserve::full_output)
    refuse("preemption", "never needs reserve: full_output; else the answers of running requests may not fit");
  if (spec.reserve == Reserve::full_output && spec.mix != BatchMix::mixed)
    refuse("reserve", "full_output (TensorRT-LLM) needs mix: mixed");
  if (spec.reserve == Reserve::expected_output && spec.mix != BatchMix::prefill_first)
    refuse("reserve", "expected_output (SGLang) needs mix: prefill_first");
  if (spec.receive_interval > 1 && spec.reserve != Reserve::expected_output)
    refuse("receive_interval", "only SGLang's scheduler has it; accepted with reserve: expected_output");
  return spec;
}

}  // namespace railyard::scenario
