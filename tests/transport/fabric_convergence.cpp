// Contention with ever smaller transactions: the error falls, and two sizes extrapolate to the packet model.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::ideal;
using test::Simulation;

namespace {

const std::vector<Bytes> kCuts{65'536, 16'384, 4096, 1024, 256};

double mean(const Simulation& s, std::size_t from, std::size_t to) {
  double sum = 0;
  for (std::size_t i = from; i < to; ++i) sum += s.took[i].seconds();
  return sum / static_cast<double>(to - from);
}

/// Small messages beside a bulk one from the same NIC, at odd times.
double small_beside_bulk(Bytes cut) {
  Simulation s(cut);
  transport::Switch& sw = s.add_switch();
  for (int n = 0; n < 4; ++n) Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(250), 524'288, Time::ns(250)));
  s.send(Time(), 0, 1, 16 << 20);
  for (std::uint32_t i = 0; i < 40; ++i) s.send(Time::us(5 + 8 * i) + Time::ns(331 * i % 1700), 0, 2, 65'536);
  s.run();
  return mean(s, 1, 41);
}

/// Seven to one with different sizes and starts: mean completion.
double incast(Bytes cut) {
  Simulation s(cut);
  transport::Switch& sw = s.add_switch();
  for (int n = 0; n < 8; ++n) Simulation::attach(s.node(), sw, ideal(gb(50), Time::ns(250), 262'144, Time::ns(250)));
  for (std::uint32_t w = 1; w < 8; ++w) s.send(Time::ns(97 * w), w, 0, 65'536 * (4 + 2 * w));
  s.run();
  return mean(s, 0, 7);
}

/// Two groups on switches that share an uplink, each also with local traffic.
double shared_uplink(Bytes cut) {
  Simulation s(cut);
  transport::Switch& left = s.add_switch();
  transport::Switch& right = s.add_switch();
  const auto link = ideal(gb(50), Time::ns(250), 262'144, Time::ns(250));
  for (int n = 0; n < 8; ++n) Simulation::attach(s.node(), n < 4 ? left : right, link);
  const auto [l, r] = Simulation::join(left, right, link, link);
  left.decoder().set_default(l);
  right.decoder().set_default(r);
  std::size_t count = 0;
  for (std::uint32_t w = 0; w < 4; ++w) {
    s.send(Time::ns(131 * w), w, 4 + w, 400'000 + 200'000 * w);
    s.send(Time::ns(731 * w), w, (w + 1) % 4, 500'000);
    count += 2;
  }
  s.run();
  return mean(s, 0, count);
}

void check(double (*scenario)(Bytes), const char* name) {
  std::vector<double> x;
  for (const Bytes cut : kCuts) x.push_back(scenario(cut));
  const double reference = x.back();
  for (std::size_t i = 0; i < kCuts.size(); ++i)
    BOOST_TEST_MESSAGE(name << ": " << kCuts[i] << " B: " << x[i] * 1e6 << " us, error " << (x[i] / reference - 1) * 100
                            << " %");
  // Below a thousandth it only matters which of two equals came first.
  for (std::size_t i = 1; i < kCuts.size(); ++i)
    BOOST_TEST(std::abs(x[i] - reference) <= std::max(std::abs(x[i - 1] - reference), 1e-3 * reference),
               name << ": error grew at " << kCuts[i]);
  BOOST_TEST(std::abs(x[3] - reference) <= 3e-3 * reference);
  BOOST_TEST(std::abs(x[0] - reference) > 1e-4 * reference);  // there is an error to fall
  // First order: x(c) = x(0) + k c, and each size is a quarter of the one before. The reference is extrapolated too.
  const auto extrapolated = [&](std::size_t i) { return (4 * x[i] - x[i - 1]) / 3; };
  for (const std::size_t i : {2, 3})
    BOOST_TEST(std::abs(extrapolated(i) - reference) <= 0.005 * reference,
               name << ": Richardson at " << kCuts[i] << " gives " << extrapolated(i) << ", reference " << reference);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_small_message_beside_bulk_converges) { check(small_beside_bulk, "small beside bulk"); }

BOOST_AUTO_TEST_CASE(an_incast_converges) { check(incast, "incast"); }

BOOST_AUTO_TEST_CASE(a_shared_uplink_converges) { check(shared_uplink, "shared uplink"); }
