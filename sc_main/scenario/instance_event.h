// Something that happens to an instance of a service, as the scenario's `events` say it. Names are looked up by the kind `serving`.
#pragma once

#include <string>

#include "base/input_error.h"
#include "base/units.h"

namespace railyard::scenario {

struct InstanceEvent {
  enum class What { drain, fail, join } what = What::drain;
  Time at;
  std::string instance;
  std::string weights_from;  ///< of join: "host", or the name of an instance
  std::string key;           ///< of the event in the scenario
};

}  // namespace railyard::scenario
