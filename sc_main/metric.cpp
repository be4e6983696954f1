#include "sc_main/metric.h"

namespace railyard {

void add_metric(Value& metrics, std::string_view name, Value value) {
  if (value.is_nothing()) return;
  Value* place = &metrics;
  std::string_view rest = name.substr(0, name.find(".["));
  for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    place = &(*place)[rest.substr(0, dot)];
    rest.remove_prefix(dot + 1);
  }
  (*place)[rest] = std::move(value);
}

}  // namespace railyard
