// One message alone: latencies plus its bytes at the slowest link, to the femtosecond.
#include "tests/support/systemc_main.h"
#include "tests/support/simulation.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;

BOOST_AUTO_TEST_CASE(two_hops) {
  Simulation s(16'384);
  transport::Switch& sw = s.add_switch();
  Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(300), 65'536));
  Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(200), 65'536));
  s.send(Time::us(1), 0, 1, 1'000'000);
  s.run();
  BOOST_TEST(s.took[0].fs() == (Time::ns(500) + Time::us(20)).fs());
  BOOST_TEST(s.alone[0].fs() == s.took[0].fs());
}
