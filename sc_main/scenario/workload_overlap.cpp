#include <algorithm>

#include "sc_main/scenario/table/words.h"
#include "sc_main/scenario/workload.h"

namespace railyard::scenario {

using namespace workload::overlap;

OverlapSpec resolve_overlap(const OverlapSection& written, const platforms::MachineSpec& machine,
                            const Source& source) {
  OverlapSpec spec;
  spec.operation = written.operation;
  spec.gpus = resolve_ranks(written, machine, source);
  spec.m = written.gemm.m;
  spec.n = written.gemm.n;
  spec.k = written.gemm.k;
  spec.dtype = written.gemm.dtype;
  const auto tp = spec.gpus.size();
  const bool gathers = spec.operation == Operation::all_gather_gemm,
             scatters = spec.operation == Operation::gemm_reduce_scatter;
  const auto divide = [&](const char* key, std::uint64_t number) {
    if (number % tp != 0)
      refuse_workload(source, std::string("gemm.") + key,
                      std::to_string(number) + " is not a multiple of the " + std::to_string(tp) + " ranks");
  };
  if (gathers || scatters) divide("m", spec.m);
  if (gathers) divide("n", spec.n);
  if (scatters) divide("k", spec.k);
  if (written.collective_bytes && (gathers || scatters))
    refuse_workload(source, "collective_bytes", std::string("follows from the product; only gemm_all_reduce takes it"));
  const double element = bytes_of(spec.dtype), result = std::max(element, 2.0);  // results are of 16 bits at least
  spec.collective_bytes = written.collective_bytes.value_or(
      static_cast<Bytes>(gathers ? static_cast<double>(spec.m) * static_cast<double>(spec.k) * element
                                 : static_cast<double>(spec.m) * static_cast<double>(spec.n) * result));
  std::vector<Method> all{Method::gemm, Method::collective, Method::serial};
  if (gathers || scatters) {
    all.insert(all.end(), {Method::decomposed, Method::fused});
  } else {
    all.push_back(Method::beside);
  }
  spec.methods = written.methods.empty() ? all : written.methods;
  for (std::size_t i = 0; i < spec.methods.size(); ++i)
    if (std::find(all.begin(), all.end(), spec.methods[i]) == all.end())
      refuse_workload(source, "methods." + std::to_string(i),
                      std::string(kMethodNames[static_cast<std::size_t>(spec.methods[i])]) + " is not for " +
                          kOperationNames[static_cast<std::size_t>(spec.operation)]);
  for (const std::uint32_t gpu : spec.gpus) {
    std::uint32_t group = 0, first = 0;
    while (gpu - first >= machine.groups[group].servers * machine.board.gpus)
      first += machine.groups[group++].servers * machine.board.gpus;
    const gpu::GpuDatasheet& sheet = machine.groups[group].gpu;
    if (sheet.sm.flop_per_clock[static_cast<std::size_t>(spec.dtype)] <= 0)
      refuse_workload(source, "gemm.dtype", sheet.name + " has no tensor rate for " + std::string(name_of(spec.dtype)));
    if (sheet.name != machine.groups[0].gpu.name)
      refuse_workload(source, "ranks",
                      "GPUs of one datasheet only, not " + machine.groups[0].gpu.name + " and " + sheet.name);
  }
  return spec;
}

}  // namespace railyard::scenario
