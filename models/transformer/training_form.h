// What a training framework chooses about the kernels and the memory of a layer. How the layer is divided among ranks
// is a LayerSplit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace railyard::transformer {

/// What of a layer is not kept for the backward pass and runs again there (Korthikanti et al., arXiv 2205.05198,
/// section 5).
enum class Recompute : std::uint8_t {
  none,
  selective,  ///< between the projections of attention: scores, softmax and values, or the fused kernel of all three
  full        ///< the whole layer, with its collectives; only its input is kept
};
constexpr std::array<const char*, 3> kRecomputeNames{"none", "selective", "full"};
constexpr const char* name_of(Recompute recompute) { return kRecomputeNames[static_cast<std::size_t>(recompute)]; }

struct TrainingForm {
  Recompute recompute = Recompute::none;
  /// Sequence parallelism: the gathered input of a column-parallel projection is kept for its wgrad product. Otherwise
  /// the rank keeps its own tokens and gathers the input again (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
  bool keep_gathered = true;
};

}  // namespace railyard::transformer
