// Sources that write slower than their link: when their bytes leave and land, and what others make of the rest.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using test::gb;
using test::ideal;

namespace {

const Time kHop = Time::ns(300);

/// A star of memories that notes when messages have left.
struct Star : test::Simulation {
  explicit Star(std::size_t members, Bytes cut) : Simulation(cut) {
    transport::Switch& sw = add_switch();
    for (std::size_t m = 0; m < members; ++m) attach(node(), sw, ideal(gb(50), kHop));
  }
  std::size_t write(Time when, transport::Window from, transport::Window to, Bytes bytes, Rate rate) {
    transport::Message message;
    message.source = from;
    message.destination = to;
    message.bytes = bytes;
    message.source_rate = rate;
    message.tell_left = true;
    left.push_back(Time::max());
    return send(when, message);
  }
  void on_left(transport::Message& message) override {
    BOOST_TEST_REQUIRE((left[message.cookie] == Time::max()));
    left[message.cookie] = fabric.now();
  }
  std::vector<Time> left;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_slow_writer_alone_takes_its_own_rate_and_the_latency_in_any_cut) {
  for (const Bytes cut : {500, 4000, 100'000}) {
    Star star(2, cut);
    star.write(Time(), 0, 1, 100'000, gb(10));
    star.run();
    BOOST_TEST(star.left[0].fs() == Time::us(10).fs());
    BOOST_TEST(star.took[0].fs() == (Time::us(10) + kHop * 2).fs());
    BOOST_TEST(star.alone[0].fs() == star.took[0].fs());
  }
}

BOOST_AUTO_TEST_CASE(a_fast_writer_leaves_at_the_rate_of_the_link) {
  for (const Rate rate : {Rate(), gb(50), gb(400)}) {
    Star star(2, 1000);
    star.write(Time(), 0, 1, 100'000, rate);
    star.run();
    BOOST_TEST(star.left[0].fs() == Time::us(2).fs());
    BOOST_TEST(star.took[0].fs() == (Time::us(2) + kHop * 2).fs());
  }
}

BOOST_AUTO_TEST_CASE(slow_writers_share_a_link_without_holding_it) {
  // Five writers of a fifth of the link each, to one memory: nobody is later than alone by more than the trains in front.
  constexpr Bytes kCut = 500;
  Star star(6, kCut);
  for (transport::Window from = 0; from < 5; ++from) star.write(Time(), from, 5, 100'000, gb(10));
  star.run();
  for (const Time took : star.took) {
    BOOST_TEST((took >= Time::us(10) + kHop * 2));
    BOOST_TEST((took <= Time::us(10) + kHop * 2 + gb(50).time_for(5 * kCut)));
  }
}

BOOST_AUTO_TEST_CASE(an_empty_message_is_one_byte_on_the_wire_and_leaves_at_once) {
  Star star(2, 1000);
  star.write(Time::ns(5), 0, 1, 0, gb(10));
  star.run();
  BOOST_TEST(star.left[0].fs() == (Time::ns(5) + gb(50).time_for(1)).fs());
  BOOST_TEST(star.took[0].fs() == (kHop * 2 + gb(50).time_for(1)).fs());
}
