#include "sc_main/scenario/old_words.h"

#include <algorithm>
#include <iterator>

#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/tree.h"
#include "sc_main/scenario/table/words.h"
#include "workload/inference/engine/serving_rules.h"

namespace railyard::scenario {

namespace {

enum class OldKey { preset, library, host };

/// An old word, and the engines that it may mean; the first one does, if nothing else is said.
struct OldWord {
  OldKey key;
  const char* word;
  std::vector<std::string> engines;
};

const std::vector<OldWord>& old_words() {
  static const std::vector<OldWord> words{
      {OldKey::preset, "vllm", {"vllm-0.19", "vllm-0.15", "vllm-0.12", "vllm-2023-eager", "none"}},
      {OldKey::preset, "vllm_v0", {"vllm-0.6", "vllm-2023-eager"}},
      {OldKey::preset, "sglang", {"sglang-0.5"}},
      {OldKey::preset, "trtllm", {"trtllm-1.0"}},
      {OldKey::library, "vllm", {"vllm-0.19", "vllm-0.15", "vllm-0.12", "vllm-0.6", "vllm-2023-eager", "none"}},
      {OldKey::library, "sglang", {"sglang-0.5"}},
      {OldKey::library, "trtllm", {"trtllm-1.0"}},
      {OldKey::library, "nccl", {"nccl"}},
      {OldKey::host, "vllm_v1", {"vllm-0.19", "vllm-0.15"}},
      {OldKey::host, "vllm_v1_sync", {"vllm-0.12"}},
      {OldKey::host, "vllm_v0", {"vllm-0.6"}},
      {OldKey::host, "vllm_2023_eager", {"vllm-2023-eager"}},
      {OldKey::host, "sglang", {"sglang-0.5"}},
      {OldKey::host, "trtllm", {"trtllm-1.0"}},
      {OldKey::host, "none", {}},  // any engine, without its host
  };
  return words;
}

/// A word in a scenario.
struct Written {
  std::string path;
  NodePtr value;
  std::vector<std::string> engines;

  bool is_no_host() const { return engines.empty(); }
};

bool is_text(const NodePtr& node) { return node && node->kind == Node::Kind::scalar; }

Written read_word(OldKey key, const std::string& path, const NodePtr& value) {
  if (key == OldKey::library && is_file_name(value->text)) return {path, value, {value->text}};
  std::vector<std::string> accepted;
  for (const OldWord& old : old_words()) {
    if (old.key != key) continue;
    if (old.word == value->text) return {path, value, old.engines};
    accepted.push_back(old.word);
  }
  throw InputError(value->origin, path + ": unknown value " + in_quotes(value->text) +
                                      suggestion(value->text, accepted) +
                                      "; this key is now workload.engine, the name of an engine with its version");
}

void erase(Node& mapping, const std::string& key) {
  mapping.entries.erase(std::remove_if(mapping.entries.begin(), mapping.entries.end(),
                                       [&](const Entry& entry) { return entry.key == key; }),
                        mapping.entries.end());
}

/// What `host: {preset: none, KEYS}` had meant with the host of an engine that has one.
NodePtr no_host_but(const NodePtr& host) {
  const Origin origin = host->origin;
  if (host->entries.size() == 1) return word("none", origin);
  Node own = *host;
  erase(own, "preset");
  Members zeros{{"async", flag(false, origin)}};
  for (const char* key : {"step_us", "sequence_us", "layer_us", "eager_layer_us", "request_us", "token_us"})
    zeros.emplace_back(key, number(0, origin));
  return joined(std::make_shared<const Node>(own), mapping(origin, zeros));
}

class Replacement {
 public:
  explicit Replacement(const NodePtr& root) : root_(root), workload_(value_at(root, "workload")) {}

  NodePtr root() {
    const NodePtr kind = workload_ ? value_at(root_, "workload.kind") : nullptr;
    if (!is_text(kind) || workload_->kind != Node::Kind::mapping) return root_;
    if (kind->text == "collective" || kind->text == "layer") return with_versions();
    if (kind->text == "disaggregated_prefill") find(OldKey::library, "workload", "library");
    if (kind->text == "serving") find_schedulers();
    if (kind->text == "serving" || kind->text == "disaggregated_prefill") find(OldKey::host, "workload.host", "preset");
    return found_.empty() ? root_ : with_engine();
  }
  const std::string& note() const { return note_; }

 private:
  NodePtr within_mapping(const std::string& section, const std::string& key) const {
    const NodePtr node = value_at(root_, section);
    return node && node->kind == Node::Kind::mapping ? value_at(root_, section + "." + key) : nullptr;
  }
  void find(OldKey key, const std::string& section, const std::string& name) {
    const NodePtr value = within_mapping(section, name);
    if (is_text(value)) found_.push_back(read_word(key, section + "." + name, value));
  }
  void find_schedulers() {
    std::vector<std::string> schedulers{"workload.scheduler"};
    const NodePtr instances = value_at(root_, "workload.instances");
    for (std::size_t i = 0; instances && i < instances->items.size(); ++i)
      schedulers.push_back("workload.instances." + std::to_string(i) + ".scheduler");
    for (const std::string& scheduler : schedulers) {
      find(OldKey::preset, scheduler, "preset");
      find(OldKey::library, scheduler, "library");
    }
  }

  /// The engine that all words may mean. @throws InputError if there is none
  std::string engine() const {
    std::vector<std::string> possible;
    std::string said_by;
    const auto narrow = [&](const std::string& path, const NodePtr& value, const std::vector<std::string>& engines) {
      std::vector<std::string> both;
      std::copy_if(possible.begin(), possible.end(), std::back_inserter(both),
                   [&](const std::string& e) { return std::find(engines.begin(), engines.end(), e) != engines.end(); });
      if (possible.empty()) both = engines;
      if (both.empty())
        throw InputError(value->origin, path + ": " + in_quotes(value->text) + ", of engine " + engines.front() +
                                            ", contradicts " + said_by + "; write workload.engine alone");
      possible = both;
      said_by = path + ": " + in_quotes(value->text);
    };
    if (const NodePtr written = value_at(root_, "workload.engine"); is_text(written))
      narrow("workload.engine", written, {written->text});
    bool no_host = false;
    for (const Written& word : found_) {
      if (!word.is_no_host()) narrow(word.path, word.value, word.engines);
      no_host |= word.is_no_host();
    }
    const bool may_be_none = std::find(possible.begin(), possible.end(), "none") != possible.end();
    return no_host && (possible.empty() || may_be_none) ? "none" : possible.front();
  }

  NodePtr with_engine() {
    const std::string engine = this->engine();
    NodePtr root = root_;
    bool no_host = false;
    std::string keys;
    for (const Written& word : found_) {
      keys += (keys.empty() ? "" : " and ") + word.path + ": " + word.value->text;
      no_host |= word.is_no_host();
      if (word.is_no_host() && engine != "none") continue;
      root = without(root, word.path);
    }
    const Origin where = found_.front().value->origin;
    auto whole = std::make_shared<Node>(*root);
    for (Entry& entry : whole->entries) {
      if (entry.key != "workload") continue;
      auto workload = std::make_shared<Node>(*entry.value);
      for (Entry& of_workload : workload->entries)
        if (of_workload.key == "host" && no_host && engine != "none")
          of_workload.value = no_host_but(of_workload.value);
      if (!workload->find("engine")) workload->entries.push_back({"engine", where, word(engine, where)});
      entry.value = workload;
    }
    note_ = where.str() + ": warning: " + keys + ": old; write workload.engine: " + engine +
            (no_host && engine != "none" ? " and workload.host: none" : "");
    return whole;
  }

  static NodePtr without(const NodePtr& root, const std::string& path) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      parts.push_back(path.substr(begin, end - begin));
      begin = end + 1;
    }
    const std::string last = parts.back();
    parts.pop_back();
    return pruned(root, parts, 0, last);
  }
  static NodePtr pruned(const NodePtr& node, const std::vector<std::string>& parts, std::size_t depth,
                        const std::string& last) {
    auto copy = std::make_shared<Node>(*node);
    if (depth == parts.size()) {
      erase(*copy, last);
      return copy;
    }
    if (copy->kind == Node::Kind::sequence) {
      NodePtr& item = copy->items[std::stoul(parts[depth])];
      item = pruned(item, parts, depth + 1, last);
      return copy;
    }
    for (Entry& entry : copy->entries)
      if (entry.key == parts[depth]) entry.value = pruned(entry.value, parts, depth + 1, last);
    if (depth + 1 < parts.size() || copy->find(parts[depth])->value->kind != Node::Kind::mapping) return copy;
    if (copy->find(parts[depth])->value->entries.empty()) erase(*copy, parts[depth]);
    return copy;
  }

  /// Names of sheets without a version, in workload.library.
  NodePtr with_versions() {
    const NodePtr library = value_at(root_, "workload.library");
    if (!is_text(library)) return root_;
    for (const OldWord& old : old_words()) {
      if (old.key != OldKey::library || old.word != library->text || old.engines.front() == old.word) continue;
      note_ = library->origin.str() + ": warning: workload.library: " + old.word +
              ": old; write workload.library: " + old.engines.front();
      return joined(
          mapping(library->origin,
                  {{"workload", mapping(library->origin, {{"library", word(old.engines.front(), library->origin)}})}}),
          root_);
    }
    return root_;
  }

  NodePtr root_, workload_;
  std::vector<Written> found_;
  std::string note_;
};

/// workload.handoff of the kind `serving`, which is now workload.kv_transfer.mode with other words.
NodePtr with_kv_transfer(const NodePtr& root, std::vector<std::string>& notes) {
  const NodePtr kind = value_at(root, "workload.kind"), handoff = value_at(root, "workload.handoff");
  if (!is_text(kind) || kind->text != "serving" || !is_text(handoff)) return root;
  const auto& names = workload::inference::kHandoffGrainNames;
  const auto found = std::find(names.begin(), names.end(), handoff->text);
  if (found == names.end())
    throw InputError(handoff->origin, "workload.handoff: unknown value " + in_quotes(handoff->text) +
                                          suggestion(handoff->text, {names.begin(), names.end()}) +
                                          "; this key is now workload.kv_transfer.mode");
  const std::string mode = workload::inference::kKvTransferModeNames[static_cast<std::size_t>(found - names.begin())];
  notes.push_back(handoff->origin.str() + ": warning: workload.handoff: " + handoff->text +
                  ": old; write workload.kv_transfer: {mode: " + mode + "}");
  auto whole = std::make_shared<Node>(*root);
  for (Entry& entry : whole->entries) {
    if (entry.key != "workload") continue;
    auto workload = std::make_shared<Node>(*entry.value);
    erase(*workload, "handoff");
    entry.value = workload;
  }
  const Origin where = handoff->origin;
  return joined(
      mapping(where, {{"workload", mapping(where, {{"kv_transfer", mapping(where, {{"mode", word(mode, where)}})}})}}),
      whole);
}

}  // namespace

NodePtr without_old_words(const NodePtr& written, std::vector<std::string>& notes) {
  const NodePtr root = with_kv_transfer(written, notes);
  Replacement replacement(root);
  const NodePtr replaced = replacement.root();
  if (!replacement.note().empty()) notes.push_back(replacement.note());
  return replaced;
}

}  // namespace railyard::scenario
