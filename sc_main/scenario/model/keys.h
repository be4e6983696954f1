// A HuggingFace config.json as a mapping of keys that are spelled in several ways, and what becomes of those that nothing
// reads: known ones without meaning for times are passed over, others are named or refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sc_main/scenario/model/families.h"
#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

using Keys = std::vector<const char*>;  ///< spellings of one thing, the commonest first

class ModelConfig {
 public:
  /// The mapping that holds the decoder's shape comes first: multimodal configs nest it, MPT and DBRX nest parts of it.
  explicit ModelConfig(NodePtr root);

  /// Sizes that the family's configs may leave out.
  void set_defaults(const Family& family) { defaults_ = family.defaults; }

  /// The first of the spellings that has a value, or nullptr.
  const Entry* any_of(const Keys& keys) const;
  bool has(const Keys& keys) const { return any_of(keys) != nullptr; }
  bool mentions(const char* key) const;  ///< with a value or null
  /// The value written, or the family's.
  std::optional<std::uint32_t> size(const Keys& keys, double least = 1, double most = 1 << 24) const;
  std::uint32_t required_size(const Keys& keys, double most = 1 << 24) const;
  bool flag(const Keys& keys, bool otherwise) const;
  bool flag(const BiasRule& rule) const {
    return *rule.key == '\0' ? rule.otherwise : flag({rule.key}, rule.otherwise);
  }
  std::string text(const Keys& keys) const;
  Origin place(const Keys& keys) const;
  [[noreturn]] void refuse(const Keys& keys, const std::string& why) const;

  /// To call when everything is read. @return lines for people about keys that nothing read
  /// @throws InputError if one of them asks for something that is not modelled
  std::vector<std::string> judge_rest(const std::string& file) const;

 private:
  std::vector<NodePtr> nodes_;  // innermost first
  std::vector<std::pair<const char*, double>> defaults_;
  mutable std::set<std::string> read_;
};

}  // namespace railyard::scenario
