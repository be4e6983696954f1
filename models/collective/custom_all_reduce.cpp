#include "collective/custom_all_reduce.h"

#include <array>

#include "collective/nccl_graph.h"

namespace railyard::collective {

namespace {

constexpr Bytes kKib = 1 << 10, kMib = 1 << 20;
constexpr std::uint32_t kMostRanks = 8;

bool before_hopper(const Site& site) { return nccl_generation(site.gpu->architecture) < NcclGeneration::hopper; }

/// vLLM's kernel, for vectors up to `most`.
CustomKernel pulling(const Site& site, Bytes most) {
  if (site.ranks % 2 != 0 || (!site.nvlink && site.ranks > 2)) return {};
  return {site.ranks == 2 ? most : (site.ranks == 4 ? 512 : 256) * kKib - 1, most, true};
}

CustomKernel vllm(const Site& site) {
  const bool symmetric_memory = site.nvlink && !before_hopper(site);
  return pulling(site, symmetric_memory ? 8 * kMib : 8 * kMib - 1);
}

CustomKernel sglang(const Site& site) {
  constexpr Bytes kMost = 16 * kMib;
  using OneShot = std::array<Bytes, kMostRanks + 1>;  // by number of ranks
  constexpr OneShot kBlackwell{0, 0, kMost, 4 * kMib, 2 * kMib, 2 * kMib, kMib, 896 * kKib, 720 * kKib},
      kOther{0, 0, kMost, 512 * kKib, 384 * kKib, 256 * kKib, 192 * kKib, 192 * kKib, 160 * kKib};
  if (!site.nvlink || before_hopper(site)) return pulling(site, kMost - 1);
  return {(site.gpu->architecture == "blackwell" ? kBlackwell : kOther)[site.ranks], kMost};
}

CustomKernel trtllm(const Site& site) {
  if (!site.nvlink) return {};
  const bool blackwell = site.gpu->architecture == "blackwell";
  switch (site.ranks) {
    case 2: return {8 * kMib, 0};
    case 4: return {2 * kMib, 4 * kMib};
    case 8: return blackwell ? CustomKernel{2 * kMib, 4 * kMib} : CustomKernel{512 * kKib, 0};
    default: return {};
  }
}

}  // namespace

CustomKernel custom_kernel(Library library, const Site& site) {
  if (site.servers > 1 || site.ranks < 2 || site.ranks > kMostRanks) return {};
  switch (library) {
    case Library::vllm: return vllm(site);
    case Library::sglang: return sglang(site);
    case Library::trtllm: return trtllm(site);
    case Library::nccl: break;
  }
  return {};
}

}  // namespace railyard::collective
