// The jobs of a pass of two micro-batches (micro_batches.h). An exchange begins when the one before it is over, and the kernels
// before it. Kernels behind it wait for the one before, too, because the stream of kernels receives that one.
#include "workload/inference/engine/pipeline.h"

namespace railyard::workload::inference {

void Pipeline::emit_turns(std::uint32_t number, std::vector<JobRef>& last) {
  const Pass& pass = state(number).pass;
  const std::uint32_t width = grid_.width();
  std::vector<std::uint32_t> kinds;
  for (std::uint32_t l = 0; l < grid_.model().layers; ++l) kinds.push_back(grid_.model().kind(l));
  for (std::vector<JobRef>& jobs : under_way_) jobs.clear();
  std::array<std::vector<JobRef>, 2> awaited;  // what the next step of a micro-batch waits for
  std::vector<JobRef> exchanged, received;  // the latest exchange; what the next job in the stream of kernels waits for
  std::array<JobRef, 2> launched;
  std::array<bool, 2> is_back{};
  Fields f{};
  f.pass = number;
  for (const Turn& turn : turns_of(pass, kinds)) {
    const bool is_divided = pass.is_divided(turn.layer);
    const std::vector<Pass::Step>& steps =
        is_divided ? pass.halves[kinds[turn.layer]][turn.half] : pass.layers[kinds[turn.layer]];
    const Pass::Step& step = steps[turn.step];
    f.layer = turn.layer;
    f.half = turn.half;
    f.tp = 0;
    if (turn.begins_layer) launched[turn.half] = emit_host(number, kLaunch, 0, turn.layer, pass.launch, {}, turn.half);
    std::vector<JobRef> waits = received;
    received.clear();
    if (!turn.beside) {
      waits.insert(waits.end(), awaited[turn.half].begin(), awaited[turn.half].end());
      awaited[turn.half].clear();
    }
    if (step.kernels == nullptr) ++state(number).collectives_left;
    if (step.is_exchange()) {
      f.what = is_back[turn.half] ? kCombine : kDispatch;
      is_back[turn.half] = !is_back[turn.half];
      waits.insert(waits.end(), last.begin(), last.end());
      received = std::move(exchanged);
      exchanged.clear();
      Communicator& ranks = grid_.exchanges();
      executor_.collective(ranks, ranks.choose(step.operation, step.bytes), JobLabel::of(*this, f), *this, exchanged,
                           waits);
      awaited[turn.half] = under_way_[turn.half] = exchanged;
      continue;
    }
    if (step.kernels == nullptr) {
      f.what = what_of(step);
      Communicator& ranks = grid_.communicator(0, step.group);
      executor_.collective(ranks, ranks.choose(step.operation, step.bytes), JobLabel::of(*this, f), *this, last, waits);
      continue;
    }
    f.what = step.part == transformer::LayerPart::mlp ? kMlp : kAttention;
    for (std::uint32_t t = 0; t < width; ++t) {
      std::vector<JobRef> on{launched[turn.half]};
      for (std::size_t i = t; i < waits.size(); i += width) on.push_back(waits[i]);
      Rank& rank = grid_.rank(0, t);
      f.tp = t;
      last[t] = executor_.kernel(rank, rank.stream(Grid::kCompute), step.kernels, JobLabel::of(*this, f), *this, on);
      if (turn.has_all_kv) client_.on_attention_emitted(number, 0, t, turn.layer, last[t]);
    }
    launched[turn.half] = {};
  }
}

void Pipeline::join_halves(std::uint32_t number, bool is_last, std::vector<JobRef>& last) {
  Fields f{};
  f.pass = number;
  f.layer = grid_.model().layers - 1;
  f.what = kMlp;
  f.last = is_last;
  for (std::uint32_t t = 0; t < grid_.width(); ++t) {
    std::vector<JobRef> on;
    for (const std::vector<JobRef>& jobs : under_way_)
      if (!jobs.empty()) on.push_back(jobs[t]);
    Rank& rank = grid_.rank(0, t);
    f.tp = t;
    last[t] = executor_.delay(rank, rank.stream(Grid::kCompute), Time(), JobLabel::of(*this, f), *this, on);
  }
}

bool Pipeline::is_beside(const Job& job) const {
  const Fields f = fields_of(job);
  return (f.what == kDispatch || f.what == kCombine) && pass_of(f).is_divided(f.layer);
}

void Pipeline::count_exchange_wait(const Job& job, const RankState& rank) {
  times_[rank_of(job)].tp_s += since(sooner(job.begun_at(), rank.exchanged), job.reached_at()).seconds();
}

}  // namespace railyard::workload::inference
