// The workload of a scenario, by kind: requests with their arrival times and the model laid out over the ranks of each
// group; sizes and ranks of a collective test.
#pragma once

#include "sc_main/scenario/machine.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

workload::Host resolve_host(const HostSection& written);
workload::prefill::PrefillSpec resolve_prefill(const PrefillSection& written, const transformer::ModelShape& model,
                                               const platforms::MachineSpec& machine, const Source& source);
workload::collective_bench::CollectiveBenchSpec resolve_collective(const CollectiveSection& written,
                                                                   const platforms::MachineSpec& machine,
                                                                   const Source& source);
workload::p2p::PointToPointSpec resolve_p2p(const PointToPointSection& written, const platforms::MachineSpec& machine,
                                            const Source& source);
/// The product of every entry's lists, entry after entry, the last key of the table varying fastest.
workload::kernel_bench::KernelBenchSpec resolve_kernels(const KernelSection& written,
                                                        const platforms::MachineSpec& machine, const Source& source);
workload::layer::LayerSpec resolve_layer(const LayerSection& written, const ComputeSection& compute,
                                         const transformer::ModelShape& model, const platforms::MachineSpec& machine,
                                         const Source& source);
workload::overlap::OverlapSpec resolve_overlap(const OverlapSection& written, const platforms::MachineSpec& machine,
                                               const Source& source);
/// As if no GPU could reach a peer's memory.
void remove_peer_access(platforms::MachineSpec& machine);

/// Every GPU, or the first ones of each server; then the first of these, or the ones that are listed.
std::vector<std::uint32_t> resolve_ranks(const RanksSection& written, const platforms::MachineSpec& machine,
                                         const Source& source);
std::vector<Bytes> resolve_sizes(const SizesSection& written, const Source& source);
/// @throws InputError at `key` if the heads of the model cannot be split over so many ranks
void check_heads(std::uint32_t tp, const transformer::ModelShape& model, const std::string& key, const Source& source);
/// @throws InputError at workload.`key`
[[noreturn]] void refuse_workload(const Source& source, const std::string& key, const std::string& what);

}  // namespace railyard::scenario
