// A metric: a number in `metrics` of the summary. It is declared once, with name, unit, meaning and value, in the file
// of its kind of workload. The summary and the tables of metrics in docs/results.md come from the declaration.
#pragma once

#include <string_view>
#include <vector>

#include "sc_main/value.h"

namespace railyard {

/// The part of a metric that is the same in all runs.
struct MetricText {
  const char* name;
  const char* unit;  ///< "": none
  const char* meaning;
};

/// A metric whose value comes from a `Source`: the run of a kind, or its figures.
template <class Source>
struct Metric {
  /// "decode.steps" is in the group `decode`. A metric with one value for each key ends with the meaning of its keys in
  /// brackets, "time_s.[bytes]", and its value is a group. With a key inside, as in "instances.[instance].requests", each member
  /// of the value is in the group of its key.
  const char* name;
  const char* unit;
  const char* meaning;
  Value (*value)(const Source& source);  ///< nothing: this run does not have the metric
};

/// The metrics of a kind, in the order of the summary.
template <class Source>
using Metrics = std::vector<Metric<Source>>;

/// Adds a value to `metrics` of the summary under the name of its metric.
void add_metric(Value& metrics, std::string_view name, Value value);

template <class Source>
void add_metrics(Value& metrics, const Metrics<Source>& declared, const Source& source) {
  for (const Metric<Source>& metric : declared) add_metric(metrics, metric.name, metric.value(source));
}

template <class Source>
std::vector<MetricText> texts_of(const Metrics<Source>& declared) {
  std::vector<MetricText> texts;
  for (const Metric<Source>& metric : declared) texts.push_back({metric.name, metric.unit, metric.meaning});
  return texts;
}

}  // namespace railyard
