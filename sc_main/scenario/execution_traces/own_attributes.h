// Attributes of Chakra nodes that only Railyard writes and reads (--export-et), so that the import of an exported run is
// exact. Other readers skip them, and take durations in whole microseconds, sizes and groups.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/spec.h"
#include "gpu/kernels/kernel_chain.h"

namespace railyard::scenario::own {

/// Of a file; int64: the form of the lists below. A form is read by the versions of Railyard that write it.
constexpr const char* kForm = "railyard_form";
constexpr std::int64_t kCurrentForm = 2;                              ///< form 1 is not stated in its files
constexpr const char* kTogether = "railyard_members_begin_together";  ///< of a file; bool: see Executor
constexpr const char* kDuration = "railyard_fs";                      ///< int64: femtoseconds
constexpr const char* kStream = "railyard_stream";  ///< string: nodes of a stream run in the order of their ids
constexpr const char* kNormalPriority = "railyard_normal_priority";  ///< bool: its stream's claims of SMs have it
constexpr const char* kKernels = "railyard_kernels";                 ///< double list: numbers_of(chain)
constexpr const char* kCollective = "railyard_collective";           ///< int64 list: numbers_of(spec)
/// int64 list: engine, queue pair, start of the engine in fs, traffic class; then rank and bytes of each message of a
/// copy, which has no receive. A send by a copy engine has no messages in the list.
constexpr const char* kCopy = "railyard_copy";
constexpr const char* kClass = "railyard_class";  ///< int64: traffic class
constexpr const char* kSkip = "railyard_skip";    ///< bool: a node for other readers, the far end of a copy

std::vector<std::int64_t> numbers_of(const collective::CollectiveSpec& spec);
/// None: not such numbers.
std::optional<collective::CollectiveSpec> spec_of(const std::vector<std::int64_t>& numbers);
std::vector<double> numbers_of(const gpu::KernelChain& chain);
std::optional<gpu::KernelChain> chain_of(const std::vector<double>& numbers);

}  // namespace railyard::scenario::own
