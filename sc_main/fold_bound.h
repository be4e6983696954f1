// How far times of a folded run may be from those of the whole machine (fold.h).
#pragma once

#include <string>

namespace railyard {

/// Seen on random machines against the whole ones, rounded up (scripts/fuzz folding); docs/training.md has what is typical.
struct FoldBound {
  std::string reason;                          ///< "": the times are those of the whole machine
  double shorter_ratio = 0, longer_ratio = 0;  ///< of the time in the whole machine
};

}  // namespace railyard
