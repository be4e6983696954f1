#include "sc_main/scenario/kinds/word_list.h"

namespace railyard::scenario {

nlohmann::json word_list_schema(const std::vector<std::string>& words) {
  return {{"type", "array"}, {"items", {{"enum", words}}}, {"minItems", 1}, {"uniqueItems", true}};
}

std::vector<std::size_t> read_word_list(const std::vector<std::string>& words, const Node& node,
                                        const std::string& path) {
  if (node.kind != Node::Kind::sequence || node.items.empty())
    throw InputError(node.origin, path + ": expected a list of one or more of " + joined(words) + ", got " +
                                      (node.kind == Node::Kind::sequence ? "an empty list" : node.described()));
  Field field;
  field.choices = words;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string item = path + "." + std::to_string(i);
    const std::size_t place = read_choice(field, *node.items[i], item);
    if (std::find(places.begin(), places.end(), place) != places.end())
      throw InputError(node.items[i]->origin, item + ": " + in_quotes(words[place]) + " is listed twice");
    places.push_back(place);
  }
  return places;
}

}  // namespace railyard::scenario
