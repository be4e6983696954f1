// The CPUs of a server, by generation. Host software takes longer on older CPUs, and NCCL plans with other rates between
// sockets of AMD CPUs.
#pragma once

#include <array>
#include <cstdint>

namespace railyard {

enum class Cpu : std::uint8_t {
  xeon_cascade_lake,
  xeon_ice_lake,
  xeon_sapphire_rapids,
  xeon_emerald_rapids,
  epyc_rome,
  epyc_milan,
  epyc_genoa,
  epyc_turin,
  grace
};
inline constexpr std::array<const char*, 9> kCpuNames{"xeon_cascade_lake",   "xeon_ice_lake", "xeon_sapphire_rapids",
                                                      "xeon_emerald_rapids", "epyc_rome",     "epyc_milan",
                                                      "epyc_genoa",          "epyc_turin",    "grace"};

inline bool is_amd(Cpu cpu) { return cpu >= Cpu::epyc_rome && cpu <= Cpu::epyc_turin; }

}  // namespace railyard
