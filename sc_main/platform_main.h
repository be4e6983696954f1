// The main function of all platform executables.
#pragma once

namespace railyard {

/// @return the exit status: 0 done, 2 bad input, 3 the run could not progress, 128 + n interrupted by signal n
int platform_main(const char* platform, int argc, char** argv);

}  // namespace railyard
