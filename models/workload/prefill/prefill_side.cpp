#include "workload/prefill/prefill_side.h"

#include <fmt/format.h>
#include <algorithm>

namespace railyard::workload::prefill {

PrefillSide::PrefillSide(Grid& prefill, Grid& decode, const PrefillSpec& spec, Executor& executor,
                         PrefillClient& client)
    : prefill_(prefill),
      decode_(decode),
      spec_(spec),
      executor_(executor),
      client_(client),
      plan_(prefill, decode),
      passes_(prefill, executor, PassNames::prefill, spec.pp_send, *this),
      progress_(spec.requests.size()) {}

void PrefillSide::admit(std::uint32_t request) {
  const std::uint32_t prompt = spec_.requests[request].prompt_tokens;
  for (std::uint32_t start = 0, index = 0; start < prompt; ++index) {
    const std::uint32_t tokens = std::min(spec_.chunk_tokens, prompt - start);
    waiting_.push_back({request, index, tokens, start, start + tokens == prompt});
    start += tokens;
  }
  schedule();
}

void PrefillSide::schedule() {
  // Not from inside an emission: the jobs of two passes must not interleave in a stream.
  if (scheduled_ || waiting_.empty() || emitted_.size() > begun_) return;
  scheduled_ = true;
  executor_.fabric().calendar().at(executor_.fabric().now(), *this, 0, 0);
}

void PrefillSide::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  const Chunk chunk = waiting_.front();
  waiting_.pop_front();
  emit(chunk);
  schedule();
}

void PrefillSide::emit(const Chunk& chunk) {
  transformer::LayerTimer& timer = prefill_.timer();
  Pass pass;
  pass.index = chunk.index;
  pass.request = request_name(chunk);
  pass.tokens = chunk.tokens;
  pass.embedding = timer.embedding(chunk.tokens).chain();
  pass.layers = plan_layers(prefill_, {{{chunk.tokens, chunk.start}}, {}, 0});
  if (chunk.last) pass.head = timer.head(1).chain();
  pass.prepare = spec_.host.step(1);
  pass.launch = spec_.host.prefill_layer();
  pass.host_is_async = spec_.host.async;
  emitted_.push_back(chunk);
  passes_.emit(pass);
}

void PrefillSide::on_pass_begun(std::uint32_t pass) {
  ++begun_;
  if (emitted_[pass].start == 0) client_.on_prefill_begun(emitted_[pass].request);
  schedule();
}

void PrefillSide::on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                                       JobRef job) {
  const Chunk& chunk = emitted_[pass];
  if (spec_.handoff == Handoff::per_layer) {
    hand_off(pass, stage, t, layer, layer + 1, layer, chunk.start, job);
    return;
  }
  // The stage's last attention kernels complete its KV: no MLP and no LM head adds to it.
  const std::uint32_t first = prefill_.first_layer(stage), last = first + prefill_.stage(stage).layers;
  if (layer + 1 != last) return;
  if (spec_.handoff == Handoff::per_chunk) {
    hand_off(pass, stage, t, first, last, kAllLayers, chunk.start, job);
  } else if (chunk.last) {
    hand_off(pass, stage, t, first, last, kAllLayers, 0, job);
  }
}

void PrefillSide::hand_off(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t first_layer,
                           std::uint32_t last_layer, std::uint32_t named_layer, std::uint64_t begin, JobRef after) {
  const Chunk& chunk = emitted_[pass];
  const HandoffPlan::Tokens tokens{begin, chunk.start + chunk.tokens, spec_.requests[chunk.request].prompt_tokens};
  std::vector<Transfer> transfers;
  for (const HandoffPlan::Share& share : plan_.shares(stage * prefill_.tp() + t)) {
    const Bytes bytes = plan_.bytes(share, first_layer, last_layer, tokens);
    if (bytes > 0) transfers.push_back({decode_.rank(share.decode_rank).gpu->window(), bytes});
  }
  if (transfers.empty()) return;  // a replica whose peers send for it, or nothing that a window will still hold
  Fields fields{};
  fields.pass = pass;
  fields.stage = stage;
  fields.tp = t;
  fields.per_layer = named_layer != kAllLayers;
  if (fields.per_layer) fields.layer = named_layer;
  ++progress_[emitted_[pass].request].handoffs_left;
  Rank& rank = prefill_.rank(stage, t);
  executor_.copy(rank, rank.stream(Grid::kKv), {transfers, number(TrafficClass::kv)}, JobLabel::of(*this, fields),
                 *this, {after});
}

std::uint32_t PrefillSide::request_name(const Chunk& chunk) const {
  return spec_.requests.size() > 1 ? chunk.request : Pass::kOnly;
}

std::string PrefillSide::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const Chunk& chunk = emitted_[f.pass];
  std::string name =
      fmt::format("Handoff_PP[{}]_TP[{}]_Chunk[{}]", std::uint32_t{f.stage}, std::uint32_t{f.tp}, chunk.index);
  if (f.per_layer) name += fmt::format("_Layer[{}]", std::uint32_t{f.layer});
  if (request_name(chunk) != Pass::kOnly) name += fmt::format("_Req[{}]", chunk.request);
  return name;
}

std::string PrefillSide::task(std::uint64_t arguments) const {
  return fmt::format("pass {}", std::uint32_t{JobLabel::fields_of<Fields>(arguments).pass});
}

std::string PrefillSide::work(std::uint64_t arguments) const {
  const Chunk& chunk = emitted_[JobLabel::fields_of<Fields>(arguments).pass];
  return Passes::unit(PassNames::prefill, chunk.index, request_name(chunk));
}

Recorded PrefillSide::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).per_layer ? Recorded::detail : Recorded::stage;
}

void PrefillSide::on_job_done(const Job& job) {
  const Chunk& chunk = emitted_[job.label().as<Fields>().pass];
  executor_.reached(this, chunk.request);
  --progress_[chunk.request].handoffs_left;
  check_landed(chunk.request);
}

void PrefillSide::on_pass_done(std::uint32_t pass) {
  const Chunk& chunk = emitted_[pass];
  tokens_done_ += chunk.tokens;
  if (!chunk.last) return;
  progress_[chunk.request].first_token = true;
  executor_.reached(this, chunk.request);
  client_.on_first_token(chunk.request);
  check_landed(chunk.request);
}

void PrefillSide::check_landed(std::uint32_t request) {
  const Progress& progress = progress_[request];
  if (!progress.first_token || progress.handoffs_left != 0) return;
  executor_.passed(this, request);
  client_.on_kv_landed(request);
}

}  // namespace railyard::workload::prefill
