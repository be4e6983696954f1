#include "workload/training/run/training_jobs.h"

#include <fmt/format.h>
#include <algorithm>

#include "workload/training/schedule/slots.h"

namespace railyard::workload::training {

namespace {

constexpr std::array<const char*, 4> kSlotLetters{"F", "B", "B", "W"};

constexpr std::array<const char*, transformer::kRankGroups> kGroupLetters{"TP", "EP", "CP"};

}  // namespace

TrafficClass TrainingJobs::class_of(transformer::RankGroup group) {
  switch (group) {
    case transformer::RankGroup::tp: return TrafficClass::tp;
    case transformer::RankGroup::ep: return TrafficClass::ep;
    case transformer::RankGroup::cp: return TrafficClass::cp;
  }
  return TrafficClass::tp;
}

std::string TrainingJobs::suffix(const Fields& f) const {
  std::string text;
  for (const auto& [dimension, letters] :
       {std::pair{Dimension::gtp, "GTP"}, {Dimension::cp, "CP"}, {Dimension::ep, "EP"}, {Dimension::dp, "DP"}})
    if (mesh_.size(dimension) > 1) text += fmt::format("_{}[{}]", letters, coordinate(f.rank, dimension));
  if (spec_.steps > 1) text += fmt::format("_Step[{}]", static_cast<std::uint32_t>(f.step));
  return text;
}

std::string TrainingJobs::unit(std::uint32_t stage, std::uint32_t micro_batch) const {
  std::string text = fmt::format("MB[{}]", micro_batch);
  const std::vector<std::uint32_t>& rank_of = schedule_.rank_of;
  if (spec_.virtual_stages() > 1)
    text += fmt::format("_V[{}]", std::count(rank_of.begin(), rank_of.begin() + stage, rank_of[stage]));
  return text;
}

std::string TrainingJobs::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const std::uint32_t p = coordinate(f.rank, Dimension::pp), t = coordinate(f.rank, Dimension::tp);
  const std::string end = suffix(f);
  const auto place_of = [&](const SlotStep& step) {
    if (step.layer == SlotStep::kEnds) return std::string("Ends");
    if (step.coupled != nullptr)
      return fmt::format("Layer[{}]_{}", step.layer,
                         transformer::kLinearNames[static_cast<std::size_t>(step.use->linear)]);
    return fmt::format("Layer[{}]_{}", step.layer, step.part == transformer::LayerPart::mlp ? "Mlp" : "Attn");
  };
  const auto letter = [&] { return kSlotLetters[static_cast<std::size_t>(slot_of(f).kind)]; };
  const auto bucket = [&](const char* what) {
    return fmt::format("DP_{}_PP[{}]_TP[{}]_Bucket[{}]{}", what, p, t, static_cast<std::uint32_t>(f.detail), end);
  };
  switch (f.what) {
    case kSlot:
      return fmt::format("{}_PP[{}]_TP[{}]_{}{}", letter(), p, t, unit(slot_of(f).stage, slot_of(f).micro_batch), end);
    case kKernels:
      return fmt::format("{}_PP[{}]_TP[{}]_{}_{}{}", letter(), p, t, unit(slot_of(f).stage, slot_of(f).micro_batch),
                         place_of(step_of(f)), end);
    case kCollective:
    case kShard:
    case kBeside:
      return fmt::format("{}_{}_PP[{}]_{}_{}_{}{}", kGroupLetters[static_cast<std::size_t>(step_of(f).group)],
                         collective::initials(step_of(f).operation), p, unit(slot_of(f).stage, slot_of(f).micro_batch),
                         letter(), place_of(step_of(f)), end);
    case kSend:
    case kReceive: {
      const Slot& slot = slot_of(f);
      const std::uint32_t from = f.what == kSend ? slot.stage : source_of(slot, schedule_);
      const std::uint32_t to = f.what == kSend ? destination_of(slot, schedule_) : slot.stage;
      return fmt::format("PP_{}_FromP[{}]_ToP[{}]_TP[{}]_{}{}", slot.kind == SlotKind::forward ? "Act" : "Grad",
                         schedule_.rank_of[from], schedule_.rank_of[to], t, unit(from, slot.micro_batch), end);
    }
    case kGradients: return bucket(spec_.zero_stage == 0 ? "AR" : "RS");
    case kShardGradients: return bucket("AR");
    case kGather: return bucket("AG");
    case kExpertGather:
    case kLayerGather: {
      const std::string layer =
          f.detail == kEndsDetail ? "Ends" : fmt::format("Layer[{}]", static_cast<std::uint32_t>(f.detail));
      return fmt::format("Weights_AG_PP[{}]_TP[{}]_{}_{}_{}{}{}", p, t, unit(slot_of(f).stage, slot_of(f).micro_batch),
                         letter(), layer, f.what == kExpertGather ? "_Experts" : "", end);
    }
    case kNarrowShard:
    case kShardMaximum:
    case kMatrixGather:
    case kMatrixScatter:
    case kInputGather:
    case kAddGradient: {
      const SlotStep& step = step_of(f);
      const char* const linear = transformer::kLinearNames[static_cast<std::size_t>(step.use->linear)];
      const std::string matrix =
          fmt::format("{}{}{}", step.layer == SlotStep::kEnds ? "" : fmt::format("Layer[{}]_", step.layer), linear,
                      f.what == kInputGather ? "Input" : "");
      const char* const what = f.what == kNarrowShard                              ? "Cast"
                               : f.what == kShardMaximum                           ? "AR"
                               : f.what == kMatrixGather || f.what == kInputGather ? "AG"
                               : f.what == kMatrixScatter
                                   ? collective::initials(scatter_operation(spec_.gtp_shards.reduce))
                                   : "Add";
      const bool again = slot_of(f).kind != SlotKind::forward && step.use->product == transformer::Product::fprop;
      return fmt::format("GTP_{}_{}_{}_PP[{}]_TP[{}]_{}{}", what, matrix, again ? "R" : letter(), p, t,
                         unit(slot_of(f).stage, slot_of(f).micro_batch), end);
    }
    case kHost:
    case kHostWait: return fmt::format("Host_PP[{}]_TP[{}]{}", p, t, end);
    case kActivations:
      return fmt::format("{}_PP[{}]_TP[{}]_{}_Layer[{}]{}", f.first ? "Load" : "Store", p, t,
                         unit(slot_of(f).stage, slot_of(f).micro_batch), static_cast<std::uint32_t>(f.detail), end);
    case kStateCopy:
    case kHostUpdate:
      return fmt::format("{}_PP[{}]_TP[{}]_Bucket[{}]{}",
                         f.what == kHostUpdate ? "HostAdam"
                         : f.first             ? "WeightLoad"
                                               : "GradStore",
                         p, t, static_cast<std::uint32_t>(f.detail), end);
    case kSharedGradients: return fmt::format("TP_AR_PP[{}]_Norms{}", p, end);
    case kTiedGradients: return fmt::format("PP_AR_TP[{}]_Embedding{}", t, end);
    case kNormPass: {
      const auto from = static_cast<std::uint32_t>(p - f.detail);
      return fmt::format("GradNorm_FromP[{}]_ToP[{}]_TP[{}]{}", from, from + 1, t, end);
    }
    case kMaxima: return fmt::format("GTP_AR_Maxima_PP[{}]_TP[{}]{}", p, t, end);
    case kNarrowShards: return fmt::format("GTP_Cast_PP[{}]_TP[{}]{}", p, t, end);
    case kNorm: return fmt::format("GradNorm_PP[{}]_TP[{}]{}", p, t, end);
    case kNormReduce:
      return f.detail == 0 ? fmt::format("GradNorm_AR_PP[{}]{}", p, end) : fmt::format("GradNorm_AR_TP[{}]{}", t, end);
    default: return fmt::format("Adam_PP[{}]_TP[{}]{}", p, t, end);
  }
}

bool TrainingJobs::is_of_layer(const Fields& f) {
  return f.what == kKernels || f.what == kCollective || f.what == kBeside || f.what == kShard;
}

std::string TrainingJobs::task(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  if (!is_of_layer(f)) return name(arguments);
  const SlotStep& step = step_of(f);
  std::string text = f.what == kKernels ? "" : std::string(collective::initials(step.operation)) + " ";
  if (step.layer == SlotStep::kEnds) return text + "ends";
  return text + fmt::format("{} L{}", step.part == transformer::LayerPart::mlp ? "mlp" : "attention", step.layer);
}

std::string TrainingJobs::work(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  if (!is_of_layer(f)) return {};
  return fmt::format("{}_{}", kSlotLetters[static_cast<std::size_t>(slot_of(f).kind)],
                     unit(slot_of(f).stage, slot_of(f).micro_batch));
}

const char* TrainingJobs::kind(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  switch (f.what) {
    case kCollective:
    case kShard:
    case kBeside: return railyard::name(class_of(step_of(f).group));
    case kSend:
    case kReceive:
    case kTiedGradients:
    case kNormPass: return "pp";
    case kSharedGradients: return "tp";
    case kGradients:
    case kShardGradients:
    case kGather:
    case kMaxima: return "dp";
    case kLayerGather:
    case kExpertGather:
    case kShardMaximum:
    case kMatrixGather:
    case kMatrixScatter:
    case kInputGather: return "weights";
    case kHost:
    case kHostUpdate:
    case kHostWait: return "host";
    case kActivations:
    case kStateCopy: return railyard::name(TrafficClass::offload);
    case kNormReduce: return f.detail == 0 ? "tp" : "dp";
    default: return "compute";
  }
}

std::uint64_t TrainingJobs::of_member(std::uint64_t arguments, std::uint32_t member) const {
  auto f = JobLabel::fields_of<Fields>(arguments);
  if (f.what != kKernels) return arguments;
  f.rank = mesh_.moved(static_cast<std::uint32_t>(f.rank), Dimension::tp, member);
  return JobLabel::of(*this, f).arguments;
}

Recorded TrainingJobs::recorded(std::uint64_t arguments) const {
  switch (JobLabel::fields_of<Fields>(arguments).what) {
    case kHost:
    case kHostWait:
    case kAddGradient:
    case kNarrowShard:
    case kMainLoop:
    case kKernels: return Recorded::never;
    case kCollective:
    case kLayerGather:
    case kExpertGather:
    case kShardMaximum:
    case kMatrixGather:
    case kMatrixScatter:
    case kInputGather:
    case kActivations:
    case kShard:
    case kBeside: return Recorded::detail;
    default: return Recorded::stage;
  }
}

}  // namespace railyard::workload::training
