// Lists of modules in quantisation configs ("lm_head", "model.layers.0.self_attn", "re:.*router$"), matched with the
// names of a decoder's linear layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

class ModulePatterns {
 public:
  /// Adds a list of texts. @throws InputError for a regular expression with more than `.`, `.*`, `\.` and `$`
  void add(const Node& list, const std::string& path);
  bool empty() const { return general_.empty() && by_layer_.empty(); }
  /// @param layer  layer of the module
  bool match(const std::string& module, std::uint32_t layer) const;
  bool match(const std::string& module) const { return any_of(general_, module); }

 private:
  static bool any_of(const std::vector<std::string>& globs, const std::string& module);
  std::vector<std::string> general_;
  std::map<std::uint32_t, std::vector<std::string>> by_layer_;  ///< patterns that begin with a layer's name
};

}  // namespace railyard::scenario
