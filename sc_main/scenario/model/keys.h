// A HuggingFace config.json as a mapping of keys with several spellings. Keys that no code reads are judged: known keys
// without effect on times are ignored, all other keys are reported or refused.
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

using Keys = std::vector<const char*>;  ///< spellings of one key, the most frequent first

class ModelConfig {
 public:
  /// The mapping with the decoder's shape comes first: multimodal configs nest it; MPT and DBRX nest parts of it.
  explicit ModelConfig(NodePtr root);

  /// @throws InputError if a key needs a feature that is not modelled, whatever the model_type
  void refuse_features() const;
  /// Adds the `quantization` of an hf_quant_config.json, as the quantization_config of a config without one.
  /// @throws InputError if the file has no such section
  void add_quantization(const NodePtr& root);
  /// Sets sizes that the family's configs can omit.
  void set_defaults(const Family& family) { defaults_ = family.defaults; }

  /// The first spelling with a value, or nullptr.
  const Entry* any_of(const Keys& keys) const;
  bool has(const Keys& keys) const { return any_of(keys) != nullptr; }
  bool mentions(const char* key) const;  ///< with a value or null
  /// The value of a key that is judged all the same, as if no code had read it; or nullptr.
  const Entry* peek(const char* key) const;
  /// The value in the config, or the family's default.
  std::optional<std::uint32_t> size(const Keys& keys, double least = 1, double most = 1 << 24) const;
  std::uint32_t required_size(const Keys& keys, double most = 1 << 24) const;
  bool flag(const Keys& keys, bool otherwise) const;
  bool flag(const BiasRule& rule) const {
    return *rule.key == '\0' ? rule.otherwise : flag({rule.key}, rule.otherwise);
  }
  std::string text(const Keys& keys) const;
  Origin place(const Keys& keys) const;
  [[noreturn]] void refuse(const Keys& keys, const std::string& why) const;

  /// Call after all reads. @return lines for users about keys that no code has read
  std::vector<std::string> judge_rest(const std::string& file) const;

 private:
  std::vector<NodePtr> nodes_;  // innermost first
  std::vector<std::pair<const char*, double>> defaults_;
  mutable std::set<std::string> read_;
};

}  // namespace railyard::scenario
