// Kernels of a layer by name, and segments of them that follow each other on a rank.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_chain.h"
#include "transformer/linears.h"

namespace railyard::transformer {

/// What the rest of the code must know of a kernel; its name is text for outputs.
struct KernelId {
  const char* name;
  KernelRole role = KernelRole::other;
  std::optional<LinearUse> use = std::nullopt;  ///< the matrix that it multiplies by, or whose gradient it computes

  KernelId(const char* name, KernelRole role = KernelRole::other) : name(name), role(role) {}
  KernelId(const LinearUse& use) : name(kernel_name(use)), use(use) {}
  KernelId(Linear linear, Product product = Product::fprop) : KernelId(LinearUse{linear, product}) {}
};

struct NamedKernel : KernelId {
  gpu::KernelTime time;
  std::uint32_t launches = 1;  ///< calls of a framework that launches eagerly
  std::uint32_t of_call = 1;   ///< launches of each call
  NamedKernel(const KernelId& id, const gpu::KernelTime& time, std::uint32_t launches = 1)
      : KernelId(id), time(time), launches(launches) {}
};

/// A part of a layer, or what comes before the first layer and after the last one.
enum class LayerPart : std::uint8_t { attention, mlp, embedding, head };
constexpr std::array<const char*, 4> kLayerPartNames{"attention", "mlp", "embedding", "head"};
/// The name of a kernel in all outputs: "mlp.down_wgrad".
std::string name_of(LayerPart part, const char* kernel);

/// Kernels that follow each other in one stream without waiting for another rank.
struct Segment {
  std::vector<NamedKernel> kernels;
  double seconds = 0;
  double flops = 0;  ///< FLOPs of this rank
  double bytes = 0;  ///< HBM traffic of this rank

  void add(const NamedKernel& kernel);
  void add(const KernelId& id, const gpu::KernelTime& time) { add(NamedKernel(id, time)); }
  /// The kernels as a chain for an SM array; null if there are none.
  /// @param part  their names begin with it: "mlp.down"
  gpu::SharedChain chain(LayerPart part) const;
  void append(const Segment& next);
  std::uint32_t launches() const;
  std::uint32_t calls() const;
};

}  // namespace railyard::transformer
