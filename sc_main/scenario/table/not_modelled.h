// Features of frameworks that have no key because they are not modelled. A key of this name says so. docs/fidelity.md shows
// the list.
#pragma once

#include <string>

namespace railyard::scenario {

/// What a key names; nullptr: nothing on the list.
const char* not_modelled(const std::string& key);

}  // namespace railyard::scenario
