#include "sc_main/scenario/kinds/training_schedule.h"

#include <algorithm>

#include "sc_main/scenario/kinds/requests.h"
#include "sc_main/scenario/table/words.h"
#include "workload/training/schedule/text.h"

namespace railyard::scenario {

using workload::Dimension;
using workload::training::ScheduleKind;

namespace {

constexpr std::size_t kLongestSchedule = 64u << 20;

}  // namespace

std::uint32_t halves_of(const TrainingSection& written) {
  return written.written_schedule == workload::training::name_of(ScheduleKind::dualpipe) ? 2 : 1;
}

void check_dualpipe(const TrainingSection& written, const Source& source) {
  if (halves_of(written) == 1) return;
  if (written.written_pp % 2 != 0)
    refuse_workload(source, "pp",
                    std::to_string(written.written_pp) + "; schedule dualpipe needs an even number of pipeline ranks");
  if (written.written_virtual_stages != 1)
    refuse_workload(source, "virtual_stages",
                    "schedule dualpipe has 1 virtual stage for each rank, not " +
                        std::to_string(written.written_virtual_stages) + "; a rank holds two of them");
  if (written.grad_norm == workload::training::GradientNorm::post_validation)
    refuse_workload(source, "grad_norm",
                    "post_validation is not accepted with schedule dualpipe; accepted: none and before");
}

std::vector<std::uint32_t> dualpipe_placement(const TrainingSpec& spec) {
  constexpr auto kPp = static_cast<std::size_t>(Dimension::pp), kDp = static_cast<std::size_t>(Dimension::dp);
  workload::MeshSizes whole = spec.sizes;
  whole[kPp] *= 2;
  whole[kDp] /= 2;
  std::vector<std::uint32_t> placement;
  for (std::uint32_t r = 0; r < spec.ranks(); ++r) {
    workload::MeshSizes place{};
    std::uint32_t rest = r;
    for (const Dimension d : spec.order) {
      place[static_cast<std::size_t>(d)] = rest % spec.sizes[static_cast<std::size_t>(d)];
      rest /= spec.sizes[static_cast<std::size_t>(d)];
    }
    if (place[kDp] >= whole[kDp]) {
      place[kDp] -= whole[kDp];
      place[kPp] = whole[kPp] - 1 - place[kPp];
    }
    std::uint32_t number = 0, stride = 1;  // in the whole pipeline
    for (const Dimension d : spec.order) {
      number += place[static_cast<std::size_t>(d)] * stride;
      stride *= whole[static_cast<std::size_t>(d)];
    }
    placement.push_back(spec.placement[number]);
  }
  return placement;
}

void resolve_schedule(TrainingSpec& spec, const TrainingSection& written, const Source& source) {
  using namespace workload::training;
  const auto name = std::find(kScheduleNames.begin(), kScheduleNames.end(), written.written_schedule);
  const std::uint32_t halves = halves_of(written);
  spec.schedule.ranks = written.written_pp / halves;
  spec.schedule.virtual_stages = written.written_virtual_stages * halves;
  spec.schedule.micro_batches = spec.micro_batches();
  spec.schedule.group_micro_batches = written.written_group.value_or(0);
  spec.schedule.memory_limit_stages = written.memory_limit_stages;
  if (name == kScheduleNames.end()) {
    const Origin origin = place_of(source.root, "workload.schedule");
    if (!is_file_name(written.written_schedule))
      refuse_workload(source, "schedule",
                      "unknown '" + written.written_schedule + "'" +
                          suggestion(written.written_schedule, words_of(kScheduleNames)) + ", or a path with a /");
    spec.table = read_table(read_file(written.written_schedule, origin, "workload.schedule", kLongestSchedule),
                            written.written_schedule, written.written_pp, spec.micro_batches());
    if (spec.table->stages() != written.written_pp * written.written_virtual_stages)
      refuse_workload(source, "schedule",
                      written.written_schedule + " has " + std::to_string(spec.table->stages()) +
                          " virtual stages; pp x virtual_stages is " +
                          std::to_string(written.written_pp * written.written_virtual_stages));
    return;
  }
  spec.schedule.kind = static_cast<ScheduleKind>(name - kScheduleNames.begin());
  if (const auto illegal = illegal_value(spec.schedule)) {
    const std::string key = illegal->key == "kind" ? "schedule" : illegal->key;
    refuse_workload(source, key == "micro_batches" ? "global_batch" : key, illegal->text);
  }
}

bool divides_backward(const TrainingSpec& spec) {
  const auto divides = [](const std::vector<workload::training::Slot>& slots) {
    return std::any_of(slots.begin(), slots.end(), [](const workload::training::Slot& slot) {
      return slot.kind == workload::training::SlotKind::backward_inputs;
    });
  };
  return spec.table ? std::any_of(spec.table->slots.begin(), spec.table->slots.end(), divides)
                    : spec.schedule.kind > workload::training::ScheduleKind::interleaved;
}

void check_deferred_head(const TrainingSpec& spec, const Source& source) {
  if (!spec.defer_embedding_wgrad) return;
  const auto needs = [&](const char* text) { refuse_workload(source, "defer_embedding_wgrad", text); };
  if (spec.pp() == 1) needs("needs pp of 2 or more; accepted with pp: 1: false");
  if (divides_backward(spec))
    needs("the schedule already divides backward slots into B and W; accepted with it: false");
  if (spec.zero_stage > 1) needs("needs zero_stage: 0 or 1, which reduce gradients once a step");
  if (spec.gtp() > 1) needs("needs gtp: none");
}

void resolve_overlap_moe(TrainingSpec& spec, const TrainingSection& written, const transformer::ModelShape& model,
                         const Source& source) {
  using workload::training::ScheduleKind, workload::training::has_dualpipe_order;
  if (!written.overlap_moe) return;
  const auto refuse = [&](const std::string& text) { refuse_workload(source, "overlap_moe", text); };
  if (model.experts == 0) refuse(model.name + " has no experts; accepted: false");
  if (spec.expert_ranks() == 1) refuse("needs ep of 2 or more; accepted with ep: 1: false");
  if (spec.micro_batches() == 1) refuse("needs 2 or more micro-batches; set global_batch");
  if (spec.form.recompute == transformer::Recompute::full) refuse("needs recompute: none or selective");
  const ScheduleKind kind = spec.schedule.kind;
  if (spec.table ||
      (kind != ScheduleKind::one_f_one_b && kind != ScheduleKind::interleaved && !has_dualpipe_order(kind)))
    refuse("needs schedule: 1f1b, interleaved, dualpipe_v or dualpipe");
  if (spec.zero_stage == 3) refuse("needs zero_stage: 0, 1 or 2");
  if (written.pp_overlap_key == false) refuse("needs pp_overlap: true");
  spec.schedule.overlap_pairs = true;
}

void check_empty_stages(const TrainingSpec& spec, const Source& source) {
  const std::vector<std::uint32_t>& layers = spec.stage_layers;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const bool has_end = s == 0 || s + 1 == layers.size();
    if (layers[s] == 0 && !has_end)
      refuse_workload(source, "stage_layers." + std::to_string(s),
                      "0 layers are accepted in the first and the last virtual stage only");
    // Without layers, the first stage has no gradients of inputs to compute.
    if (layers[s] == 0 && s == 0 && divides_backward(spec))
      refuse_workload(source, "stage_layers.0",
                      "0 layers are not accepted with a schedule that divides backward slots into B and W");
  }
}

}  // namespace railyard::scenario
