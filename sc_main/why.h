// --why: the critical paths of the end of a run and of the times in its metrics, by kind of cost, by traffic class and
// by link, with a prediction of each time without that cost. Format: docs/results.md, "why.json and why.csv".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/critical_path.h"
#include "sc_main/link_table.h"
#include "sc_main/output_directory.h"
#include "sc_main/output_file.h"
#include "sc_main/value.h"

namespace railyard {

class Why {
 public:
  /// Construct before the run.
  explicit Why(Simulation& simulation);
  // Call after the run.
  /// The times of metrics, then the end of the run.
  std::vector<probe::CriticalPath::Measure> measures() const;
  Value results() const;
  static std::string table(const Value& results);
  void write(const OutputDirectory& out) const;

 private:
  struct LinkGroup {
    std::string kind;
    std::vector<std::size_t> rows;  ///< row numbers in the link table
  };
  Value result(const probe::CriticalPath::Measure& measure) const;
  /// Adds the metric without something to its row, or why there is no prediction.
  void add_without(Value& row, const probe::CriticalPath::Measure& measure, std::size_t free) const;
  void write_chain(OutputFile& out, const probe::CriticalPath::Measure& measure) const;

  Simulation& simulation_;
  const std::vector<LinkRow> links_;
  std::vector<LinkGroup> groups_;
  std::vector<std::string> stragglers_;  ///< GPUs that events slow down
  probe::CriticalPath::Frees frees_;
  std::optional<probe::CriticalPath> path_;
};

}  // namespace railyard
