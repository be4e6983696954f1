#include "collective/custom_all_reduce.h"

#include <array>

namespace railyard::collective {

namespace {

constexpr Bytes kKib = 1 << 10, kMib = 1 << 20;
constexpr std::uint32_t kMostRanks = 8;

CustomSizes vllm(const Site& site) {
  constexpr Bytes kMost = 8 * kMib;
  if (site.ranks % 2 != 0 || (!site.nvlink && site.ranks > 2)) return {};
  return {site.ranks == 2 ? kMost : (site.ranks == 4 ? 512 : 256) * kKib - 1, kMost};
}

CustomSizes sglang(const Site& site) {
  constexpr Bytes kMost = 16 * kMib;
  using OneShot = std::array<Bytes, kMostRanks + 1>;  // by number of ranks
  constexpr OneShot kBlackwell{0, 0, kMost, 4 * kMib, 2 * kMib, 2 * kMib, kMib, 896 * kKib, 720 * kKib},
      kOther{0, 0, kMost, 512 * kKib, 384 * kKib, 256 * kKib, 192 * kKib, 192 * kKib, 160 * kKib};
  if (!site.nvlink) return vllm(site);
  return {(site.gpu->architecture == "blackwell" ? kBlackwell : kOther)[site.ranks], kMost};
}

CustomSizes trtllm(const Site& site) {
  if (!site.nvlink) return {};
  const bool blackwell = site.gpu->architecture == "blackwell";
  switch (site.ranks) {
    case 2: return {8 * kMib, 0};
    case 4: return {2 * kMib, 4 * kMib};
    case 8: return blackwell ? CustomSizes{2 * kMib, 4 * kMib} : CustomSizes{512 * kKib, 0};
    default: return {};
  }
}

}  // namespace

CustomSizes custom_sizes(Library library, const Site& site) {
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
