// Which vectors a serving engine reduces with its own kernel inside a server, by the rules of its datasheet (engine.h). NCCL
// reduces all other vectors.
#pragma once

#include "collective/engine.h"
#include "collective/tuner.h"

namespace railyard::collective {

/// An engine's own kernel, and the largest vectors that it reduces.
struct CustomKernel {
  Bytes one_shot = 0;
  Bytes two_shot = 0;              ///< of those above one_shot; NCCL reduces larger ones
  std::optional<PullKernel> pull;  ///< none: members store to their peers

  Bytes most() const { return one_shot > two_shot ? one_shot : two_shot; }
};
/// All zero if the engine has no kernel of its own at this site.
CustomKernel custom_kernel(const Engine& engine, const Site& site);

}  // namespace railyard::collective
