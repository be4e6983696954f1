// The instances of a cluster configuration, with the settings of the command line and the place of each value.
#pragma once

#include <string>
#include <vector>

#include "sc_main/scenario/import/cluster_file.h"
#include "sc_main/scenario/table/node.h"
#include "transformer/model_shape.h"

namespace railyard::scenario {

class PlacedInstance : public ClusterInstance {
 public:
  /// @param written   the instance in the file; its values replace those of `settings`
  /// @param path      of the instance in the file, "nodes.0.instances.0"
  /// @param settings  keys of an instance that the command line sets
  PlacedInstance(NodePtr written, std::string path, NodePtr settings);

  const std::string& path() const { return path_; }
  /// Its server, "nodes.0".
  std::string node() const { return path_.substr(0, path_.find(".instances")); }
  /// The file has this key, such as "npu_mem.mem_util".
  bool has(const std::string& key) const { return value_at(written_, key) != nullptr; }
  /// The file or the command line has it.
  bool is_set(const std::string& key) const { return has(key) || settings_->find(key); }
  /// The place of a key: in the file, or the option; of the instance, if the default applies.
  Origin place(const std::string& key) const;
  Origin place() const { return written_->origin; }
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const;

 private:
  NodePtr written_, settings_;
  std::string path_;
};

/// The instances of a cluster, those that only decode last.
/// @throws InputError: a bad file, a part of requests without an instance, or several models
std::vector<PlacedInstance> instances_of(const NodePtr& root, const NodePtr& settings);

struct Parallelism {
  std::uint32_t tp = 1, pp = 1;
  std::uint32_t gpus() const { return tp * pp; }
};

/// num_npus = tp_size x pp_size; an absent tp_size follows from the others.
Parallelism parallelism_of(const PlacedInstance& instance, const transformer::ModelShape& model);

}  // namespace railyard::scenario
