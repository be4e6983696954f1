// The room `workload` emits the jobs of workloads. Its rooms: `inference` serves requests, `training` runs optimizer
// steps, `execution_trace` plays traces, `bench` has short drivers; `parallel`, `program` and `linear` are what these
// share. The files here are for all of them: classes of traffic, Host times, and listeners to engines, phases and
// requests. A workload names no board and no link; kinds in sc_main own it.
//
// The classes of traffic on the fabric, for arbitration and for reports.
//
// RAILYARD_TRAFFIC_CLASSES is the only list of classes. A new class needs one line there, and a kind of workload that
// uses it (WorkloadRun::classes()). Keys of scenarios, help, schema and names in outputs follow from the list.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/link/traffic_class.h"

namespace railyard {

// One line for each class: name, virtual channel, weight, priority, text. These settings are the defaults of
// fabric.classes. NCCL uses one InfiniBand service level for all communicators unless a user sets another one, so all
// classes of collectives share virtual channel 0. The KV cache is sent by another library and has virtual channel 1.
#define RAILYARD_TRAFFIC_CLASSES(LINE)                                                           \
  LINE(tp, 0, 1, 0, "tensor-parallel collectives")                                               \
  LINE(pp, 0, 1, 0, "activations between pipeline stages")                                       \
  LINE(kv, 1, 1, 0, "KV cache handoff")                                                          \
  LINE(dp, 0, 1, 0, "data-parallel collectives of gradients; shares the virtual channel of tp")  \
  LINE(ep, 0, 1, 0, "all-to-all of experts; shares the virtual channel of tp")                   \
  LINE(cp, 0, 1, 0, "exchange between context-parallel ranks; shares the virtual channel of tp") \
  LINE(weights, 0, 1, 0, "gathers of weights layer by layer; shares the virtual channel of tp")  \
  LINE(offload, 0, 1, 0, "between GPUs and host memory; shares the virtual channel of tp")       \
  LINE(other, 0, 1, 0, "of modules of the user; shares the virtual channel of tp")

enum class TrafficClass : std::uint8_t {
#define RAILYARD_LINE(name, vc, weight, priority, text) name,
  RAILYARD_TRAFFIC_CLASSES(RAILYARD_LINE)
#undef RAILYARD_LINE
};

struct TrafficClassFacts {
  TrafficClass traffic_class;
  const char* name;
  const char* text;
  transport::ClassSpec defaults;
};

/// By number of the class.
constexpr std::array kTrafficClasses{
#define RAILYARD_LINE(name, vc, weight, priority, text) \
  TrafficClassFacts{TrafficClass::name, #name, text, {vc, weight, priority}},
    RAILYARD_TRAFFIC_CLASSES(RAILYARD_LINE)
#undef RAILYARD_LINE
};
#undef RAILYARD_TRAFFIC_CLASSES

static_assert(kTrafficClasses.size() <= transport::kMaxClasses);

constexpr std::uint8_t number(TrafficClass c) { return static_cast<std::uint8_t>(c); }
constexpr const char* name(TrafficClass c) { return kTrafficClasses[number(c)].name; }

}  // namespace railyard
