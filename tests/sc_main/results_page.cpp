// The tables of metrics in docs/results.md are current. That a run has these metrics, and no others, is tested from
// outside (test_results.py, test_kinds.py and the tests of single kinds).
#include "sc_main/results_page.h"

#include <fstream>
#include <iterator>
#include <set>

#include "sc_main/kinds/workload_run.h"
#include "sc_main/scenario/kinds/kind.h"
#include "tests/support/systemc_main.h"

using namespace railyard;

BOOST_AUTO_TEST_CASE(tables_of_metrics_are_current) {
  std::ifstream in(RAILYARD_SOURCE_DIR "/docs/results.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  BOOST_TEST((with_metric_tables(page) == page), "regenerate with: build/bin/results_reference .");
}

BOOST_AUTO_TEST_CASE(a_page_without_a_place_for_a_kind_is_refused) {
  BOOST_CHECK_THROW(with_metric_tables("# Results\n"), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(every_kind_that_a_scenario_can_name_can_run) {
  std::set<std::string> named, run;
  for (const scenario::Kind& kind : scenario::workload_kinds())
    named.insert(*kind.preset_of != 0 ? kind.preset_of : kind.name);
  for (const KindMetrics& kind : metrics_of_kinds()) run.insert(kind.kind);
  BOOST_TEST(named == run, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_metric_is_declared_once_and_has_a_meaning) {
  for (const KindMetrics& kind : metrics_of_kinds()) {
    std::set<std::string> names;
    for (const MetricText& metric : kind.metrics) {
      BOOST_TEST(names.insert(metric.name).second, kind.kind << ": " << metric.name);
      BOOST_TEST(std::string(metric.meaning) != "", kind.kind << ": " << metric.name);
    }
  }
}
