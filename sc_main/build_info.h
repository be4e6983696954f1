// The build version, for --version and summary.json. The source is generated at each build (build_info.cmake).
#pragma once

namespace railyard {

extern const char* const kVersion;
extern const char* const kCommit;  ///< abbreviated; "unknown" outside a git checkout

}  // namespace railyard
