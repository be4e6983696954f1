// The scenario as it ran: --set applied, every path good from anywhere, written so that it can be run again.
#pragma once

#include <string>

#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

/// The document with paths that count from the current directory. A path in the file counts from the file's folder, a path of
/// --set from the current directory.
NodePtr with_paths_from_here(const NodePtr& root, const Fields& fields, const std::string& folder);

/// The same with absolute paths, under the keys `name`, `schema_version` and `platform`, as YAML. Run again, it makes the outputs
/// that `root` makes, itself included.
/// @param name  of the scenario in the outputs
std::string resolved_text(const NodePtr& root, const Fields& fields, const std::string& name,
                          const std::string& platform);

}  // namespace railyard::scenario
