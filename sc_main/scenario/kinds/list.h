// The kinds of workload, in the order of --help, schema and reference page. This list is the only one: the loader calls
// NAME_kind() (kind.h) of each name, and the command line calls NAME_run() (sc_main/kinds/workload_run.h). A preset is a kind for
// its users; it has keys of its own and no run, because the loader makes the spec of another kind of them.
#pragma once

// clang-format off
#define RAILYARD_KINDS(LINE, PRESET) \
  PRESET(disaggregated_prefill) \
  LINE(serving) \
  LINE(training) \
  LINE(collective) \
  LINE(point_to_point) \
  LINE(kernel) \
  LINE(layer) \
  LINE(overlap) \
  LINE(trace)
// clang-format on
