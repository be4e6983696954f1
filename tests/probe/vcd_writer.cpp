// The waveform writer: exact files, order of what was posted ahead, the window, and what is left of an interrupted run.
#define BOOST_TEST_MODULE vcd_writer
#include "probe/vcd_writer.h"

#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <random>

#include "tests/probe/vcd_reader.h"

using namespace railyard;
using namespace railyard::probe;
using railyard::test::file_text;
using railyard::test::parse_vcd;
using Changes = std::vector<std::pair<std::uint64_t, std::string>>;

namespace {

// A file of this test case's own: ctest may run the cases at the same time.
std::string scratch_path() {
  const std::string name = "vcd_writer." + boost::unit_test::framework::current_test_case().p_name.get() + ".vcd";
  return (std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + name)).string();
}

struct Scratch {
  std::string path = scratch_path();
  ~Scratch() { std::filesystem::remove(path); }
  std::string text() const { return file_text(path); }
  test::VcdFile parsed() const { return parse_vcd(text()); }
};

void check_changes(const Changes& actual, const Changes& expected) {
  BOOST_REQUIRE_EQUAL(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    BOOST_TEST(actual[i].first == expected[i].first);
    BOOST_TEST(actual[i].second == expected[i].second);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(small_file_is_exactly_this) {
  Scratch file;
  {
    VcdWriter vcd(file.path);
    const Signal busy = vcd.add_wire("prefill0.plx0.port[3].tx.busy", 1);
    const Signal active = vcd.add_wire("prefill0.gpu[3].sm.active", 8);
    const Signal load = vcd.add_real("prefill0.plx0.port[3].tx.load");
    const Signal kernel = vcd.add_string("prefill0.gpu[3].kernel");
    BOOST_TEST(vcd.full_name(active) == "railyard.prefill0.gpu3.sm.active[7:0]");
    BOOST_TEST(vcd.full_name(busy) == "railyard.prefill0.plx0.port3.tx.busy");
    vcd.start();
    vcd.change_string(kernel, Time::fs(0), "gemm up\\down");
    vcd.busy_until(busy, Time::fs(25));
    vcd.advance(Time::fs(10));
    vcd.change(active, Time::fs(10), 132);
    vcd.change_real(load, Time::fs(30), 0.1);
    vcd.finish(Time::fs(40));
  }
  BOOST_TEST(file.text() ==
             "$version Railyard $end\n"
             "$timescale 1 fs $end\n"
             "$scope module railyard $end\n"
             "$scope module prefill0 $end\n"
             "$scope module plx0 $end\n"
             "$scope module port3 $end\n"
             "$scope module tx $end\n"
             "$var wire 1 ! busy $end\n"
             "$var real 64 # load $end\n"
             "$upscope $end\n"
             "$upscope $end\n"
             "$upscope $end\n"
             "$scope module gpu3 $end\n"
             "$var string 1 $ kernel $end\n"
             "$scope module sm $end\n"
             "$var wire 8 \" active [7:0] $end\n"
             "$upscope $end\n"
             "$upscope $end\n"
             "$upscope $end\n"
             "$upscope $end\n"
             "$enddefinitions $end\n"
             "#0\n"
             "$dumpvars\n"
             "1!\n"
             "b0 \"\n"
             "r0 #\n"
             "sgemm\\040up\\134down $\n"
             "$end\n"
             "#10\n"
             "b10000100 \"\n"
             "#25\n"
             "0!\n"
             "#30\n"
             "r0.1 #\n"
             "#40\n");
}

BOOST_AUTO_TEST_CASE(changes_posted_ahead_come_in_order_of_time_then_posting) {
  Scratch file;
  VcdWriter vcd(file.path);
  const Signal a = vcd.add_wire("a", 16);
  const Signal b = vcd.add_wire("b", 16);
  const Signal text = vcd.add_string("text");
  vcd.start();
  vcd.change(a, Time::fs(300), 3);
  vcd.change(a, Time::fs(100), 1);
  vcd.change(a, Time::fs(200), 2);
  vcd.change(b, Time::fs(200), 7);
  vcd.change(b, Time::fs(200), 8);  // the later posting of one instant counts
  vcd.change_string(text, Time::fs(250), "second");
  vcd.change_string(text, Time::fs(150), "first");
  vcd.add(a, Time::fs(400), 10);
  vcd.add(a, Time::fs(350), -2);
  vcd.advance(Time::fs(200));
  vcd.change(a, Time::fs(200), 5);  // the present comes after what was posted for it
  vcd.finish(Time::fs(1000));
  const auto parsed = file.parsed();
  check_changes(parsed.at("railyard.a[15:0]"),
                {{0, "0"}, {100, "1"}, {200, "101"}, {300, "11"}, {350, "1"}, {400, "1011"}});
  check_changes(parsed.at("railyard.b[15:0]"), {{0, "0"}, {200, "1000"}});
  check_changes(parsed.at("railyard.text"), {{0, ""}, {150, "first"}, {250, "second"}});
  BOOST_TEST(parsed.stamps.back() == 1000u);
  BOOST_TEST(parsed.timescale == "1fs");
}

BOOST_AUTO_TEST_CASE(a_busy_wire_is_extended_without_a_glitch) {
  Scratch file;
  VcdWriter vcd(file.path);
  const Signal busy = vcd.add_wire("busy", 1);
  vcd.start();
  vcd.advance(Time::fs(10));
  vcd.busy_until(busy, Time::fs(20));
  vcd.advance(Time::fs(15));
  vcd.busy_until(busy, Time::fs(30));  // moved before it fell
  vcd.advance(Time::fs(30));
  vcd.busy_until(busy, Time::fs(40));  // falls and rises in one instant: stays high
  vcd.advance(Time::fs(35));
  vcd.busy_until(busy, Time::fs(60));
  vcd.advance(Time::fs(36));
  vcd.busy_until(busy, Time::fs(45));  // cut short
  vcd.advance(Time::fs(50));
  vcd.busy_until(busy, Time::fs(70));
  vcd.advance(Time::fs(65));
  vcd.busy_until(busy, Time::fs(65));  // ended at once
  vcd.advance(Time::fs(80));
  vcd.busy_until(busy, Time::fs(80));  // busy for no time at all
  vcd.finish(Time::fs(100));
  check_changes(file.parsed().at("railyard.busy"), {{0, "0"}, {10, "1"}, {45, "0"}, {50, "1"}, {65, "0"}});
}

BOOST_AUTO_TEST_CASE(a_value_stands_until_its_end_or_the_next) {
  Scratch file;
  VcdWriter vcd(file.path);
  const Signal bytes = vcd.add_wire("bytes", 16);
  vcd.start();
  vcd.advance(Time::fs(10));
  vcd.change_until(bytes, Time::fs(20), 3);
  vcd.advance(Time::fs(15));
  vcd.change_until(bytes, Time::us(90), 7);  // more than what fits in 32 bits of fs ahead
  vcd.advance(Time::us(50));
  vcd.change_until(bytes, Time::us(60), 5);
  BOOST_CHECK_THROW(vcd.change_until(bytes, Time::us(60), 1 << 16), std::logic_error);
  vcd.finish(Time::us(100));
  check_changes(file.parsed().at("railyard.bytes[15:0]"),
                {{0, "0"}, {10, "11"}, {15, "111"}, {Time::us(50).fs(), "101"}, {Time::us(60).fs(), "0"}});
}

BOOST_AUTO_TEST_CASE(a_text_stands_until_its_end_or_the_next) {
  Scratch file;
  VcdWriter vcd(file.path);
  const Signal name = vcd.add_string("name");
  vcd.start();
  vcd.advance(Time::fs(10));
  vcd.text_until(name, Time::fs(20), "tp");
  vcd.advance(Time::fs(20));
  vcd.text_until(name, Time::fs(40), "kv");  // ends and begins in one instant: nothing between
  vcd.advance(Time::fs(30));
  vcd.text_until(name, Time::fs(60), "tp");  // takes over, and lasts longer
  vcd.advance(Time::fs(70));
  vcd.text_until(name, Time::fs(80), "pp");
  vcd.advance(Time::fs(75));
  vcd.text_until(name, Time::fs(78), "pp");
  vcd.finish(Time::fs(100));
  check_changes(file.parsed().at("railyard.name"),
                {{0, ""}, {10, "tp"}, {20, "kv"}, {30, "tp"}, {60, ""}, {70, "pp"}, {78, ""}});
}

BOOST_AUTO_TEST_CASE(equal_values_are_written_once) {
  Scratch file;
  VcdWriter vcd(file.path);
  const Signal depth = vcd.add_wire("depth", 4);
  const Signal load = vcd.add_real("load");
  const Signal kernel = vcd.add_string("kernel");
  vcd.start();
  for (std::uint64_t t = 1; t <= 50; ++t) {
    vcd.advance(Time::fs(t));
    vcd.change(depth, Time::fs(t), 9);
    vcd.change_real(load, Time::fs(t), 2.5);
    vcd.change_string(kernel, Time::fs(t), "gemm");
  }
  vcd.advance(Time::fs(60));  // up and down within one instant is no change either
  vcd.change(depth, Time::fs(60), 1);
  vcd.change(depth, Time::fs(60), 9);
  vcd.finish(Time::fs(70));
  const auto parsed = file.parsed();
  check_changes(parsed.at("railyard.depth[3:0]"), {{0, "0"}, {1, "1001"}});
  check_changes(parsed.at("railyard.load"), {{0, "0"}, {1, "2.5"}});
  check_changes(parsed.at("railyard.kernel"), {{0, ""}, {1, "gemm"}});
  BOOST_TEST(parsed.stamps == (std::vector<std::uint64_t>{0, 1, 70}));
}

BOOST_AUTO_TEST_CASE(window_folds_what_came_before_and_drops_what_comes_after) {
  Scratch file;
  VcdWriter vcd(file.path, {Time::fs(100), Time::fs(200), {}});
  const Signal count = vcd.add_wire("count", 32);
  const Signal busy = vcd.add_wire("busy", 1);
  vcd.start();
  for (std::uint64_t t = 10; t <= 300; t += 10) {
    vcd.advance(Time::fs(t));
    vcd.change(count, Time::fs(t), t);
    if (t == 190) vcd.busy_until(busy, Time::fs(1000));  // falls outside, rises inside
  }
  vcd.finish(Time::fs(300));
  const auto parsed = file.parsed();
  check_changes(parsed.at("railyard.busy"), {{100, "0"}, {190, "1"}});
  const auto& changes = parsed.at("railyard.count[31:0]");
  BOOST_REQUIRE_EQUAL(changes.size(), 11u);
  BOOST_TEST(changes.front().first == 100u);
  BOOST_TEST(changes.front().second == "1100100");  // 100: the change of the window's first instant is in the dump
  BOOST_TEST(changes.back().first == 200u);
  BOOST_TEST(changes.back().second == "11001000");  // 200: the last instant is inside
  BOOST_TEST(parsed.stamps.back() == 200u);
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_before_the_window_leaves_an_empty_waveform) {
  Scratch file;
  VcdWriter vcd(file.path, {Time::ns(5), Time::max(), {}});
  const Signal a = vcd.add_wire("a", 1);
  vcd.start();
  vcd.change(a, Time::ns(1), 1);
  vcd.finish(Time::ns(2));
  BOOST_TEST(file.parsed().stamps.empty());
}

BOOST_AUTO_TEST_CASE(filter_takes_globs_and_whole_scopes) {
  Scratch file;
  VcdWriter vcd(file.path, {Time(), Time::max(), {"*.port3.*.busy", "decode0.gpu1"}});
  const Signal in = vcd.add_wire("prefill0.plx0.port[3].tx.busy", 1);
  const Signal out = vcd.add_wire("prefill0.plx0.port[31].tx.busy", 1);
  const Signal below = vcd.add_string("decode0.gpu[1].stream.kernel");
  const Signal beside = vcd.add_real("decode0.gpu[10].load");
  BOOST_TEST(in.valid());
  BOOST_TEST(!out.valid());
  BOOST_TEST(below.valid());
  BOOST_TEST(!beside.valid());
  BOOST_TEST(vcd.full_name(out) == "");
  vcd.start();
  vcd.change(out, Time::fs(5), 1);
  vcd.busy_until(out, Time::fs(5));
  vcd.add(out, Time::fs(7), -1);
  vcd.change_real(beside, Time::fs(5), 1.0);
  vcd.change_string(below, Time::fs(5), "gemm");
  vcd.busy_until(in, Time::fs(5));
  vcd.finish(Time::fs(10));
  const auto parsed = file.parsed();
  BOOST_TEST(parsed.signals.size() == 2u);
  check_changes(parsed.at("railyard.prefill0.plx0.port3.tx.busy"), {{0, "1"}, {5, "0"}});
  check_changes(parsed.at("railyard.decode0.gpu1.stream.kernel"), {{0, ""}, {5, "gemm"}});
}

BOOST_AUTO_TEST_CASE(names_are_rewritten_and_may_not_meet) {
  Scratch file;
  VcdWriter vcd(file.path);
  BOOST_TEST(vcd.full_name(vcd.add_wire("GPU_P[0][3]_PCI.tx busy", 1)) == "railyard.GPU_P0_3_PCI.tx_busy");
  BOOST_CHECK_THROW(vcd.add_wire("GPU_P[0][3]_PCI.tx/busy", 1), std::logic_error);
  BOOST_CHECK_THROW(vcd.add_wire("a..b", 1), std::logic_error);
  BOOST_CHECK_THROW(vcd.add_wire("", 1), std::logic_error);
  BOOST_CHECK_THROW(vcd.add_wire("wide", 65), std::logic_error);
  vcd.start();
  BOOST_CHECK_THROW(vcd.add_wire("late", 1), std::logic_error);
}

BOOST_AUTO_TEST_CASE(the_past_and_misfits_are_refused) {
  Scratch file;
  VcdWriter vcd(file.path);
  const Signal depth = vcd.add_wire("depth", 4);
  const Signal load = vcd.add_real("load");
  const Signal text = vcd.add_string("text");
  vcd.start();
  vcd.advance(Time::fs(10));
  BOOST_CHECK_THROW(vcd.change(depth, Time::fs(9), 1), std::logic_error);
  BOOST_CHECK_NO_THROW(vcd.change(depth, Time::fs(10), 15));
  BOOST_CHECK_THROW(vcd.change(depth, Time::fs(10), 16), std::logic_error);
  BOOST_CHECK_THROW(vcd.change(load, Time::fs(10), 1), std::logic_error);
  BOOST_CHECK_THROW(vcd.change_real(load, Time::fs(10), std::numeric_limits<double>::infinity()), std::logic_error);
  BOOST_CHECK_THROW(vcd.busy_until(depth, Time::fs(9)), std::logic_error);
  BOOST_CHECK_THROW(vcd.text_until(text, Time::fs(9), "tp"), std::logic_error);
}

BOOST_AUTO_TEST_CASE(an_addition_beyond_the_range_ends_the_waveform_and_is_reported) {
  struct Misfit {
    unsigned width_bits;
    std::uint64_t value;
    std::int64_t difference;
  };
  for (const Misfit& misfit : {Misfit{4, 15, 1}, Misfit{4, 0, -1}, Misfit{64, 0, -1}}) {
    Scratch file;
    VcdWriter vcd(file.path);
    const Signal wire = vcd.add_wire("wire", misfit.width_bits);
    const Signal other = vcd.add_wire("other", 1);
    vcd.start();
    vcd.change(wire, Time::fs(5), misfit.value);
    vcd.change(other, Time::fs(7), 1);
    vcd.advance(Time::fs(10));
    vcd.add(wire, Time::fs(10), misfit.difference);
    BOOST_CHECK_EXCEPTION(vcd.finish(Time::fs(20)), std::logic_error, [&](const std::logic_error& error) {
      return std::string(error.what()) ==
             "waveform signal 'wire' would leave its range by an addition of " + std::to_string(misfit.difference);
    });
  }
  Scratch file;  // what fits does
  VcdWriter vcd(file.path);
  const Signal wire = vcd.add_wire("wire", 4);
  vcd.start();
  vcd.change(wire, Time::fs(5), 15);
  vcd.add(wire, Time::fs(10), -15);
  vcd.finish(Time::fs(20));
  check_changes(file.parsed().at("railyard.wire[3:0]"), {{0, "0"}, {5, "1111"}, {10, "0"}});
}

BOOST_AUTO_TEST_CASE(times_and_numbers_of_every_length_are_written_whole) {
  Scratch file;
  VcdWriter vcd(file.path);
  const Signal wire = vcd.add_wire("wire", 64), real = vcd.add_real("real");
  vcd.start();
  std::vector<std::uint64_t> times{0};
  std::vector<std::string> values{"0"};
  std::uint64_t power = 1;
  for (unsigned digits = 1; digits <= 18; ++digits, power *= 10) {
    for (const std::uint64_t when : {power, power + 1, power * 9 + power / 7}) {
      vcd.advance(Time::fs(when));
      vcd.change(wire, vcd.now(), when);
      vcd.change_real(real, vcd.now(), static_cast<double>(digits) / 8);
      if (when == times.back()) continue;
      times.push_back(when);
      std::string bits;
      for (std::uint64_t left = when; left != 0; left /= 2) bits.insert(bits.begin(), left % 2 != 0 ? '1' : '0');
      values.push_back(bits);
    }
  }
  vcd.finish(vcd.now());
  const auto parsed = file.parsed();
  BOOST_TEST(parsed.stamps == times, boost::test_tools::per_element());
  const auto& changes = parsed.at("railyard.wire[63:0]");
  BOOST_TEST_REQUIRE(changes.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) BOOST_TEST(changes[i].second == values[i]);
  BOOST_TEST(parsed.at("railyard.real").back().second == "2.25");
  BOOST_TEST(parsed.at("railyard.real")[1].second == "0.125");
}

BOOST_AUTO_TEST_CASE(many_signals_have_codes_of_their_own) {
  Scratch file;
  VcdWriter vcd(file.path);
  constexpr std::uint32_t kSignals = 94 * 94 + 94 + 2;  // codes of one, two and three characters
  std::vector<Signal> wires;
  for (std::uint32_t i = 0; i < kSignals; ++i) wires.push_back(vcd.add_wire("s" + std::to_string(i), 16));
  vcd.start();
  for (std::uint32_t i = 0; i < kSignals; ++i) vcd.change(wires[i], Time::fs(1), i);
  vcd.finish(Time::fs(2));
  const auto parsed = file.parsed();  // refuses a code used twice
  BOOST_REQUIRE_EQUAL(parsed.signals.size(), kSignals);
  for (std::uint32_t i = 1; i < kSignals; ++i) {
    const auto& changes = parsed.at("railyard.s" + std::to_string(i) + "[15:0]");
    BOOST_REQUIRE_EQUAL(std::stoul(changes.back().second, nullptr, 2), i);
  }
}

namespace {

// A long random run; returns what the file holds after `instants` of it, without finish().
std::string interrupted_run(const std::string& path, unsigned instants) {
  VcdWriter vcd(path);
  std::vector<Signal> busy, depth;
  for (int i = 0; i < 40; ++i) {
    busy.push_back(vcd.add_wire("port" + std::to_string(i) + ".busy", 1));
    depth.push_back(vcd.add_wire("port" + std::to_string(i) + ".bytes", 32));
  }
  const Signal kernel = vcd.add_string("kernel");
  vcd.start();
  std::mt19937 random(7);
  Time now;
  for (unsigned i = 0; i < instants; ++i) {
    now += Time::fs(1 + random() % 1000);
    vcd.advance(now);
    const auto port = random() % busy.size();
    vcd.busy_until(busy[port], now + Time::fs(random() % 5000));
    vcd.add(depth[port], now, 4096);
    vcd.add(depth[port], now + Time::fs(random() % 5000), -4096);
    vcd.change_string(kernel, now, "kernel " + std::to_string(i));
  }
  return file_text(path);  // as a kill would leave it: the writer still holds what is not yet written
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_interrupted_file_is_whole_up_to_an_instant) {
  Scratch file;
  const std::string header = interrupted_run(file.path, 0);
  BOOST_TEST(parse_vcd(header).signals.size() == 81u);
  const std::string part = interrupted_run(file.path, 60000);
  const std::string after_destructor = file.text();
  const std::string longer = interrupted_run(file.path, 120000);
  const auto parsed = parse_vcd(part);
  BOOST_TEST(parsed.stamps.size() > 1000u);
  BOOST_TEST(parse_vcd(longer).stamps.size() > parsed.stamps.size());
  // What is on the disk never changes again: the longer run begins with the shorter one, and the destructor only adds.
  BOOST_TEST((longer.compare(0, part.size(), part) == 0));
  BOOST_TEST((after_destructor.compare(0, part.size(), part) == 0));
  BOOST_TEST((longer.compare(0, after_destructor.size(), after_destructor) == 0));
  BOOST_TEST(parse_vcd(after_destructor).stamps.size() > parsed.stamps.size());
}

BOOST_AUTO_TEST_CASE(no_line_crosses_the_end_of_a_page) {
  constexpr std::size_t kPage = 4096;  // what a kill in the middle of a write leaves ends with one
  const auto written = [](const Scratch& file, std::size_t letters) {
    VcdWriter vcd(file.path);
    const Signal count = vcd.add_wire("count", 48), text = vcd.add_string("t" + std::string(letters, 'x'));
    vcd.start();
    const std::size_t header = file.text().size();
    for (std::uint64_t i = 1; i < 40'000; ++i) {
      vcd.advance(Time::ns(i * i));
      vcd.change(count, vcd.now(), i);
      vcd.change_string(text, vcd.now(), std::string(i % 50, 'y'));
    }
    vcd.finish(vcd.now());
    return header;
  };
  Scratch file;
  const std::size_t shortest = written(file, 0);
  for (const std::size_t left : {1000, 23, 22, 21, 1, 0}) {  // of the header's page, for the stamp that follows it
    BOOST_TEST_CONTEXT(left << " bytes left behind the header") {
      const std::size_t header = written(file, kPage - left - shortest);
      BOOST_TEST(header == (left < 22 ? kPage : kPage - left));
      const std::string text = file.text();
      BOOST_TEST(text.size() > 300 * kPage);
      std::size_t crossed = 0;
      for (std::size_t end = kPage; end < text.size(); end += kPage) crossed += text[end - 1] != '\n';
      BOOST_TEST(crossed == 0u);
      const auto parsed = parse_vcd(text);
      BOOST_TEST(parsed.at("railyard.count[47:0]").size() == 40'000u);
    }
  }
}

BOOST_AUTO_TEST_CASE(two_runs_give_the_same_bytes) {
  Scratch file;
  interrupted_run(file.path, 5000);
  const std::string first = file.text();
  interrupted_run(file.path, 5000);
  BOOST_TEST((first == file.text()));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_written_is_reported) {
  BOOST_CHECK_THROW(VcdWriter("/nonexistent/trace.vcd"), std::runtime_error);
  VcdWriter vcd("/dev/full");
  vcd.add_wire("a", 1);
  vcd.start();
  vcd.advance(Time::fs(10));
  BOOST_CHECK_EXCEPTION(vcd.finish(Time::fs(20)), std::runtime_error, [](const std::runtime_error& error) {
    return std::string(error.what()) == "cannot write /dev/full: No space left on device";
  });
}
