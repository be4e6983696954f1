// Streams, jobs and the executor: what begins when.
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload;

namespace {

/// A task that begins when its stream lets it and ends when it is told to.
struct Step : gpu::Task {
  void begin() override { ++begun_times; }
  void reached() override { was_reached = true; }
  gpu::Activity activity() const override { return gpu::Activity::kernel; }
  void end() { finish(); }
  int begun_times = 0;
  bool was_reached = false;
};

using Bench = JobBench;

}  // namespace

BOOST_AUTO_TEST_CASE(a_stream_begins_its_tasks_in_order) {
  gpu::Stream stream;
  Step first, second;
  stream.push(first);
  BOOST_TEST(first.begun_times == 1);
  stream.push(second);
  BOOST_TEST(!second.was_reached);
  BOOST_TEST(second.begun_times == 0);
  first.end();
  BOOST_TEST(second.begun_times == 1);
  BOOST_TEST((stream.front() == &second));
  second.end();
  BOOST_TEST(stream.empty());
}

BOOST_AUTO_TEST_CASE(a_task_waits_for_all_it_was_told_of_even_late) {
  gpu::Stream stream;
  Step first, second;
  second.wait_for_one_more();
  stream.push(first);
  stream.push(second);
  second.wait_for_one_more();  // declared when it is already in its stream
  second.waited();
  first.end();
  BOOST_TEST(second.was_reached);
  BOOST_TEST(second.begun_times == 0);
  second.waited();
  BOOST_TEST(second.begun_times == 1);
}

BOOST_AUTO_TEST_CASE(what_is_over_before_the_stream_gets_there_does_not_hold_it) {
  gpu::Stream stream;
  Step first, second;
  stream.push(first);
  second.wait_for_one_more();
  stream.push(second);
  second.waited();
  BOOST_TEST(second.begun_times == 0);  // still behind the first
  first.end();
  BOOST_TEST(second.begun_times == 1);
}

BOOST_AUTO_TEST_CASE(kernels_of_a_stream_follow_each_other_and_streams_run_side_by_side) {
  Bench b;
  b.kernel(0, Time::us(3), 0);
  b.kernel(0, Time::us(2), 1);
  b.kernel(1, Time::us(4), 2);
  b.run();
  BOOST_TEST((b.begun[1] == Time::us(3)));
  BOOST_TEST((b.done[1] == Time::us(5)));
  BOOST_TEST((b.begun[2] == Time()));
  BOOST_TEST((b.done[2] == Time::us(4)));
  const double busy = Bench::kSms * 5e-6;
  BOOST_TEST(b.ranks[0]->gpu->sms().busy_sm_seconds(b.fabric.now()) == busy, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_kernel_waits_for_jobs_of_other_streams) {
  Bench b;
  const JobRef slow = b.kernel(1, Time::us(7), 0);
  const JobRef slower = b.kernel(2, Time::us(9), 1);
  b.kernel(0, Time::us(1), 2, {slow, slower});
  b.kernel(0, Time::us(1), 3);  // in order: behind it although it waits for nothing
  b.run();
  BOOST_TEST((b.begun[2] == Time::us(9)));
  BOOST_TEST((b.begun[3] == Time::us(10)));
}

BOOST_AUTO_TEST_CASE(a_job_that_is_over_is_not_waited_for_even_when_its_object_works_again) {
  Bench b;
  const JobRef old = b.kernel(1, Time::us(1), 0);
  b.later_on(Time::us(2), [&] {
    const JobRef again = b.kernel(1, Time::us(100), 1);
    BOOST_TEST_REQUIRE((again.job == old.job));  // reused
    BOOST_TEST((again.generation != old.generation));
    b.kernel(0, Time::us(1), 2, {old});
    b.kernel(2, Time::us(1), 3, {again});
  });
  b.run();
  BOOST_TEST((b.begun[2] == Time::us(2)));
  BOOST_TEST((b.begun[3] == Time::us(102)));
}

BOOST_AUTO_TEST_CASE(no_job_is_lost_when_many_objects_are_used_again) {
  Bench b;
  int jobs = 0;
  b.when_done = [&](const Job& job) {
    if (JobBench::number_of(job) >= 5000) return;
    b.kernel(JobBench::number_of(job) % 4, Time::ns(10), JobBench::number_of(job) + 4, {});
    ++jobs;
  };
  for (std::uint32_t i = 0; i < 4; ++i) b.kernel(i, Time::ns(10), i);
  b.run();
  BOOST_TEST(b.done.size() == static_cast<std::size_t>(jobs) + 4);
  BOOST_TEST(b.executor.jobs() == static_cast<std::uint64_t>(jobs) + 4);
}

BOOST_AUTO_TEST_CASE(a_dependant_declared_while_the_job_reports_its_end_is_not_forgotten) {
  Bench b;
  JobRef first;
  b.when_done = [&](const Job& job) {
    if (JobBench::number_of(job) == 0) b.kernel(1, Time::us(1), 1, {first});
  };
  first = b.kernel(0, Time::us(3), 0);
  b.run();
  BOOST_TEST((b.begun[1] == Time::us(3)));
}

BOOST_AUTO_TEST_CASE(a_dependant_declared_while_others_are_let_go_does_not_wait) {
  Bench b;
  JobRef first;
  b.when_begun = [&](const Job& job) {
    for (std::uint32_t i = 0; JobBench::number_of(job) == 1 && i < 20; ++i) b.kernel(2, Time::us(1), 10 + i, {first});
  };
  first = b.kernel(0, Time::us(3), 0);
  b.kernel(1, Time::us(1), 1, {first});
  b.kernel(3, Time::us(1), 2, {first});
  b.run();
  BOOST_TEST((b.begun[1] == Time::us(3)));
  BOOST_TEST((b.begun[2] == Time::us(3)));
  BOOST_TEST((b.begun[10] == Time::us(3)));
  BOOST_TEST((b.done[29] == Time::us(23)));
}

BOOST_AUTO_TEST_CASE(a_send_leaves_its_stream_when_posted_and_is_done_when_it_has_landed) {
  Bench b;
  constexpr Bytes kBytes = 1 << 20;
  const Time x = b.alone(0, 1, kBytes);
  const JobRef first = b.copy(0, {1}, kBytes, 0);
  b.copy(0, {1}, kBytes, 1);
  b.kernel(1, Time::us(1), 2, {first});
  b.run();
  BOOST_TEST((b.begun[1] == Time()));  // posted at once, the bytes queue on the link
  BOOST_TEST((b.done[0] == x));
  BOOST_TEST((b.begun[2] == x));
  BOOST_TEST((b.done[1] > x));
  BOOST_TEST(b.done[1].seconds() == 2 * x.seconds(), boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(a_send_of_several_messages_is_done_with_the_last) {
  Bench b;
  constexpr Bytes kBytes = 1 << 20;
  b.copy(0, {1, 2, 3}, kBytes, 0);
  b.run();
  // One sender, three receivers: its own link carries all three.
  BOOST_TEST(b.done[0].seconds() == 3 * b.alone(0, 1, kBytes).seconds(), boost::test_tools::tolerance(0.02));
}

BOOST_AUTO_TEST_CASE(a_send_of_nothing_is_done_at_once) {
  Bench b;
  const JobRef nothing = b.copy(0, {}, 0, 0);
  b.kernel(1, Time::us(1), 1, {nothing});
  b.run();
  BOOST_TEST((b.begun[1] == Time()));
}

BOOST_AUTO_TEST_CASE(a_rank_enters_a_collective_when_its_stream_gets_there) {
  Bench b;
  collective::CollectiveSpec spec;
  spec.bytes = 400'000;
  spec.channels = 4;
  Communicator all(b.ranks, Bench::kCompute, {}, b.fabric);
  b.kernel(2, Time::us(50), 0);
  const JobRef elsewhere = b.kernel(0, Time::us(20), 1);
  b.collective(all, spec, 9, {elsewhere});
  b.kernel(1, Time::us(1), 2);  // behind its member of the collective
  b.later_on(Time::us(40), [&] { BOOST_TEST(b.ranks[1]->gpu->sms().active() == spec.channels); });
  b.run();
  BOOST_TEST((b.begun[9] == Time()));       // members 1 and 3
  BOOST_TEST((b.begun[2] > Time::us(50)));  // nobody is through before member 2 has entered
  BOOST_TEST((b.done[9] > Time::us(50)));
  // The collective alone, everybody there: the late member delayed it that long, but for acks that it did not meet.
  Bench alone;
  Communicator everyone(alone.ranks, Bench::kCompute, {}, alone.fabric);
  alone.collective(everyone, spec, 9);
  alone.run();
  BOOST_TEST(b.done[9].seconds() == 50e-6 + alone.done[9].seconds(), boost::test_tools::tolerance(0.01));
}

// Two ranks, two streams, two collectives of more than half of a GPU's SMs each: a framework that launches them in opposite
// order hangs.
BOOST_AUTO_TEST_CASE(collectives_launched_in_opposite_order_are_reported_as_a_deadlock) {
  for (const bool opposite : {false, true}) {
    Bench b;
    const std::vector<Rank*> two{b.ranks[0], b.ranks[1]};
    Communicator compute(two, Bench::kCompute, {}, b.fabric), comm(two, Bench::kComm, {}, b.fabric);
    collective::CollectiveSpec spec;
    spec.bytes = 400'000;
    spec.channels = b.ranks[0]->gpu->datasheet().sm.count / 2 + 1;
    const JobRef first = b.kernel(2, Time::us(1), 0), second = b.kernel(3, Time::us(2), 1);
    b.collective(compute, spec, 7, {first, opposite ? second : first});
    b.collective(comm, spec, 8, {second, opposite ? first : second});
    if (!opposite) {
      b.run();
      BOOST_TEST((b.done[8] > b.done[7]));
      continue;
    }
    sc_core::sc_start();
    BOOST_TEST(b.executor.live() == 4u);
    const std::vector<std::string> lines = b.executor.sm_waits();
    BOOST_TEST_REQUIRE(lines.size() == 3u);
    BOOST_TEST(lines[0].find("job 7 waits for 72 of the 142 SMs of prefill0.gpu1: job 8 holds 72") == 0u, lines[0]);
    BOOST_TEST(lines[1].find("job 8 waits for 72 of the 142 SMs of prefill0.gpu0: job 7 holds 72") == 0u, lines[1]);
    BOOST_TEST(lines[2] ==
               "a deadlock, each waits for SMs that the next one holds: job 7 on prefill0.gpu1 > job 8 on "
               "prefill0.gpu0 > job 7");
  }
}
