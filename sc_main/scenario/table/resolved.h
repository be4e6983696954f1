// The scenario as it ran: with --set applied and absolute paths, so that it can be run again from any folder.
#pragma once

#include <string>

#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

/// The document with paths relative to the current directory. In the file, paths are relative to the file's folder; in
/// --set, to the current directory.
NodePtr with_paths_from_here(const NodePtr& root, const Fields& fields, const std::string& folder);

/// The same with absolute paths and the keys `name`, `schema_version` and `platform`, as YAML. A run of this text
/// produces the same outputs as `root`, including this text.
/// @param name  name of the scenario in the outputs
std::string resolved_text(const NodePtr& root, const Fields& fields, const std::string& name,
                          const std::string& platform);

}  // namespace railyard::scenario
