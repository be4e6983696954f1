// Which build this is, for --version and summary.json. Its source is written at each build (build_info.cmake).
#pragma once

namespace railyard {

extern const char* const kVersion;
extern const char* const kCommit;  ///< abbreviated; "unknown" outside a git checkout

}  // namespace railyard
