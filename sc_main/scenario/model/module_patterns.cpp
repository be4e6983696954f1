#include "sc_main/scenario/model/module_patterns.h"

#include <algorithm>

#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

constexpr std::size_t kMostGeneral = 64;
constexpr char kAnyText = '*', kAnyLetter = '?';
const std::string kLayers = "model.layers.";

bool matches(const std::string& glob, const std::string& text) {
  std::size_t g = 0, t = 0, star = std::string::npos, resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == kAnyText) {
      star = g++;
      resume = t;
    } else if (g < glob.size() && (glob[g] == kAnyLetter || glob[g] == text[t])) {
      ++g, ++t;
    } else if (star != std::string::npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of(kAnyText, g) == std::string::npos;
}

/// A regular expression that matches from the beginning, converted to a glob.
std::string glob_of_expression(const std::string& expression, const Node& node, const std::string& path) {
  std::string glob;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '^' && i == 0) continue;
    if (c == '$' && i + 1 == expression.size()) return glob;
    if (c == '\\' && i + 1 < expression.size() && expression[i + 1] == '.') {
      glob += expression[++i];
    } else if (c == '.' && i + 1 < expression.size() && expression[i + 1] == '*') {
      glob += kAnyText;
      ++i;
    } else if (c == '.') {
      glob += kAnyLetter;
    } else if (std::string("\\*+?()[]{}|^$").find(c) != std::string::npos) {
      throw InputError(node.origin, path + ": " + in_quotes("re:" + expression) +
                                        " is not modelled; accepted in an expression: letters, '.', '.*', '\\.', '$'");
    } else {
      glob += c;
    }
  }
  return glob + kAnyText;
}

/// For "model.layers.17.x" and longer: 17; otherwise none.
bool layer_of(const std::string& glob, std::uint32_t& layer) {
  constexpr std::size_t kMostDigits = 6;
  if (glob.rfind(kLayers, 0) != 0) return false;
  const std::size_t end = glob.find_first_not_of("0123456789", kLayers.size());
  if (end == std::string::npos || end == kLayers.size() || end - kLayers.size() > kMostDigits || glob[end] != '.')
    return false;
  layer = static_cast<std::uint32_t>(std::stoul(glob.substr(kLayers.size(), end - kLayers.size())));
  return true;
}

}  // namespace

void ModulePatterns::add(const Node& list, const std::string& path) {
  if (list.kind == Node::Kind::null) return;
  if (list.kind != Node::Kind::sequence)
    throw InputError(list.origin, path + ": expected a list of modules, got " + list.described());
  for (const NodePtr& item : list.items) {
    std::string pattern = read_text({}, *item, path);
    std::vector<std::string> globs;
    if (pattern.rfind("re:", 0) == 0) {
      globs = {glob_of_expression(pattern.substr(3), *item, path)};
    } else {
      for (const char* prefix : {"language_model.", "model.language_model."})
        if (pattern.rfind(prefix, 0) == 0)
          pattern = (*prefix == 'm' ? "model." : "") + pattern.substr(std::string(prefix).size());
      globs = {pattern, pattern + ".*"};
      // The name of a module, at any position.
      if (pattern.rfind(kLayers, 0) != 0) globs.insert(globs.end(), {"*." + pattern, "*." + pattern + ".*"});
    }
    std::uint32_t layer = 0;
    std::vector<std::string>& into = layer_of(globs.back(), layer) ? by_layer_[layer] : general_;
    into.insert(into.end(), globs.begin(), globs.end());
    if (general_.size() > kMostGeneral)
      throw InputError(item->origin, path + ": too many modules that are not of one layer");
  }
}

bool ModulePatterns::any_of(const std::vector<std::string>& globs, const std::string& module) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return matches(glob, module); });
}

bool ModulePatterns::match(const std::string& module, std::uint32_t layer) const {
  const auto own = by_layer_.find(layer);
  return any_of(general_, module) || (own != by_layer_.end() && any_of(own->second, module));
}

}  // namespace railyard::scenario
