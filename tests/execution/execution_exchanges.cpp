// Sends and receives: which send matches which receive, when the bytes are sent, and which streams and SMs are occupied.
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"
#include "transport/faults.h"

using namespace railyard;
using namespace railyard::test;
using execution::Exchange;
using transport::Engine;

namespace {

constexpr Bytes kBytes = 10'000'000;

struct ExchangeBench : JobBench {
  JobRef send(const Exchange& exchange, std::uint32_t number, const std::vector<JobRef>& after = {}) {
    return executor.send(all, exchange, label(number), *this, after);
  }
  JobRef receive(const Exchange& exchange, std::uint32_t number, const std::vector<JobRef>& after = {}) {
    return executor.receive(all, exchange, label(number), *this, after);
  }
  Communicator all{ranks, kComm, {}, fabric};
};

Exchange exchange(std::uint32_t from, std::uint32_t to, std::uint64_t tag = 0, Engine engine = Engine::copy_engine) {
  return {from, to, tag, kBytes, engine};
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_leave_when_both_sides_have_begun_whichever_is_emitted_first) {
  for (const bool send_first : {true, false}) {
    for (const Time sender : {Time(), Time::us(50)}) {
      ExchangeBench b;
      b.later_on(Time(), [&] {
        const JobRef computed = b.kernel(0, Time::us(20), 0);
        const JobRef late = b.kernel(1, Time::us(20) + sender, 1);
        if (send_first) b.send(exchange(0, 1), 2, {computed});
        b.receive(exchange(0, 1), 3, {late});
        if (!send_first) b.send(exchange(0, 1), 2, {computed});
      });
      b.run();
      const Time landed = Time::us(20) + sender + b.alone(0, 1, kBytes);
      BOOST_TEST((b.done[2] == landed));
      BOOST_TEST((b.done[3] == landed));
    }
  }
}

BOOST_AUTO_TEST_CASE(sides_are_matched_by_their_tag_and_in_order_where_it_is_the_same) {
  ExchangeBench b;
  b.later_on(Time(), [&] {
    b.receive(exchange(0, 1, 7), 0);  // holds its stream for the send of tag 7
    b.receive(exchange(0, 1, 8), 1);
    b.receive(exchange(0, 1, 8), 2);
  });
  b.later_on(Time::us(10), [&] {
    const JobRef slow = b.kernel(0, Time::us(30), 10);
    b.send(exchange(0, 1, 7), 3, {slow});
    b.send(exchange(0, 1, 8), 4);
    b.send(exchange(0, 1, 8), 5);
  });
  b.run();
  BOOST_TEST((b.done[0] == b.done[3]));
  BOOST_TEST((b.done[1] == b.done[4]));
  BOOST_TEST((b.done[2] == b.done[5]));
  BOOST_TEST((b.done[0] < b.done[1]));
  BOOST_TEST((b.done[1] < b.done[2]));
  BOOST_TEST((b.begun[1] == b.done[0]));  // a receive holds its stream
  BOOST_TEST((b.begun[4] < b.done[3]));   // a send does not, once it is posted
}

BOOST_AUTO_TEST_CASE(an_exchange_by_sms_holds_them_on_both_sides_and_takes_longer_than_its_link) {
  std::vector<Time> times;
  for (const bool send_first : {true, false}) {
    ExchangeBench b;
    std::uint32_t held = 0;
    b.later_on(Time(), [&] {
      const Exchange e = exchange(0, 1, 0, Engine::sm);
      if (send_first) b.send(e, 0);
      b.receive(e, 1);
      if (!send_first) b.send(e, 0);
    });
    b.later_on(Time::us(100), [&] {
      for (const std::uint32_t rank : {0u, 1u})
        if (b.ranks[rank]->gpu->sms().active() != 0) ++held;
    });
    b.run();
    BOOST_TEST(held == 2u);
    BOOST_TEST((b.done[0] > b.alone(0, 1, kBytes)));
    times.push_back(b.done[0]);
    times.push_back(b.done[1]);
  }
  BOOST_TEST((times[0] == times[2]));
  BOOST_TEST((times[1] == times[3]));
}

BOOST_AUTO_TEST_CASE(a_send_waits_for_bytes_of_its_communicator_and_takes_turns_with_those_of_another) {
  // A small send from 0 to 1 while a large one is under way, in another stream.
  const auto took = [](const std::vector<std::uint32_t>& members, Engine engine) {
    ExchangeBench b;
    std::vector<execution::Rank*> ranks;
    for (const std::uint32_t member : members) ranks.push_back(b.ranks[member]);
    Communicator small{ranks, JobBench::kCompute, {}, b.fabric};
    BOOST_TEST(*small.pair(0, 1).request().queue_pair_set == *small.request().queue_pair_set);
    b.later_on(Time(), [&] {
      b.send({0, 1, 0, 16 * kBytes, engine}, 0);
      b.receive({0, 1, 0, 16 * kBytes, engine}, 1);
    });
    b.later_on(Time::us(20), [&] {
      const Exchange exchange{0, 1, 0, kBytes / 100, engine};
      b.executor.send(small, exchange, b.label(2), b, {});
      b.executor.receive(small, exchange, b.label(3), b, {});
    });
    b.run();
    return std::make_pair(b.done[3], b.done[1]);
  };
  const auto [behind, large] = took({0, 1, 2, 3}, Engine::copy_engine);
  BOOST_TEST((behind > large));
  const auto [beside, larger] = took({0, 1}, Engine::copy_engine);
  BOOST_TEST(((beside - Time::us(20)) * 20 < large));
  BOOST_TEST((larger >= large));
}

BOOST_AUTO_TEST_CASE(communicators_that_meet_on_two_gpus_have_queue_pairs_of_their_own) {
  transport::QueuePairSets sets;
  const auto of = [&](std::vector<std::uint64_t> members, std::uint8_t traffic_class = 0, std::uint32_t instance = 0) {
    return sets.set_of(traffic_class, std::move(members), instance);
  };
  BOOST_TEST(of({0, 1, 2, 3}) == 0u);
  BOOST_TEST(of({3, 2, 1, 0}) == 0u);  // an object of the same members stands for the same communicator
  BOOST_TEST(of({3, 4, 5}) == 0u);     // one GPU in common sends nothing to itself
  BOOST_TEST(of({0, 1}) == 1u);
  BOOST_TEST(of({1, 2}) == 1u);
  BOOST_TEST(of({0, 1, 2}) == 2u);
  BOOST_TEST(of({0, 1}, 1) == 0u);  // classes have their own anyway
  BOOST_TEST(of({0, 1, 2, 3}, 0, 1) == 3u);
}

BOOST_AUTO_TEST_CASE(both_sides_are_cancelled_with_one) {
  for (const Engine engine : {Engine::copy_engine, Engine::sm}) {
    for (const bool emitted_late : {false, true}) {
      ExchangeBench b;
      b.goes_on = true;
      const transport::Device::Port& port = b.ranks[3]->gpu->port(PortId(0));
      b.fabric.faults().fail(Time::us(30), {{b.ranks[3]->gpu, PortId(0)}, {port.peer, port.peer_port}});
      b.later_on(Time(), [&] {
        const JobRef lost = b.copy(2, {3}, kBytes, 0);
        b.send(exchange(0, 1, 0, engine), 1, {lost});
        if (!emitted_late) b.receive(exchange(0, 1, 0, engine), 2);
      });
      if (emitted_late) b.later_on(Time::us(900), [&] { b.receive(exchange(0, 1, 0, engine), 2); });
      b.run();
      BOOST_TEST((b.failed == std::map<std::uint32_t, Status>{
                                  {0, Status::undeliverable}, {1, Status::cancelled}, {2, Status::cancelled}}));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_receive_that_nobody_sends_to_says_so) {
  ExchangeBench b;
  b.later_on(Time(), [&] { b.receive(exchange(0, 1), 0); });
  sc_core::sc_start();
  const std::vector<std::string> blocked = b.executor.blocked();
  BOOST_TEST_REQUIRE(blocked.size() == 1u);
  BOOST_TEST(blocked.front().find("job 0 waits for the other side") != std::string::npos, blocked.front());
}
