// The main function of a test that runs the SystemC kernel: libsystemc's main() calls sc_main(), which starts
// Boost.Test. Include it once, in the test's .cpp, instead of <boost/test/unit_test.hpp>.
#pragma once

#define BOOST_TEST_NO_MAIN
#define BOOST_TEST_ALTERNATIVE_INIT_API
#include <boost/test/unit_test.hpp>
#include <systemc>

int sc_main(int argc, char* argv[]) {
  using namespace sc_core;
  sc_report_handler::set_actions(SC_INFO, SC_DO_NOTHING);
  // Warnings of the kernel are errors of the model: duplicate names, unbound ports, clipped times.
  sc_report_handler::set_actions(SC_WARNING, SC_DISPLAY | SC_THROW);
  sc_report_handler::set_actions(SC_ERROR, SC_DISPLAY | SC_THROW);
  sc_report_handler::set_actions(SC_FATAL, SC_DISPLAY | SC_THROW);
  return boost::unit_test::unit_test_main([] { return true; }, argc, argv);
}
