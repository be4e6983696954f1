// The critical path: chains without gaps whose costs add up, and what-ifs that come true.
#include "probe/critical_path.h"

#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using probe::CriticalPath;
using transport::Cost;
using transport::CostKind;

namespace {

constexpr std::size_t kClasses = 4;

struct Followed : JobBench {
  Followed() : path(fabric, {kClasses, 0, 0}, {}, {}) { executor.follow(path, path); }
  /// The end's chain, from its first piece on; asserts that it has no gap and that costs add up.
  std::vector<const probe::Cause*> chain() {
    const CriticalPath::Measure end = path.end();
    std::vector<const probe::Cause*> pieces;
    Time until = end.to;
    for (const probe::Cause* cause = end.chain.get(); cause != nullptr; cause = cause->before.get()) {
      BOOST_TEST(cause->to.fs() == until.fs());
      Time costs;
      for (const Cost& cost : cause->costs) costs += cost.time;
      BOOST_TEST(costs.fs() == (cause->to - cause->from).fs());
      until = cause->from;
      pieces.insert(pieces.begin(), cause);
      held_.push_back(end.chain);
    }
    BOOST_TEST(until.fs() == 0u);
    return pieces;
  }
  double if_free(std::size_t number) { return path.end().if_free[number]; }
  double if_free(CostKind kind) { return if_free(static_cast<std::size_t>(kind)); }

  CriticalPath path;

 private:
  std::vector<probe::CauseRef> held_;
};

std::vector<std::string> names(const std::vector<const probe::Cause*>& chain) {
  std::vector<std::string> all;
  for (const probe::Cause* cause : chain)
    if (all.empty() || all.back() != cause->name) all.push_back(cause->name);
  return all;
}

const auto kExact = boost::test_tools::tolerance(1e-12);

}  // namespace

BOOST_AUTO_TEST_CASE(a_transfer_between_kernels_is_on_the_path_and_the_shorter_branch_is_not) {
  Followed b;
  constexpr Bytes kBytes = 1 << 20;
  const Time landing = b.alone(0, 1, kBytes);
  const JobRef first = b.kernel(0, Time::us(50), 1);
  const JobRef sent = b.copy(0, {1}, kBytes, 2, {first});
  const JobRef other = b.kernel(2, Time::us(60), 3);
  b.kernel(1, Time::us(30), 4, {sent, other});
  b.run();

  BOOST_TEST((names(b.chain()) == std::vector<std::string>{"job 1", "job 2", "job 4"}));
  const double end = (Time::us(80) + landing).seconds();
  BOOST_TEST(b.path.end().seconds == end, kExact);
  // Without the transfer the other branch is what the last kernel waits for; without kernels the transfer is all there is.
  BOOST_TEST(b.if_free(CriticalPath::Frees{kClasses, 0, 0}.of_class(0)) == Time::us(90).seconds(), kExact);
  BOOST_TEST(b.if_free(CostKind::kernel) == landing.seconds(), kExact);
  BOOST_TEST(b.if_free(CostKind::sm_wait) == end, kExact);
  // These kernels are all work of SMs.
  const CriticalPath::Frees frees{kClasses, 0, 0};
  BOOST_TEST(b.if_free(frees.of_resource(static_cast<std::size_t>(gpu::KernelLimit::tensor))) == landing.seconds(),
             kExact);
  BOOST_TEST(b.if_free(frees.of_resource(static_cast<std::size_t>(gpu::KernelLimit::hbm))) == end, kExact);
}

BOOST_AUTO_TEST_CASE(a_stream_keeps_its_order_in_a_chain) {
  Followed b;
  b.kernel(0, Time::us(10), 1);
  b.kernel(0, Time::us(20), 2);
  const JobRef third = b.kernel(0, Time::us(5), 3);
  b.kernel(1, Time::us(30), 4);
  b.kernel(1, Time::us(1), 5, {third});
  b.run();
  BOOST_TEST((names(b.chain()) == std::vector<std::string>{"job 1", "job 2", "job 3", "job 5"}));
  BOOST_TEST(b.path.end().seconds == Time::us(36).seconds(), kExact);
}

BOOST_AUTO_TEST_CASE(a_collective_goes_back_to_the_member_that_came_last) {
  collective::CollectiveSpec spec;
  spec.bytes = 1 << 20;
  spec.algorithm = collective::Algorithm::ring;
  spec.channels = 1;
  for (const std::uint32_t late : {0u, 2u, 3u}) {
    Followed b;
    Communicator all(b.ranks, JobBench::kCompute, {}, b.fabric);
    std::vector<JobRef> after;
    for (std::uint32_t r = 0; r < 4; ++r) after.push_back(b.kernel(r, r == late ? Time::ms(2) : Time::us(10 + r), r));
    b.collective(all, spec, 9);
    b.run();
    BOOST_TEST((names(b.chain()) == std::vector<std::string>{"job " + std::to_string(late), "job 9"}));
    BOOST_TEST(b.chain().back()->from.fs() == Time::ms(2).fs());
    // With kernels free everybody enters at once: no less than what the late one's ring took then.
    BOOST_TEST(b.if_free(CostKind::kernel) == (b.done[9] - Time::ms(2)).seconds(), kExact);
  }
}

BOOST_AUTO_TEST_CASE(what_was_emitted_because_of_a_job_goes_back_to_it) {
  Followed b;
  b.when_done = [&](const Job& job) {
    if (JobBench::number_of(job) == 1) b.kernel(1, Time::us(7), 2);
  };
  b.kernel(0, Time::us(11), 1);
  // From outside: a chain of its own, that nothing before can shorten.
  b.later_on(Time::us(100), [&] { b.kernel(2, Time::us(4), 3); });
  b.run();
  BOOST_TEST(b.path.end().seconds == Time::us(104).seconds(), kExact);
  BOOST_TEST(b.if_free(CostKind::kernel) == Time::us(100).seconds(), kExact);
  const auto costs = b.path.end().cost_seconds;
  BOOST_TEST(costs.at(Cost{CostKind::arrival, 0, nullptr, {}, {}, {}}.key()) == Time::us(100).seconds(), kExact);
}

BOOST_AUTO_TEST_CASE(a_chain_of_a_million_pieces_is_given_back_without_recursion) {
  probe::CauseRef last;
  for (int i = 0; i < 1'000'000; ++i) last = probe::CauseRef(new probe::Cause{last, Time(), Time(), {}, {}, 0, 0});
  BOOST_TEST(last->holders == 1u);
}
