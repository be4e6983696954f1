#include "sc_main/results_page.h"

#include <fmt/format.h>
#include <stdexcept>

#include "sc_main/energy.h"
#include "sc_main/results.h"

namespace railyard {

namespace {

const char* const kEnd = "<!-- end of metrics -->";

std::string table_of(const KindMetrics& kind) {
  std::string table = "| key | unit | meaning |\n| --- | --- | --- |\n";
  std::vector<MetricText> all = texts_of(common_metrics());
  all.insert(all.end(), kind.metrics.begin(), kind.metrics.end());
  const std::vector<MetricText> energy = texts_of(energy_metrics(kind.energy_per));
  all.insert(all.end(), energy.begin(), energy.end());
  for (const MetricText& m : all) {
    const std::string unit = *m.unit == 0 ? "" : fmt::format(" {}", m.unit);
    table += fmt::format("| `metrics.{}` |{} | {} |\n", m.name, unit, m.meaning);
  }
  return table;
}

}  // namespace

std::string with_metric_tables(const std::string& page) {
  std::string text = page;
  for (const KindMetrics& kind : metrics_of_kinds()) {
    const std::string begin = fmt::format("<!-- metrics of {} -->\n", kind.kind);
    const std::size_t from = text.find(begin);
    const std::size_t to = from == std::string::npos ? from : text.find(kEnd, from);
    if (to == std::string::npos)
      throw std::runtime_error(
          fmt::format("the page needs the lines \"<!-- metrics of {} -->\" and \"{}\", between "
                      "which the metrics of this kind belong",
                      kind.kind, kEnd));
    const std::size_t table = from + begin.size();
    text.replace(table, to - table, fmt::format("\n{}\n", table_of(kind)));
  }
  return text;
}

}  // namespace railyard
