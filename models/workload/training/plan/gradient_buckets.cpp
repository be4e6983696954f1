#include "workload/training/plan/gradient_buckets.h"

namespace railyard::workload::training {

namespace {

enum class Held : std::uint8_t { common, experts, whole };

struct Counts {
  std::uint64_t parameters = 0, matrices = 0;
};

/// Elements of the matrices of layers.
std::uint64_t matrices_of(const transformer::ModelShape& model, const transformer::Stage& part, std::uint32_t tp,
                          std::uint32_t ep, bool of_experts) {
  std::uint64_t sum = 0;
  for (const auto& [linear, kind] : linears_of(model, part))
    if (is_of_layer(linear) && (ep > 1 && is_of_experts(linear)) == of_experts)
      sum += matrix_of(model, linear, tp, kind, ep).elements();
  return sum;
}

/// @param count  what a rank reduces of a part of the model in buckets of this kind
template <class Counted>
void add_buckets(std::vector<GradientBucket>& buckets,
                 const std::vector<std::pair<std::uint32_t, transformer::Stage>>& stages,
                 std::uint64_t least_parameters, Held held, const Counted& count) {
  GradientBucket bucket;
  const auto close = [&](std::uint32_t stage) {
    if (bucket.parameters > 0) {
      bucket.stage = stage;
      bucket.experts = held == Held::experts;
      bucket.whole = held == Held::whole;
      buckets.push_back(std::move(bucket));
    }
    bucket = {};
  };
  for (const auto& [number, stage] : stages) {
    const auto add = [&, number = number](const transformer::Stage& part) {
      const Counts counted = count(part);
      bucket.parameters += counted.parameters;
      bucket.matrices += counted.matrices;
      if (least_parameters > 0 && bucket.parameters >= least_parameters) close(number);
    };
    if (stage.layers == 0) add(stage);
    for (std::uint32_t l = stage.first_layer + stage.layers; l-- > stage.first_layer;) {
      const bool is_top = l + 1 == stage.first_layer + stage.layers, is_bottom = l == stage.first_layer;
      bucket.layers.push_back(l);
      add({1, stage.first && is_bottom, stage.last && is_top, l});
    }
  }
  if (!stages.empty()) close(stages.back().first);
}

}  // namespace

std::vector<GradientBucket> gradient_buckets(const transformer::ModelShape& model,
                                             const std::vector<std::pair<std::uint32_t, transformer::Stage>>& stages,
                                             std::uint32_t tp, std::uint32_t ep, const transformer::Division& division,
                                             std::uint64_t least_parameters,
                                             const std::optional<transformer::Adapters>& adapters) {
  std::vector<GradientBucket> buckets;
  using transformer::Stage;
  if (adapters) {
    add_buckets(buckets, stages, least_parameters, Held::common,
                [&](const Stage& part) { return Counts{adapter_parameters(model, part, *adapters, tp)}; });
    return buckets;
  }
  if (division.ranks == 1) {
    add_buckets(buckets, stages, least_parameters, Held::common, [&](const Stage& part) {
      return Counts{rank_parameters(model, part, tp, ep).common, matrices_of(model, part, tp, ep, false)};
    });
    add_buckets(buckets, stages, least_parameters, Held::experts, [&](const Stage& part) {
      return Counts{rank_parameters(model, part, tp, ep).experts, matrices_of(model, part, tp, ep, true)};
    });
    return buckets;
  }
  const auto parameters = [&](const Stage& part) { return divided_parameters(model, part, tp, ep, division); };
  add_buckets(buckets, stages, least_parameters, Held::common,
              [&](const Stage& part) { return Counts{parameters(part).shards}; });
  add_buckets(buckets, stages, least_parameters, Held::experts,
              [&](const Stage& part) { return Counts{parameters(part).experts}; });
  // Few parameters: one bucket.
  add_buckets(buckets, stages, 0, Held::whole, [&](const Stage& part) { return Counts{parameters(part).whole}; });
  return buckets;
}

}  // namespace railyard::workload::training
