#include "transformer/adapters.h"

namespace railyard::transformer {

namespace {

struct AdapterShape {
  std::uint64_t down = 0, up = 0;  ///< parameters of A and of B, on a rank
};

template <class Visit>
void for_each_adapter(const ModelShape& model, const Stage& stage, const Adapters& adapters, std::uint32_t tp,
                      const Visit& visit) {
  for (const auto& [linear, kind] : linears_of(model, stage)) {
    if (!adapters.has(linear)) continue;
    const Matrix matrix = matrix_of(model, linear, tp, kind);
    visit(linear, AdapterShape{std::uint64_t(adapter_inputs(model, adapters, linear)) * adapters.rank * matrix.columns,
                               adapters.rank * matrix.rows});
  }
}

}  // namespace

std::uint32_t adapter_inputs(const ModelShape& model, const Adapters& adapters, Linear linear) {
  if (!adapters.apart) return 1;
  return linear == Linear::qkv ? 3 : linear == Linear::fc1 && model.gated_mlp ? 2 : 1;
}

std::uint64_t adapter_parameters(const ModelShape& model, const Stage& stage, const Adapters& adapters,
                                 std::uint32_t tp) {
  std::uint64_t sum = 0;
  for_each_adapter(model, stage, adapters, tp,
                   [&](Linear, const AdapterShape& shape) { sum += shape.down + shape.up; });
  return sum;
}

std::uint64_t shared_adapter_parameters(const ModelShape& model, const Stage& stage, const Adapters& adapters,
                                        std::uint32_t tp) {
  std::uint64_t sum = 0;
  if (tp == 1) return sum;
  for_each_adapter(model, stage, adapters, tp, [&](Linear linear, const AdapterShape& shape) {
    sum += is_column_parallel(linear) ? shape.down : shape.up;
  });
  return sum;
}

}  // namespace railyard::transformer
