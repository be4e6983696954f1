#include "workload/inference/handoff.h"

#include <fmt/format.h>
#include <algorithm>

#include "workload/inference/pipeline.h"
#include "workload/traffic.h"

namespace railyard::workload::inference {

HandoffPlan::HandoffPlan(const Instance& prefill, const Instance& decode)
    : model_(prefill.model()), shares_(prefill.ranks()) {
  head_bytes_ = stored_bytes(2ull * model_.head_dim, model_.kv_dtype);

  // heads_from[t][u]: KV heads that decode TP rank u takes from prefill TP rank t.
  std::vector<std::vector<std::uint32_t>> heads_from(prefill.tp(), std::vector<std::uint32_t>(decode.tp(), 0));
  for (std::uint32_t u = 0; u < decode.tp(); ++u) {
    for (std::uint32_t head = decode.kv().heads(u).first; head < decode.kv().heads(u).last; ++head) {
      std::vector<std::uint32_t> holders;
      for (std::uint32_t t = 0; t < prefill.tp(); ++t)
        if (prefill.kv().heads(t).first <= head && head < prefill.kv().heads(t).last) holders.push_back(t);
      ++heads_from[holders[u % holders.size()]][u];
    }
  }
  for (std::uint32_t p = 0; p < prefill.pp(); ++p) {
    const std::uint32_t first = prefill.first_layer(p), last = first + prefill.stage(p).layers;
    for (std::uint32_t q = 0; q < decode.pp(); ++q) {
      const std::uint32_t from = std::max(first, decode.first_layer(q));
      const std::uint32_t to = std::min(last, decode.first_layer(q) + decode.stage(q).layers);
      if (from >= to) continue;
      for (std::uint32_t t = 0; t < prefill.tp(); ++t)
        for (std::uint32_t u = 0; u < decode.tp(); ++u)
          if (heads_from[t][u] != 0)
            shares_[p * prefill.tp() + t].push_back({q * decode.tp() + u, heads_from[t][u], from, to});
    }
  }
}

Bytes HandoffPlan::bytes(const Share& share, std::uint32_t first, std::uint32_t last, const Tokens& tokens) const {
  const auto seen = [&](std::uint32_t layer) {
    const std::uint64_t begin =
        std::max(tokens.begin, tokens.prompt - kept_tokens(model_.layer(layer), tokens.prompt, 0));
    return begin < tokens.end ? tokens.end - begin : 0;
  };
  first = std::max(first, share.first_layer), last = std::min(last, share.last_layer);
  if (first >= last) return 0;
  std::uint64_t sum = 0;
  if (model_.kind_of.empty())
    sum = (last - first) * seen(first);
  else
    for (std::uint32_t l = first; l < last; ++l) sum += seen(l);
  return sum * share.heads * head_bytes_;
}

Handoff::Handoff(Instance& prefill, Instance& decode, const PrefillSpec& spec, const std::vector<Batch::Chunk>& chunks,
                 Executor& executor, HandoffClient& client)
    : prefill_(prefill),
      decode_(decode),
      spec_(spec),
      chunks_(chunks),
      executor_(executor),
      client_(client),
      plan_(prefill, decode),
      left_(spec.requests.size()) {}

void Handoff::on_attention_emitted(std::uint32_t pass, std::uint32_t stage, std::uint32_t t, std::uint32_t layer,
                                   JobRef job) {
  const Batch::Chunk& chunk = chunks_[pass];
  Fields fields{};
  fields.pass = pass;
  fields.stage = stage;
  fields.tp = t;
  if (spec_.handoff == HandoffGrain::per_layer) {
    fields.per_layer = 1;
    fields.layer = layer;
    emit(fields, layer, layer + 1, chunk.start, job);
    return;
  }
  // The stage's last attention kernels complete its KV. MLPs and the LM head do not change KV.
  const std::uint32_t first = prefill_.first_layer(stage), last = first + prefill_.stage(stage).layers;
  if (layer + 1 != last) return;
  if (spec_.handoff == HandoffGrain::per_chunk) {
    emit(fields, first, last, chunk.start, job);
  } else if (chunk.last) {
    emit(fields, first, last, 0, job);
  }
}

void Handoff::emit(Fields fields, std::uint32_t first_layer, std::uint32_t last_layer, std::uint64_t begin,
                   JobRef after) {
  const Batch::Chunk& chunk = chunks_[fields.pass];
  const HandoffPlan::Tokens tokens{begin, chunk.start + chunk.tokens, spec_.requests[chunk.request].prompt_tokens};
  std::vector<Transfer> transfers;
  for (const HandoffPlan::Share& share : plan_.shares(fields.stage * prefill_.tp() + fields.tp)) {
    const Bytes bytes = plan_.bytes(share, first_layer, last_layer, tokens);
    if (bytes > 0) transfers.push_back({*decode_.rank(share.decode_rank).memory, bytes});
  }
  if (transfers.empty()) return;  // a replica without decode ranks, or tokens that no window will contain
  ++left_[chunk.request];
  Rank& rank = prefill_.rank(fields.stage, fields.tp);
  executor_.copy(rank, rank.stream(Instance::kKv), {transfers, number(TrafficClass::kv)}, JobLabel::of(*this, fields),
                 *this, {after});
}

std::string Handoff::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const Batch::Chunk& chunk = chunks_[f.pass];
  std::string name =
      fmt::format("Handoff_PP[{}]_TP[{}]_Chunk[{}]", std::uint32_t{f.stage}, std::uint32_t{f.tp}, chunk.index);
  if (f.per_layer) name += fmt::format("_Layer[{}]", std::uint32_t{f.layer});
  if (names_requests()) name += fmt::format("_Req[{}]", chunk.request);
  return name;
}

std::string Handoff::task(std::uint64_t arguments) const {
  return fmt::format("pass {}", std::uint32_t{JobLabel::fields_of<Fields>(arguments).pass});
}

std::string Handoff::work(std::uint64_t arguments) const {
  const Batch::Chunk& chunk = chunks_[JobLabel::fields_of<Fields>(arguments).pass];
  return Pipeline::unit(PassNames::prefill, chunk.index, names_requests() ? chunk.request : Pass::kOnly);
}

Recorded Handoff::recorded(std::uint64_t arguments) const {
  return JobLabel::fields_of<Fields>(arguments).per_layer ? Recorded::detail : Recorded::stage;
}

void Handoff::on_job_done(const Job& job) {
  const std::uint32_t request = chunks_[job.label().as<Fields>().pass].request;
  --left_[request];
  client_.on_handed_off(request);
}

}  // namespace railyard::workload::inference
