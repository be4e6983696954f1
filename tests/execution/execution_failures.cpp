// Jobs after a link failure: which jobs fail, which jobs are cancelled, and which jobs continue.
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"
#include "transport/faults.h"
#include "transport/recovery.h"

using namespace railyard;
using namespace railyard::test;

namespace {

constexpr Bytes kBytes = 10'000'000;

/// Both directions of a GPU's own link, lost at `when`.
void cut_off(JobBench& b, std::uint32_t rank, Time when) {
  gpu::Gpu& gpu = *b.ranks[rank]->gpu;
  const transport::Device::Port& port = gpu.port(PortId(0));
  b.fabric.faults().fail(when, {{&gpu, PortId(0)}, {port.peer, port.peer_port}});
}

collective::CollectiveSpec ring(Bytes bytes) {
  collective::CollectiveSpec spec;
  spec.operation = collective::Operation::all_reduce;
  spec.bytes = bytes;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_two_requests_one_is_cut_off_and_the_other_finishes) {
  // Each request computes on one GPU, copies its result to a second GPU, and computes there. The second GPU of one request
  // loses its link.
  JobBench b;
  b.goes_on = true;
  const auto request = [&](std::uint32_t from, std::uint32_t to, std::uint32_t first) {
    const JobRef computed = b.kernel(from, Time::us(10), first);
    const JobRef handed = b.copy(from, {to}, kBytes, first + 1, {computed});
    b.kernel(to, Time::us(20), first + 3, {b.kernel(to, Time::us(20), first + 2, {handed})});
  };
  cut_off(b, 3, Time::us(30));
  b.later_on(Time(), [&] {
    request(0, 1, 0);
    request(2, 3, 10);
  });
  b.run();
  BOOST_TEST((b.done[3] == Time::us(50) + b.alone(0, 1, kBytes)));
  BOOST_TEST((b.done.count(10) == 1));
  BOOST_TEST((b.failed == std::map<std::uint32_t, Status>{
                              {11, Status::undeliverable}, {12, Status::cancelled}, {13, Status::cancelled}}));
  BOOST_TEST(b.begun.count(12) == 0u);
  BOOST_TEST(!b.fabric.recovery().undeliverable().has_value());
}

BOOST_AUTO_TEST_CASE(a_loss_that_its_client_does_not_accept_is_on_record) {
  JobBench b;
  cut_off(b, 3, Time::us(30));
  b.later_on(Time(), [&] { b.copy(2, {3}, kBytes, 0); });
  b.run();
  BOOST_TEST_REQUIRE(b.fabric.recovery().undeliverable().has_value());
  BOOST_TEST((b.fabric.recovery().undeliverable()->at >= Time::us(30)));
  BOOST_TEST((b.fabric.recovery().undeliverable()->at < Time::us(31)));
  BOOST_TEST(b.fabric.recovery().undeliverable()->part_of == "job 0");
}

BOOST_AUTO_TEST_CASE(a_collective_that_loses_a_member_ends_on_every_rank) {
  // The streams continue afterwards: a collective of two ranks that still have a path runs next.
  JobBench b;
  b.goes_on = true;
  Communicator all(b.ranks, JobBench::kComm, {}, b.fabric);
  Communicator two({b.ranks[0], b.ranks[1]}, JobBench::kComm, {}, b.fabric);
  cut_off(b, 3, Time::us(100));
  b.later_on(Time(), [&] {
    b.collective(all, ring(kBytes), 0);
    b.collective(two, ring(kBytes), 1);
  });
  b.run();
  BOOST_TEST((b.failed == std::map<std::uint32_t, Status>{{0, Status::undeliverable}}));
  BOOST_TEST(b.done.count(1) == 1u);
  BOOST_TEST((b.begun[1] > Time::us(100)));
  BOOST_TEST((b.begun[1] < Time::us(200)));
}

BOOST_AUTO_TEST_CASE(a_collective_one_of_whose_members_is_cancelled_ends_on_every_rank) {
  JobBench b;
  b.goes_on = true;
  Communicator pair({b.ranks[0], b.ranks[1]}, JobBench::kCompute, {}, b.fabric);
  cut_off(b, 3, Time::us(30));
  b.later_on(Time(), [&] {
    const JobRef lost = b.copy(2, {3}, kBytes, 0);
    b.collective(pair, ring(kBytes), 1, {lost});
    b.kernel(1, Time::us(5), 2);  // waits for its turn alone
  });
  b.run();
  BOOST_TEST((b.failed == std::map<std::uint32_t, Status>{{0, Status::undeliverable}, {1, Status::cancelled}}));
  BOOST_TEST(b.done.count(2) == 1u);
}
