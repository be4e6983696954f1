// --explain-each: --explain --json for many settings of one scenario. SystemC elaborates one machine in a process, and a
// question takes less time than the start of an executable, so one process forks a child for each question.
#pragma once

#include <iosfwd>

#include "sc_main/command_line.h"

namespace railyard {

/// Answers each line of `questions` with one line of JSON on stdout, as soon as it is known: the numbers of --explain, or
/// {"error": MESSAGE} where the executable would refuse the scenario. A line is settings KEY=VALUE of --set, separated by
/// tabs; they are applied after those of `options`.
void explain_each(const Options& options, const std::string& platform, std::istream& questions);

}  // namespace railyard
