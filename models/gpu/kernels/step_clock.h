// Clock of a GPU in a whole training step.
//
// A step keeps all units of a GPU busy for seconds: tensor cores, memory, links. The GPU is at its power limit all the
// time, and lowers the clock of its SMs until the power fits. Tables of single kernels do not show this clock, because a
// kernel that runs alone has the power of all other units for itself. sm.step_clock_ratio is this clock at power_w.
//
// Another power limit changes the clock by the cube root of the power: dynamic power is C f V^2, and V rises in
// proportion to f (Mei, Wang and Chu, "A survey and measurement study of GPU DVFS on energy conservation",
// arXiv 1610.01784, section 2).
#pragma once

#include "gpu/datasheet.h"

namespace railyard::gpu {

/// The GPU as it runs in a whole training step: a lower clock, and with it the rates of tensor cores, L2 and operand
/// feed. Matrix products get the lower of two rates: at this clock without a power limit of their own, and
/// sustained_efficiency_ratio, to which a product alone throttles. Memory keeps its rate.
GpuDatasheet at_step_clock(GpuDatasheet gpu);

}  // namespace railyard::gpu
