#include "sc_main/scenario/table/lists.h"

#include <nlohmann/json.hpp>

namespace railyard::scenario {

nlohmann::json list_schema(const nlohmann::json& item) {
  return {{"type", "array"}, {"minItems", 1}, {"maxItems", kMostListed}, {"items", item}};
}

}  // namespace railyard::scenario
