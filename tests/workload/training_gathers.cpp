// A chain of gathers beside products of given lengths: the time of the whole, how far gathers are ahead, and what happens
// if a product does not wait.
#include "tests/support/systemc_main.h"
#include "tests/support/training_bench.h"
#include "workload/program/rank_programs.h"
#include "workload/training/plan/weight_cache.h"
#include "workload/training/plan/weight_order.h"
#include "workload/training/run/weight_chain.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload;
using namespace railyard::workload::training;
using transformer::Linear;

namespace {

constexpr Bytes kBytes = 1 << 22;
constexpr std::uint32_t kRanks = 2, kUnits = 6, kGather = 100;

struct Chain : JobBench {
  explicit Chain(std::uint32_t ahead)
      : JobBench(training_machine(), kRanks),
        programs(ranks, kCompute, {}, executor, *this),
        gathers(ranks, kComm, collective::CollectiveRequest(), fabric),
        chain(ahead, kRanks, programs) {}

  /// Gathers and multiplies one unit for each of these products.
  void emit(const std::vector<Time>& products, bool waits = true) {
    chain.restart({0, 1});
    for (std::uint32_t i = 0; i < products.size(); ++i) {
      chain.next_unit({0, 1});
      chain.gather(gathers, kBytes, label(kGather + i));
      for (std::uint32_t r = 0; r < kRanks; ++r) {
        if (!waits) programs.waits(r).clear();
        programs.kernels(r, kernel_of(products[i], kSms), 1, label(i));
      }
    }
  }
  Time end() const { return done.at(kUnits - 1); }
  Time gather_time(std::uint32_t i) const { return done.at(kGather + i) - begun.at(kGather + i); }

  RankPrograms programs;
  Communicator gathers;
  WeightChain chain;
};

/// Of one gather alone. @pre no other chain
Time alone() {
  static const Time time = [] {
    Chain chain(0);
    chain.emit({Time::us(1)});
    chain.run();
    return chain.gather_time(0);
  }();
  return time;
}

}  // namespace

BOOST_AUTO_TEST_CASE(gathers_longer_than_products_take_the_sum_of_gathers_and_the_last_product) {
  for (const std::uint32_t ahead : {1u, 2u, 4u}) {
    Chain c(ahead);
    const Time product = Time::us(10);
    c.emit(std::vector<Time>(kUnits, product));
    c.run();
    Time sum;
    for (std::uint32_t i = 0; i < kUnits; ++i) sum += c.gather_time(i);
    BOOST_TEST((c.gather_time(0) > product));
    BOOST_TEST(c.end().fs() == (sum + product).fs());
  }
}

BOOST_AUTO_TEST_CASE(products_longer_than_gathers_hide_all_but_the_first) {
  for (const std::uint32_t ahead : {1u, 2u, 4u}) {
    const Time product = alone() * 2;
    Chain c(ahead);
    c.emit(std::vector<Time>(kUnits, product));
    c.run();
    BOOST_TEST(c.end().fs() == (c.gather_time(0) + product * kUnits).fs());
  }
}

BOOST_AUTO_TEST_CASE(without_units_ahead_every_gather_is_exposed) {
  const Time product = alone() * 2;
  Chain c(0);
  c.emit(std::vector<Time>(kUnits, product));
  c.run();
  Time sum = product * kUnits;
  for (std::uint32_t i = 0; i < kUnits; ++i) sum += c.gather_time(i);
  BOOST_TEST(c.end().fs() == sum.fs());
}

// A gather begins when the gather before has ended, and the product so many units before can begin at the earliest.
BOOST_AUTO_TEST_CASE(gathers_are_as_many_units_ahead_as_asked_for) {
  std::vector<Time> products;  // long and short ones take turns
  for (std::uint32_t i = 0; i < kUnits; ++i) products.push_back(i % 2 == 0 ? alone() * 3 : Time::ns(100));
  Time shorter = Time::max();
  for (const std::uint32_t ahead : {0u, 1u, 2u, 3u}) {
    Chain c(ahead);
    c.emit(products);
    c.run();
    for (std::uint32_t i = 0; i < kUnits; ++i) {
      Time begin = i > 0 ? c.done.at(kGather + i - 1) : Time();
      if (i > ahead) begin = later(begin, c.done.at(i - ahead - 1));
      BOOST_TEST(c.begun.at(kGather + i).fs() == begin.fs(), "gather " << i << ", " << ahead << " ahead");
      const Time product = later(c.done.at(kGather + i), i > 0 ? c.done.at(i - 1) : Time());
      BOOST_TEST(c.begun.at(i).fs() == product.fs(), "product " << i << ", " << ahead << " ahead");
    }
    if (ahead <= 2)
      BOOST_TEST((c.end() < shorter));  // a third one hides no more: a short product follows each long one
    shorter = c.end();
  }
}

BOOST_AUTO_TEST_CASE(a_product_that_does_not_wait_for_its_matrix_is_found) {
  for (const bool waits : {true, false}) {
    Chain c(1);
    WeightOrder order(kRanks);
    const auto copy = [](std::uint32_t i) { return WeightOrder::Copy{i, Linear::fc1, 0}; };
    std::uint32_t early = 0;
    c.when_done = [&](const Job& job) {
      if (c.number_of(job) >= kGather) order.land(job.rank().number, copy(c.number_of(job) - kGather));
    };
    c.when_begun = [&](const Job& job) {
      if (c.number_of(job) >= kGather) return;
      try {
        order.use(job.rank().number, copy(c.number_of(job)));
      } catch (const std::logic_error& error) {
        BOOST_TEST(std::string(error.what()).find("begins before the matrix has landed") != std::string::npos);
        ++early;
      }
    };
    c.emit(std::vector<Time>(kUnits, Time::us(10)), waits);
    c.run();
    BOOST_TEST(early == (waits ? 0 : kRanks * kUnits));
  }
}

BOOST_AUTO_TEST_CASE(a_bucket_that_does_not_wait_for_its_gradients_is_found) {
  WeightOrder order(1);
  constexpr std::uint32_t kGradients = 4;
  constexpr WeightOrder::Part kLayer{3, false}, kExperts{3, true};
  for (std::uint32_t step = 0; step < 2; ++step) {
    for (std::uint32_t i = 0; i < kGradients; ++i) order.add(0, kLayer);
    order.reduce(0, kLayer, kGradients);
  }
  for (std::uint32_t i = 0; i + 1 < kGradients; ++i) order.add(0, kLayer);
  order.add(0, kExperts);  // has a bucket of its own
  BOOST_CHECK_EXCEPTION(order.reduce(0, kLayer, kGradients), std::logic_error, [](const std::logic_error& error) {
    return std::string(error.what()).find("after 11 of 12 scattered gradients") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_matrix_that_was_given_up_must_be_gathered_again) {
  WeightOrder order(2);
  const WeightOrder::Copy copy{0, Linear::qkv, 0};
  order.land(0, copy);
  BOOST_CHECK_NO_THROW(order.use(0, copy));
  BOOST_CHECK_THROW(order.use(1, copy), std::logic_error);
  order.forget(0);
  BOOST_CHECK_THROW(order.use(0, copy), std::logic_error);
}

// A layer's fc1 and fc2 take turns. Their buffers wait for the next layer's, but not for another chain's or type's.
BOOST_AUTO_TEST_CASE(a_buffer_waits_for_the_next_matrix_of_its_kind) {
  WeightCache cache;
  const WeightCache::Kind fc1{{8, 4}, DataType::bf16, false, GatherChain::pass},
      fc2{{4, 8}, DataType::bf16, false, GatherChain::pass},
      again{{8, 4}, DataType::bf16, false, GatherChain::pass_again},
      columns{{8, 4}, DataType::bf16, true, GatherChain::pass};
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    BOOST_TEST(cache.take(fc1) == (layer == 0));
    BOOST_TEST(cache.take(fc2) == (layer == 0));
    cache.give_back(fc1);
    cache.give_back(fc2);
  }
  BOOST_TEST(cache.bytes() == 2u * 64);
  BOOST_TEST(cache.take(fc1) == false);
  BOOST_TEST(cache.take(fc1));
  BOOST_TEST(cache.take(again));
  BOOST_TEST(cache.take(columns));
  BOOST_TEST(cache.bytes() == 5u * 64);
  cache.give_all_back();
  BOOST_TEST(cache.bytes() == 5u * 64);
}
