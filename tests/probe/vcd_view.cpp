// The GTKWave view, and GTKWave's own converter reading what the writer wrote.
#define BOOST_TEST_MODULE vcd_view
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>

#include "probe/gtkwave_save.h"
#include "probe/vcd_writer.h"
#include "tests/probe/vcd_reader.h"

using namespace railyard;
using namespace railyard::probe;
using Format = GtkwaveSave::Format;

BOOST_AUTO_TEST_CASE(view_is_exactly_this) {
  GtkwaveSave view("trace.vcd");
  view.begin_group("prefill0");
  view.begin_group("gpu0", GtkwaveSave::Group::closed);
  view.add_signal("railyard.prefill0.gpu0.kernel", Format::text, 1, GtkwaveSave::Color::yellow);
  view.add_signal("railyard.prefill0.gpu0.sm.active[7:0]", Format::curve, 3);
  view.add_translated("railyard.prefill0.gpu0.state[1:0]", "state.flt");
  view.end_group();
  view.begin_group("filtered out");
  view.add_signal("", Format::wire);
  view.end_group();
  view.add_signal("railyard.prefill0.busy", Format::wire);
  view.add_signal("railyard.prefill0.load", Format::real_curve);
  view.add_signal("railyard.prefill0.depth[7:0]", Format::decimal, 1, GtkwaveSave::Color::none, "port3 > gpu3 queued");
  view.add_translated("railyard.prefill0.state[1:0]", "state.flt", GtkwaveSave::Color::none, "compute");
  BOOST_CHECK_THROW(view.str(), std::logic_error);
  view.end_group();
  BOOST_CHECK_THROW(view.end_group(), std::logic_error);
  BOOST_TEST(view.str() ==
             "[dumpfile] \"/railyard/trace.vcd\"\n"
             "[savefile] \"/railyard/view.gtkw\"\n"
             "[timestart] 0\n"
             "[size] 1400 900\n"
             "[pos] -1 -1\n"
             "[treeopen] railyard.\n"
             "[sst_width] 20\n"
             "[signals_width] 240\n"
             "[sst_expanded] 0\n"
             "@800200\n-prefill0\n"
             "@c00200\n-gpu0\n"
             "[color] 3\n@22\nrailyard.prefill0.gpu0.kernel\n"
             "@88024\nrailyard.prefill0.gpu0.sm.active[7:0]\n@20000\n-\n@20000\n-\n"
             "@2022\n^1 state.flt\nrailyard.prefill0.gpu0.state[1:0]\n"
             "@1401200\n-gpu0\n"
             "@28\nrailyard.prefill0.busy\n"
             "@88020\nrailyard.prefill0.load\n"
             "@24\n+{port3 > gpu3 queued} railyard.prefill0.depth[7:0]\n"
             "@2022\n^1 state.flt\n+{compute} railyard.prefill0.state[1:0]\n"
             "@1000200\n-prefill0\n");
}

BOOST_AUTO_TEST_CASE(view_opens_on_the_part_asked_for) {
  GtkwaveSave view("trace.vcd");
  // 5.25 frames of 200 pixels fill the 1050 pixels of waves: 5.25 * 2^40 fs show as a zoom of -40.
  view.show(Time::fs(1000), Time::fs(1000) + Time::fs(21) * (1ull << 38));
  const std::string text = view.str();
  BOOST_TEST(text.find("[timestart] 1000\n") != std::string::npos);
  BOOST_TEST(text.find("*-40.000000 -1 -1 ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(gtkwave_reads_every_kind_of_signal) {
  if (std::system("command -v vcd2fst >/dev/null && command -v fst2vcd >/dev/null") != 0) {
    BOOST_TEST_MESSAGE("skipped: vcd2fst is not installed (Debian package gtkwave)");
    return;
  }
  const auto folder = std::filesystem::temp_directory_path() / ("vcd_view." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "trace.vcd").string();
  VcdWriter vcd(path);
  const Signal busy = vcd.add_wire("prefill0.plx[0].port[3].tx.busy", 1);
  const Signal bytes = vcd.add_wire("prefill0.plx[0].port[3].tx.bytes", 40);
  const Signal load = vcd.add_real("prefill0.load");
  const Signal kernel = vcd.add_string("prefill0.kernel");
  vcd.start();
  vcd.busy_until(busy, Time::us(3));
  vcd.add(bytes, Time::us(1), 1ll << 39);
  vcd.change_real(load, Time::us(2), 0.625);
  vcd.change_string(kernel, Time::us(2), "P_Rank_PP[0]_TP[3]_Chunk[12]");
  vcd.finish(Time::us(5));
  const std::string convert = "cd '" + folder.string() + "' && vcd2fst trace.vcd trace.fst && fst2vcd trace.fst";
  BOOST_REQUIRE_EQUAL(std::system((convert + " > back.txt").c_str()), 0);
  const std::string back = test::file_text((folder / "back.txt").string());
  std::filesystem::remove_all(folder);
  for (const char* expected :
       {"busy $end", "bytes [39:0] $end", "load $end", "kernel $end", "#1000000000\n", "#3000000000\n",
        "b1000000000000000000000000000000000000000 ", "r0.625 ", "sP_Rank_PP[0]_TP[3]_Chunk[12] "})
    BOOST_TEST(back.find(expected) != std::string::npos, "not in the converted file: " << expected);
}
