// Speed of the fabric on a collective at scale: a ring all-reduce over memories around one switch, as many slices to a chunk
// as asked for, every message one train. What it takes grows with the transfers, 2 n (n - 1) slices of them, each crossing
// two links under credits and arbitration. Each size runs in a process of its own; the figures are of one run.
#include <sys/resource.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <systemc>
#include <vector>

#include "bench/star.h"
#include "collective/collective.h"

using namespace railyard;

namespace {

struct Result {
  double wall_s = 0, processor_s = 0;
  double peak_rss_bytes = 0;
  std::uint64_t messages = 0, hops = 0, events = 0;
  double simulated_s = 0;
};

class AllReduce : private collective::CollectiveClient {
 public:
  AllReduce(std::uint32_t gpus, Bytes bytes, std::uint32_t slices, bool fluid)
      : fabric_({}, bytes), collective_(fabric_) {
    transport::Switch& sw = switches_.emplace_back("switch", fabric_.context(), transport::Switch::DecodeBy::window);
    fabric_.add_device(sw);
    for (transport::Window w = 0; w < gpus; ++w) {
      bench::attach(memories_.emplace_back("gpu" + std::to_string(w), fabric_, w), sw, bench::nvlink());
      group_.members.push_back(w);
    }
    if (fluid) fabric_.model_as_fluid();
    collective::CollectiveSpec spec;
    spec.operation = collective::Operation::all_reduce;
    spec.algorithm = collective::Algorithm::ring;
    spec.bytes = bytes;
    spec.slices = slices;
    collective_.prepare(spec, group_, *this);
  }

  Result run() {
    sc_core::sc_start(sc_core::SC_ZERO_TIME);  // sockets are bound from here on
    for (std::uint32_t member = 0; member < group_.members.size(); ++member) collective_.enter(member);
    sc_core::sc_start();
    if (!done_) std::exit(1);
    Result result;
    result.messages = fabric_.ledger().totals(0).messages;
    result.hops = fabric_.hop_transactions();
    result.events = fabric_.calendar().events();
    result.simulated_s = fabric_.now().seconds();
    return result;
  }

 private:
  void on_member_done(collective::Collective&, std::uint32_t) override {}
  void on_collective_done(collective::Collective&) override { done_ = true; }

  transport::Assembly fabric_;
  std::deque<transport::Switch> switches_;
  std::deque<bench::Memory> memories_;
  collective::Group group_;
  collective::Collective collective_;
  bool done_ = false;
};

/// Wall time of everything, elaboration included.
Result measure(std::uint32_t gpus, Bytes bytes, std::uint32_t slices, bool fluid) {
  const auto begun = std::chrono::steady_clock::now();
  AllReduce all_reduce(gpus, bytes, slices, fluid);
  Result result = all_reduce.run();
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  result.processor_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  result.peak_rss_bytes = static_cast<double>(usage.ru_maxrss) * 1024;
  return result;
}

}  // namespace

int sc_main(int argc, char* argv[]) {
  std::vector<std::uint32_t> gpus{8, 64, 256, 1024};
  std::uint32_t slices = 4;
  double mebibytes = 1024;
  std::string fidelity = "train";
  bool json = false;
  CLI::App app("What a ring all-reduce over GPUs on one switch costs this computer.");
  app.add_option("--gpus", gpus, "numbers of GPUs (default 8 64 256 1024)")->check(CLI::Range(2, 4096));
  app.add_option("--slices", slices, "slices of a chunk (default 4)")->check(CLI::Range(1, 64));
  app.add_option("--mib", mebibytes, "size of the vector in MiB (default 1024)")->check(CLI::Range(1, 65536));
  app.add_option("--fidelity", fidelity, "train (default) or fluid")->check(CLI::IsMember({"train", "fluid"}));
  app.add_flag("--json", json, "one JSON object a line instead of the table");
  CLI11_PARSE(app, argc, argv);

  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  if (!json)
    std::printf(
        "| GPUs | wall | processor | memory | messages | hops | hops/s | events per hop | simulated |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::uint32_t n : gpus) {
    const auto bytes = static_cast<Bytes>(mebibytes * (1 << 20));
    const Result r = bench::apart<Result>([&] { return measure(n, bytes, slices, fidelity == "fluid"); });
    const auto hops = static_cast<double>(r.hops);
    const double hops_per_s = hops / r.processor_s;
    if (json) {
      std::printf(
          "{\"gpus\": %u, \"slices\": %u, \"bytes\": %llu, \"wall_s\": %.4f, \"processor_s\": %.4f, "
          "\"peak_rss_bytes\": %.0f, "
          "\"messages\": %llu, \"hops\": %llu, \"events\": %llu, \"hops_per_s\": %.0f, \"simulated_s\": %.9f}\n",
          n, slices, static_cast<unsigned long long>(bytes), r.wall_s, r.processor_s, r.peak_rss_bytes,
          static_cast<unsigned long long>(r.messages), static_cast<unsigned long long>(r.hops),
          static_cast<unsigned long long>(r.events), hops_per_s, r.simulated_s);
    } else {
      std::printf("| %u | %.3f s | %.3f s | %.0f MB | %.3f M | %.3f M | %.2f M | %.2f | %.4f ms |\n", n, r.wall_s,
                  r.processor_s, r.peak_rss_bytes * 1e-6, static_cast<double>(r.messages) * 1e-6, hops * 1e-6,
                  hops_per_s * 1e-6, static_cast<double>(r.events) / hops, r.simulated_s * 1e3);
    }
    std::fflush(stdout);
  }
  return 0;
}
