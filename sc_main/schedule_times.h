// --schedule-times: how long the slots of a pipeline schedule take, for times of the stages that somebody else has. The
// planner asks with estimates that include collectives.
#pragma once

#include <iosfwd>
#include <string>

namespace railyard {

/// Answers each line of `questions` with one line of JSON on stdout, as soon as it is known:
///
///     {"schedule": "zbv", "pp": 2, "virtual_stages": 2, "micro_batches": 8, "stages": [[F, I, W, NEXT, PREVIOUS], ..]}
///     {"time_s": 0.42}
///
/// F, I and W are seconds of a forward slot, and of gradients of inputs and of weights; NEXT and PREVIOUS are seconds of
/// transfers to the stages beside, which run beside slots. `stages` are all virtual stages in the order of the model. The
/// time is from the first start on any rank to the last end. A wrong question has the answer {"error": MESSAGE}.
/// @param name  of the file, in messages
void schedule_times(std::istream& questions, const std::string& name);

}  // namespace railyard
