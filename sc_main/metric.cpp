#include "sc_main/metric.h"

namespace railyard {

void add_metric(Value& metrics, std::string_view name, Value value) {
  if (value.is_nothing()) return;
  const std::size_t key = name.find(".["), end = name.find(']', key);
  const bool has_more = key != std::string_view::npos && end + 1 < name.size() && name.substr(end + 1, 2) != ".[";
  Value* place = &metrics;
  std::string_view rest = name.substr(0, name.find(".["));
  for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    place = &(*place)[rest.substr(0, dot)];
    rest.remove_prefix(dot + 1);
  }
  if (has_more) {
    for (const Value::Member& member : value.members())
      add_metric((*place)[rest][member.name], name.substr(end + 2), member.value);
  } else {
    (*place)[rest] = std::move(value);
  }
}

}  // namespace railyard
