// Cost of a job of a replayed collective: 16 servers of 8 H100, a communicator for each server, and all-reduces of 32
// MiB that follow each other on all of them at the same time. Processor time; the first collectives, which are
// simulated, are told apart from the rest.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>

#include "execution/executor.h"
#include "platforms/machine.h"
#include "tests/support/machine_of.h"
#include "transport/assembly.h"

using namespace railyard;

namespace {

constexpr std::uint32_t kServers = 16, kGpus = 8;
constexpr Bytes kBytes = 32 << 20;
constexpr std::uint32_t kAtOnce = 64;  ///< collectives of a communicator that are emitted together

class Replays : private execution::JobSink, execution::JobClient, execution::JobNamer {
 public:
  explicit Replays(std::uint32_t collectives)
      : machine_(test::machine_of("machine: {groups: {node: {servers: " + std::to_string(kServers) + "}}}", "dgx_h100",
                                  {"node"}),
                 fabric_),
        executor_(fabric_, *this),
        left_(kServers, collectives) {
    for (std::uint32_t s = 0; s < kServers; ++s) {
      std::vector<execution::Rank*> ranks;
      for (std::uint32_t g = s * kGpus; g < (s + 1) * kGpus; ++g) {
        execution::Rank& rank = executor_.add_rank("node", g, "", machine_.gpu(GpuId(g)));
        rank.add_stream("tp");
        ranks.push_back(&rank);
      }
      groups_.emplace_back(ranks, 0, collective::CollectiveRequest(), fabric_);
    }
  }

  void run() {
    sc_core::sc_start(sc_core::SC_ZERO_TIME);  // sockets are bound from here on
    std::vector<execution::Communicator*> all;
    for (execution::Communicator& group : groups_) all.push_back(&group);
    const double begin = now();
    execution::Communicator::allow_reuse(all, {}, fabric_);
    const double allowed = now();
    for (std::uint32_t s = 0; s < kServers; ++s) emit(s);
    sc_core::sc_start();
    const double end = now();
    const double jobs = static_cast<double>(executor_.jobs());
    std::printf("allow_reuse %.3f s; first collectives %.3f s; %.0f jobs in %.3f s, %.3f us a job\n", allowed - begin,
                first_ - allowed, jobs, end - first_, (end - first_) / jobs * 1e6);
    std::printf("%llu transactions simulated, %llu replayed\n",
                static_cast<unsigned long long>(fabric_.hop_transactions() - fabric_.replayed_transactions()),
                static_cast<unsigned long long>(fabric_.replayed_transactions()));
  }

 private:
  static double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
  void emit(std::uint32_t server) {
    std::vector<execution::JobRef> jobs;
    for (std::uint32_t k = 0; k < kAtOnce && left_[server] != 0; ++k, --left_[server])
      executor_.collective(groups_[server], groups_[server].choose(collective::Operation::all_reduce, kBytes),
                           {this, std::uint64_t(server) << 32 | left_[server]}, *this, jobs);
  }
  void on_collective_done(const collective::Collective&, const execution::JobLabel& label) override {
    if (++done_ == kServers) first_ = now();
    if ((label.arguments & 0xffffffffu) == left_[label.arguments >> 32] + 1) emit(label.arguments >> 32);
  }
  void on_job(const execution::JobRecord&) override {}
  std::string name(std::uint64_t number) const override { return std::to_string(number); }
  const char* kind(std::uint64_t) const override { return "bench"; }
  execution::Recorded recorded(std::uint64_t) const override { return execution::Recorded::never; }

  transport::Assembly fabric_{transport::VcPlan(), 0};
  platforms::Machine machine_;
  execution::Executor executor_;
  std::deque<execution::Communicator> groups_;
  std::vector<std::uint32_t> left_;
  std::uint64_t done_ = 0;
  double first_ = 0;
};

}  // namespace

int sc_main(int argc, char** argv) {
  sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
  Replays replays(argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 10'000);
  replays.run();
  return 0;
}
