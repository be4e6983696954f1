// All jobs and counters of links of a run, for tests that compare two runs to the last bit.
#pragma once

#include <fmt/format.h>
#include <string>

#include "tests/support/prefill_run.h"

namespace railyard::test {

inline std::string results_text(const Records& records, const transport::Fabric& fabric) {
  std::string text;
  for (const JobRow& r : records.all)
    text += fmt::format("{} {} {} {} {} {}\n", r.name(), r.rank, r.start.fs(), r.end.fs(), r.queued.fs(), r.bytes);
  for (const transport::Device* device : fabric.devices())
    for (std::uint32_t p = 0; p < device->ports(); ++p) {
      const transport::PortCounters& c = device->port(PortId(p)).counters;
      text += fmt::format("{} {} {} {} {}", c.transactions, c.payload_bytes, c.wire_bytes, c.busy.fs(),
                          c.peak_queued_bytes);
      for (const TimeSum& waited : c.waited) text += fmt::format(" {:a}", waited.seconds());
      text += "\n";
    }
  return text;
}

}  // namespace railyard::test
