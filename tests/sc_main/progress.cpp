// What people are told of a run's progress, by a wall clock of the test's.
#include "sc_main/progress.h"

#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using railyard::ProgressLine;
using railyard::Time;

BOOST_AUTO_TEST_CASE(a_log_gets_a_line_a_minute_and_a_terminal_five_a_second) {
  for (const auto& [at_terminal, expected] : {std::pair{false, 10}, {true, 3000}}) {
    ProgressLine line(at_terminal);
    int lines = 0;
    for (int tick = 0; tick <= 600'000; ++tick) lines += line.due(tick / 1000.0) ? 1 : 0;  // ten minutes
    BOOST_TEST(lines <= expected);
    BOOST_TEST(lines >= 0.99 * expected);  // a tick may come a millisecond late
  }
}

BOOST_AUTO_TEST_CASE(what_is_left_is_in_proportion_to_what_is_done) {
  const Time now = Time::seconds(1.5);
  BOOST_TEST(ProgressLine::text(0.25, now, "1 of 4 requests done", 10) ==
             "25 %, 1.500 s simulated, 1 of 4 requests done, about 30 s left");
  BOOST_TEST(ProgressLine::text(0.5, now, "x", 600) == "50 %, 1.500 s simulated, x, about 10 min left");
  BOOST_TEST(ProgressLine::text(0.1, now, "x", 1000) == "10 %, 1.500 s simulated, x, about 2.5 h left");
}

BOOST_AUTO_TEST_CASE(nothing_is_foretold_from_next_to_nothing) {
  BOOST_TEST(ProgressLine::text(0.001, Time(), "x", 100) == "0 %, 0.000 s simulated, x");
  BOOST_TEST(ProgressLine::text(0.5, Time(), "x", 0.1) == "50 %, 0.000 s simulated, x");
  BOOST_TEST(ProgressLine::text(1.5, Time(), "x", 10).substr(0, 5) == "100 %");
}

BOOST_AUTO_TEST_CASE(serving_tells_how_much_is_done_before_any_request_is) {
  railyard::test::ServingBench run(railyard::test::tiny_serving(
      {"workload.requests={count: 8, arrivals: at_once, prompt_tokens: 64, output_tokens: 50}"}));
  double before = 0, without_a_request = 0;
  run.simulation.run([&](Time) {
    const double ratio = run.simulation.workload().done_ratio();
    BOOST_TEST_REQUIRE(ratio >= before);
    before = ratio;
    if (run.service().api_server().served() == 0) without_a_request = ratio;
    return true;
  });
  BOOST_TEST(without_a_request > 0.9);  // all requests end with the same batch
  BOOST_TEST(run.simulation.workload().done_ratio() == 1.0, boost::test_tools::tolerance(1e-12));
}
