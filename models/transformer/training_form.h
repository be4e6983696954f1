// What a training framework chooses about the kernels and the memory of a layer. How the layer is divided among ranks
// is a LayerSplit.
#pragma once

namespace railyard::transformer {

struct TrainingForm {
  /// Sequence parallelism: the gathered input of a column-parallel projection is kept for its wgrad product. Otherwise
  /// the rank keeps its own tokens and gathers the input again (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
  bool keep_gathered = true;
};

}  // namespace railyard::transformer
