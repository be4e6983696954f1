// Why a scheduler's first waiting request waits, for a stall report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload/inference/scheduler/scheduler.h"

namespace railyard::workload::inference {

struct Holder {
  std::uint32_t request;
  std::uint64_t blocks;
  const char* state;
};

/// "2 requests wait, request 4 first, for 9 blocks: 3 of 20 are free; held by request 3: 17 (its KV has arrived)"
/// @param holders  requests here, in any order, also those without blocks
std::string blocked_text(std::size_t waiting, std::uint32_t first, std::uint64_t needed, Scheduler::Memory memory,
                         std::vector<Holder> holders);

}  // namespace railyard::workload::inference
