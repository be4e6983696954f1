// The draft passes that follow a pass on its last stage (drafter.h).
#include "workload/inference/engine/pipeline.h"

namespace railyard::workload::inference {

void Pipeline::emit_drafts(std::uint32_t number, JobRef prepared, std::vector<JobRef>& last) {
  const Pass& pass = state(number).pass;
  const std::uint32_t stage = grid_.pp() - 1;
  Fields fields{};
  fields.pass = number;
  fields.stage = stage;
  for (std::uint32_t d = 0; d < pass.drafts.size(); ++d) {
    fields.layer = d;
    for (const Pass::Step& step : pass.drafts[d]) {
      fields.last = d + 1 == pass.drafts.size() && &step == &pass.drafts[d].back();
      if (step.kernels == nullptr) {
        fields.what = kDraftReduce;
        fields.tp = 0;
        ++state(number).collectives_left;
        Communicator& ranks = grid_.communicator(stage, step.group);
        executor_.collective(ranks, ranks.choose(step.operation, step.bytes), JobLabel::of(*this, fields), *this, last);
        continue;
      }
      JobRef launched;
      if (step.begins_layer)
        launched = emit_host(number, kDraftLaunch, stage, d, pass.draft_launch,
                             d == 0 && stage > 0 ? std::vector<JobRef>{prepared} : std::vector<JobRef>());
      fields.what = kDraft;
      for (fields.tp = 0; fields.tp < grid_.width(); ++fields.tp) {
        Rank& rank = grid_.rank(stage, fields.tp);
        last[fields.tp] = executor_.kernel(rank, rank.stream(Grid::kCompute), step.kernels, JobLabel::of(*this, fields),
                                           *this, {launched});
      }
    }
  }
}

}  // namespace railyard::workload::inference
