// Tables of schedules: what is read and written, what an error names, and charts.
#define BOOST_TEST_MODULE training_schedule_text
#include <boost/test/unit_test.hpp>

#include "base/input_error.h"
#include "workload/training/schedule/gantt.h"
#include "workload/training/schedule/spec.h"
#include "workload/training/schedule/text.h"

using namespace railyard;
using namespace railyard::workload::training;

namespace {

/// The error of a table for 2 ranks and 2 micro-batches, or "".
std::string error_of(const std::string& text) {
  try {
    read_table(text, "x.txt", 2, 2);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

const std::string kRank0 = "rank 0: F0 F1 B0 B1\n", kRank1 = "rank 1: F0 B0 F1 B1\n";

Schedule schedule_of(ScheduleKind kind, std::uint32_t ranks, std::uint32_t micro_batches,
                     std::uint32_t virtual_stages) {
  ScheduleSpec spec;
  spec.kind = kind;
  spec.ranks = ranks;
  spec.micro_batches = micro_batches;
  spec.virtual_stages = virtual_stages;
  return make_schedule(spec);
}

std::string chart_of(const Schedule& schedule, std::uint64_t forward, std::uint64_t inputs, std::uint64_t weights,
                     std::size_t width = 120) {
  const StageTimes stage{Time::ns(forward), Time::ns(inputs), Time::ns(weights), {}, {}};
  return gantt_of(schedule, run_schedule(schedule, std::vector<StageTimes>(schedule.stages(), stage)), width);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tables_are_written_in_columns) {
  BOOST_TEST(table_of(schedule_of(ScheduleKind::one_f_one_b, 2, 2, 1), "1f1b") ==
             "# 1f1b\n"
             "rank 0: F0 F1 B0 B1\n"
             "rank 1: F0 B0 F1 B1\n");
  BOOST_TEST(table_of(schedule_of(ScheduleKind::zbv, 2, 1, 2), "a V") ==
             "# a V\n"
             "holders: 0 1 1 0\n"
             "rank 0: F0v0 F0v1 I0v1 W0v1 I0v0 W0v0\n"
             "rank 1: F0v0 F0v1 I0v1 W0v1 I0v0 W0v0\n");
}

BOOST_AUTO_TEST_CASE(tables_may_have_comments_and_lines_in_any_order) {
  BOOST_TEST(error_of(kRank0 + kRank1) == "");
  BOOST_TEST(error_of("# two ranks\n\n  " + kRank1 + "rank 0:\tF0 F1   B0 B1 # B2\r\n") == "");
  BOOST_TEST(error_of(kRank0 + "rank 1: F0 I0 F1 B1 W0\n") == "");  // a split and a whole backward pass
  BOOST_TEST(error_of("rank 0: F0v0 F1v0 F0v1 F1v1 B0v1 B1v1 B0v0 B1v0\n"
                      "rank 1: F0v0 F1v0 F0v1 F1v1 B0v1 B1v1 B0v0 B1v0\n") == "");
  const Schedule reversed = read_table("holders: 1 0\nrank 0: F0 B0\nrank 1: F0 B0\n", "x.txt", 2, 1);
  BOOST_TEST(reversed.slots[0][0].stage == 1u);
  BOOST_TEST(reversed.slots[1][0].stage == 0u);
}

BOOST_AUTO_TEST_CASE(faults_name_the_slot) {
  BOOST_TEST(error_of(kRank0 + "rank 1: F0 B0 F1\n") ==
             "x.txt:2:17: error: B of virtual stage 1, micro-batch 1 is missing on rank 1");
  BOOST_TEST(error_of("rank 0: F0 B0 B1\n" + kRank1) ==
             "x.txt:1:17: error: F of virtual stage 0, micro-batch 1 is missing on rank 0");
  BOOST_TEST(error_of(kRank0 + "rank 1: F0 I0 F1 B1\n") ==
             "x.txt:2:20: error: W of virtual stage 1, micro-batch 0 is missing on rank 1");
  BOOST_TEST(error_of(kRank0 + "rank 1: F0 W0 F1 B1\n") ==
             "x.txt:2:20: error: I of virtual stage 1, micro-batch 0 is missing on rank 1");
  BOOST_TEST(error_of("rank 0: F0 F1 B0 B1 F1\n" + kRank1) ==
             "x.txt:1:21: error: F of virtual stage 0, micro-batch 1 is there twice");
  BOOST_TEST(
      error_of("rank 0: F0 F1 B0 B1 W0\n" + kRank1) ==
      "x.txt:1:21: error: W of virtual stage 0, micro-batch 0 repeats work of an earlier B; a backward pass is B, "
      "or I and W");
  BOOST_TEST(error_of("rank 0: F0 F1 F2 B0 B1\n" + kRank1) ==
             "x.txt:1:15: error: F of virtual stage 0, micro-batch 2: there are 2 micro-batches");
  BOOST_TEST(error_of(kRank0 + "rank 1: F0 B0 B1 F1\n") ==
             "x.txt:2:15: error: B of virtual stage 1, micro-batch 1 comes before F of virtual stage 1, micro-batch 1, "
             "which it needs");
}

BOOST_AUTO_TEST_CASE(a_deadlock_names_its_cycle) {
  BOOST_TEST(
      error_of("rank 0: F0 B0 F1 B1\nrank 1: F0 F1 B0 B1\n") ==
      "x.txt:1:12: error: deadlock: rank 0 waits with B of virtual stage 0, micro-batch 0 for B of virtual stage "
      "1, micro-batch 0; rank 1 waits with F of virtual stage 1, micro-batch 1 for F of virtual stage 0, "
      "micro-batch 1");
}

// A rank that waits for the cycle is not named.
BOOST_AUTO_TEST_CASE(a_deadlock_names_only_its_cycle) {
  try {
    read_table("rank 0: F0 F1 B0 B1\nrank 1: F0 B0 F1 B1\nrank 2: F0 F1 B0 B1\n", "x.txt", 3, 2);
    BOOST_TEST(false, "no error");
  } catch (const InputError& error) {
    BOOST_TEST(
        std::string(error.what()) ==
        "x.txt:2:12: error: deadlock: rank 1 waits with B of virtual stage 1, micro-batch 0 for B of virtual "
        "stage 2, micro-batch 0; rank 2 waits with F of virtual stage 2, micro-batch 1 for F of virtual stage 1, "
        "micro-batch 1");
  }
}

BOOST_AUTO_TEST_CASE(malformed_tables) {
  BOOST_TEST(error_of(kRank0) == "x.txt:1:1: error: the line 'rank 1:' is missing; the pipeline has 2 ranks");
  BOOST_TEST(error_of(kRank0 + kRank1 + "rank 2: F0\n") ==
             "x.txt:3:1: error: there is no rank 2; the pipeline has ranks 0 to 1");
  BOOST_TEST(error_of(kRank0 + " " + kRank0) == "x.txt:2:2: error: rank 0 is in line 1 already");
  for (const char* line : {"ranks 0: F0", "rank: F0", "rank 0 F0", "rank x: F0", "rank -1: F0", "holder: 0 1", "F0"})
    BOOST_TEST(error_of(line) == "x.txt:1:1: error: '" + std::string(line).substr(0, std::string(line).find(' ')) +
                                     "' begins no line of a schedule; accepted: 'rank N: ...', 'holders: ...', '# "
                                     "comment'");
  for (const char* slot : {"G0", "F", "F-1", "F0v", "F0v-1", "F0w1", "F99999999999", "0"})
    BOOST_TEST(
        error_of("rank 0: " + std::string(slot)) ==
        "x.txt:1:9: error: '" + std::string(slot) +
            "' is not a slot; accepted: F, B, I or W, the micro-batch, and on ranks with several virtual stages v "
            "and which of them: F3, W12v1");
  BOOST_TEST(error_of("rank 0: F0v0 F0\nrank 1: F0v1 F0\n") ==
             "x.txt:1:14: error: rank 0 holds 2 virtual stages, so the slot must name one: v0 to v1");
  BOOST_TEST(error_of("rank 0: F0v4000000000\nrank 1: F0\n") ==
             "x.txt:1:9: error: v4000000000 is too large: the rank has 1 slots");
  BOOST_TEST(error_of("holders: 0 1 1\nrank 0: F0v1\nrank 1: F0v0\n") ==
             "x.txt:2:9: error: rank 0 holds no virtual stage v1; accepted: v0 to v0");
  BOOST_TEST(error_of("holders: 0 2\n") == "x.txt:1:12: error: '2' is not a rank; accepted: 0 to 1");
  BOOST_TEST(error_of("holders: 0 0\n") == "x.txt:1:1: error: rank 1 holds no virtual stage; the pipeline has 2 ranks");
  BOOST_TEST(error_of("holders: 0 1\nholders: 0 1\n") == "x.txt:2:1: error: holders are given twice");
}

BOOST_AUTO_TEST_CASE(charts_draw_slots_to_scale) {
  BOOST_TEST(chart_of(schedule_of(ScheduleKind::one_f_one_b, 2, 2, 1), 1, 1, 1, 50) ==
             "rank 0 |F0--F1--........B0------....B1------\n"
             "rank 1 |....F0--B0------F1--B1------........\n"
             "F forward, B backward, I of inputs, W of weights; then the last digits of the micro-batch; . idle\n");
  BOOST_TEST(chart_of(schedule_of(ScheduleKind::zbv, 1, 1, 2), 1, 1, 1, 50) ==
             "rank 0 |F0--f0--i0--w0--I0--W0--\n"
             "F forward, B backward, I of inputs, W of weights; then the last digits of the micro-batch; . idle; f b i "
             "w: later "
             "stages\n");
}

// Whatever the durations, each rank's line is as long as the others and has at most so many columns.
BOOST_AUTO_TEST_CASE(charts_keep_their_width) {
  for (const std::uint32_t m : {1, 5, 40, 400}) {
    for (const std::uint64_t forward : {0, 1, 97}) {
      const std::string chart = chart_of(schedule_of(ScheduleKind::zb_h1, 12, m, 1), forward, 101, 53);
      std::size_t length = chart.find('\n'), begin = 0;
      BOOST_TEST(length <= 120u);
      BOOST_TEST(length > 60u);
      for (std::uint32_t rank = 0; rank < 12; ++rank, begin += length + 1)
        BOOST_TEST(chart.find('\n', begin) == begin + length);
    }
  }
}
