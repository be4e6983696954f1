// Names of passes and their jobs in outputs.
#include "workload/inference/engine/pipeline.h"

#include <fmt/format.h>

namespace railyard::workload::inference {

std::string Pipeline::unit(PassNames names, std::uint32_t index, std::uint32_t request) {
  static constexpr const char* kUnits[] = {"Chunk[{}]", "Step_[{}]", "It[{}]"};
  std::string unit = fmt::format(fmt::runtime(kUnits[static_cast<std::size_t>(names)]), index);
  if (request != Pass::kOnly) unit += fmt::format("_Req[{}]", request);
  return unit;
}

std::string Pipeline::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const Pass& pass = pass_of(f);
  const bool decodes = names_ == PassNames::decode;
  const char* const of = decodes ? "D_" : "";
  static constexpr const char* kHosts[] = {"Host_P", "Host_D", "Host"};
  const char* const host = kHosts[static_cast<std::size_t>(names_)];
  const std::string unit = Pipeline::unit(names_, pass.index, Pass::kOnly);
  const auto stage = std::uint32_t{f.stage}, tp = std::uint32_t{f.tp}, layer = std::uint32_t{f.layer};
  std::string name;
  switch (f.what) {
    case kAttentionReduce:
    case kMlpReduce:
      name =
          fmt::format("{}TP_AR_PP[{}]_Layer[{}]_{}_{}", of, stage, layer, unit, f.what == kMlpReduce ? "Mlp" : "Attn");
      break;
    case kScatterTokens: name = fmt::format("{}TP_RS_PP[{}]_Layer[{}]_{}_Attn", of, stage, layer, unit); break;
    case kGatherTokens: name = fmt::format("{}TP_AG_PP[{}]_Layer[{}]_{}_Mlp", of, stage, layer, unit); break;
    case kDispatch:
    case kCombine:
      name = fmt::format("{}EP_{}_PP[{}]_Layer[{}]_{}", of, f.what == kDispatch ? "Dispatch" : "Combine", stage, layer,
                         unit);
      break;
    case kGather: name = fmt::format("{}TP_AG_PP[{}]_{}", of, stage, unit); break;
    case kActivation: name = fmt::format("{}PP_Act_FromP[{}]_ToP[{}]_TP[{}]_{}", of, stage, stage + 1, tp, unit); break;
    case kPrepare: name = fmt::format("{}_{}", host, unit); break;
    case kLaunch: name = fmt::format("{}_Launch_PP[{}]_Layer[{}]_{}", host, stage, layer, unit); break;
    case kDraftReduce: name = fmt::format("{}TP_AR_PP[{}]_Draft[{}]_{}", of, stage, layer, unit); break;
    case kDraftLaunch: name = fmt::format("{}_Launch_PP[{}]_Draft[{}]_{}", host, stage, layer, unit); break;
    default:
      if (names_ == PassNames::iteration)
        name = fmt::format("{}_PP[{}]_TP[{}]", unit, stage, tp);
      else
        name = decodes ? fmt::format("D_Rank_[{}]_{}", stage * grid_.width() + tp, unit)
                       : fmt::format("P_Rank_PP[{}]_TP[{}]_{}", stage, tp, unit);
      break;
  }
  const bool of_half = f.what == kDispatch || f.what == kCombine || f.what == kAttentionReduce ||
                       f.what == kMlpReduce || f.what == kScatterTokens || f.what == kGatherTokens || f.what == kLaunch;
  if (of_half && pass.is_divided(layer)) name += fmt::format("_Half[{}]", std::uint32_t{f.half});
  if (pass.request != Pass::kOnly) name += fmt::format("_Req[{}]", pass.request);
  return name + suffix_;
}

std::string Pipeline::task(std::uint64_t arguments) const {
  static constexpr const char* kTasks[] = {"embedding",    "attention",  "mlp",     "head",    "AR attn", "AR mlp",
                                           "AG",           "activation", "prepare", "launch",  "draft",   "AR draft",
                                           "launch draft", "dispatch",   "combine", "RS attn", "AG mlp"};
  const auto f = JobLabel::fields_of<Fields>(arguments);
  switch (f.what) {
    case kActivation: return fmt::format("pass {}", std::uint32_t{f.pass});
    case kEmbedding:
    case kHead:
    case kGather:
    case kPrepare: return kTasks[f.what];
    case kDraft:
    case kDraftReduce:
    case kDraftLaunch: return fmt::format("{} {}", kTasks[f.what], std::uint32_t{f.layer});
    default: return fmt::format("{} L{}", kTasks[f.what], std::uint32_t{f.layer});
  }
}

std::string Pipeline::work(std::uint64_t arguments) const {
  const Pass& pass = pass_of(JobLabel::fields_of<Fields>(arguments));
  return unit(names_, pass.index, pass.request);
}

const char* Pipeline::kind(std::uint64_t arguments) const {
  switch (JobLabel::fields_of<Fields>(arguments).what) {
    case kAttentionReduce:
    case kMlpReduce:
    case kDraftReduce:
    case kScatterTokens:
    case kGatherTokens:
    case kGather: return "tp";
    case kDispatch:
    case kCombine: return "ep";
    case kActivation: return "pp";
    case kPrepare:
    case kDraftLaunch:
    case kLaunch: return "host";
    default: return "compute";
  }
}

Recorded Pipeline::recorded(std::uint64_t arguments) const {
  switch (JobLabel::fields_of<Fields>(arguments).what) {
    case kAttentionReduce:
    case kMlpReduce:
    case kDraftReduce:
    case kDraftLaunch:
    case kDispatch:
    case kCombine:
    case kScatterTokens:
    case kGatherTokens:
    case kLaunch: return Recorded::detail;
    case kGather:
    case kActivation:
    case kPrepare:
    case kRank: return Recorded::stage;
    default: return Recorded::never;
  }
}

std::uint64_t Pipeline::of_member(std::uint64_t arguments, std::uint32_t member) const {
  auto f = JobLabel::fields_of<Fields>(arguments);
  if (f.what == kAttention || f.what == kMlp) f.tp = member;
  return JobLabel::of(*this, f).arguments;
}

}  // namespace railyard::workload::inference
