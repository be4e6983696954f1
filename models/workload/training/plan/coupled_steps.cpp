#include "workload/training/plan/coupled_steps.h"

#include <algorithm>
#include <utility>

#include "gpu/datasheet.h"

namespace railyard::workload::training {

using transformer::KernelRole;
using transformer::LayerStep;
using transformer::LinearUse;
using transformer::NamedKernel;
using transformer::RankGroup;
using transformer::Segment;

namespace {

Segment segment_of(const std::vector<NamedKernel>& kernels, std::size_t begin, std::size_t end) {
  Segment segment;
  for (std::size_t k = begin; k < end; ++k) segment.add(kernels[k]);
  return segment;
}

class Coupler {
 public:
  Coupler(std::uint32_t kind, bool keeps_input, const TrainingSpec& spec, transformer::LayerTimer& timer)
      : kind_(kind), keeps_input_(keeps_input), spec_(spec), timer_(timer), gpu_(timer.gpu()) {}

  std::vector<CoupledStep> couple(const std::vector<LayerStep>& steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const LayerStep& step = steps[i];
      const bool runs_beside = i > 0 && steps[i - 1].beside_next;
      if (is_tp(step) && !step.beside_next && i + 1 < steps.size() &&
          step.operation == collective::Operation::all_gather && gather(step, steps[i + 1]))
        continue;
      if (is_tp(step) && !runs_beside && step.operation == collective::Operation::reduce_scatter && scatter(step))
        continue;
      if (taken_ > 0) {
        add(step.part, segment_of(step.kernels.kernels, std::exchange(taken_, 0), step.kernels.kernels.size()));
      } else {
        out_.emplace_back(step);
      }
      if (runs_beside) beside_bulk(steps[i - 1]);
    }
    return std::move(out_);
  }

 private:
  static bool is_tp(const LayerStep& step) { return step.is_collective() && step.group == RankGroup::tp; }

  /// Couples the gather with the first product of the next step, of which kernels are then taken.
  bool gather(const LayerStep& gather, const LayerStep& next) {
    const std::vector<NamedKernel>& kernels = next.kernels.kernels;
    // Narrow products: their weights are narrowed before the gather, tokens transposed after it. A product of shards
    // needs no tokens in order.
    std::size_t first = 0;
    while (first < kernels.size() && !kernels[first].use &&
           (kernels[first].role == KernelRole::weight_cast || kernels[first].role == KernelRole::transpose ||
            kernels[first].role == KernelRole::rearrange))
      ++first;
    if (first == kernels.size()) return false;
    const auto use = kernels[first].use;
    if (!use || !method_of(*use)) return false;
    Segment before, after;
    const NamedKernel* rearrange = nullptr;
    bool transposes = false;  // which puts tokens in order, too
    for (std::size_t k = 0; k < first; ++k) {
      const bool is_transpose = kernels[k].role == KernelRole::transpose;
      transposes |= is_transpose;
      if (kernels[k].role == KernelRole::rearrange)
        rearrange = &kernels[k];
      else
        (is_transpose ? after : before).add(kernels[k]);
    }
    const bool for_wgrad = use->product == transformer::Product::dgrad || keeps_input_;
    if (rearrange != nullptr && for_wgrad && !transposes) after.add(*rearrange);
    add(next.part, before);
    add_coupled(gather, *use, kernels[first], next.part);
    add(next.part, after);
    taken_ = first + 1;
    return true;
  }

  /// Couples the reduce-scatter with the last product so far.
  bool scatter(const LayerStep& reduce) {
    if (out_.empty() || out_.back().coupled != nullptr || out_.back().layer.is_collective()) return false;
    const LayerStep last = out_.back().layer;
    std::vector<NamedKernel> kernels = last.kernels.kernels;
    if (kernels.size() > 1 && kernels.back().role == KernelRole::rearrange) kernels.pop_back();
    const auto use = kernels.back().use;
    if (!use || !method_of(*use)) return false;
    out_.pop_back();
    add(last.part, segment_of(kernels, 0, kernels.size() - 1));
    add_coupled(reduce, *use, kernels.back(), last.part);
    return true;
  }

  std::optional<linear::Method> method_of(const LinearUse& use) const { return spec_.tp_overlap.method(use); }

  void add(transformer::LayerPart part, const Segment& kernels) {
    if (!kernels.kernels.empty()) out_.emplace_back(LayerStep{part, kernels});
  }

  void add_coupled(const LayerStep& collective, const LinearUse& use, const NamedKernel& kernel,
                   transformer::LayerPart part) {
    const gpu::KernelTime& whole = kernel.time;
    linear::CoupledProduct product;
    product.coupling = collective.operation == collective::Operation::all_gather ? linear::Coupling::gather
                                                                                 : linear::Coupling::scatter;
    product.ranks = spec_.tp();
    product.direct = spec_.tp_direct;
    product.part = [&](std::uint32_t parts, std::uint32_t most_sms) {
      return parts == 1 && most_sms == 0 ? whole : timer_.product(use, kind_, spec_.rank_tokens() / parts, most_sms);
    };
    product.name = name_of(part, kernel.name);
    product.operation = collective.operation;
    product.bytes = collective.bytes;
    product.gpu = &gpu_;
    CoupledStep& step = out_.emplace_back(collective);
    step.coupled =
        std::make_shared<const linear::ProductPlan>(plan_of(product, *method_of(use), spec_.tp_overlap.options(use)));
    step.use = use;
    step.flops = whole.flops;
  }

  /// The last step runs beside a collective: a bulk collective gets its SMs, and the product leaves them free.
  void beside_bulk(const LayerStep& collective) {
    if (!is_tp(collective) || out_.size() < 2) return;
    Segment kernels;
    std::uint32_t sms = 0;
    for (const NamedKernel& kernel : out_.back().layer.kernels.kernels) {
      const auto& use = kernel.use;
      const bool shares = use && spec_.tp_overlap.word(*use) == OverlapWord::bulk;
      if (shares) sms = spec_.tp_overlap.options(*use).comm_sms;
      kernels.add(kernel, shares ? timer_.product(*use, kind_, spec_.rank_tokens(), gpu_.sm.count - sms) : kernel.time);
    }
    if (sms == 0) return;
    out_.back().layer.kernels = kernels;
    out_[out_.size() - 2].comm_sms = sms;
  }

  const std::uint32_t kind_;  ///< of the layer
  const bool keeps_input_;
  const TrainingSpec& spec_;
  transformer::LayerTimer& timer_;
  const gpu::GpuDatasheet& gpu_;
  std::vector<CoupledStep> out_;
  std::size_t taken_ = 0;  ///< kernels of the next step that are in a coupled product
};

}  // namespace

std::vector<CoupledStep> coupled_steps(const std::vector<LayerStep>& steps, std::uint32_t kind, bool keeps_input,
                                       const TrainingSpec& spec, transformer::LayerTimer& timer) {
  return Coupler(kind, keeps_input, spec, timer).couple(steps);
}

}  // namespace railyard::workload::training
