// The classes of traffic on the fabric, for arbitration and for reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace railyard {

enum class TrafficClass : std::uint8_t { tp, pp, kv };
constexpr std::size_t kTrafficClasses = 3;
constexpr std::array<const char*, kTrafficClasses> kTrafficClassNames{"tp", "pp", "kv"};

constexpr std::uint8_t number(TrafficClass c) { return static_cast<std::uint8_t>(c); }

}  // namespace railyard
