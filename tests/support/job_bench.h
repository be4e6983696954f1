// Jobs on the ranks of one machine, without a workload: a test emits jobs and gets the begin and end of each job.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/kernel_of.h"
#include "tests/support/prefill_run.h"

namespace railyard::test {

using execution::Communicator;
using execution::CopyTarget;
using execution::Executor;
using execution::Job;
using execution::JobClient;
using execution::JobLabel;
using execution::JobRef;
using execution::Rank;

struct JobBench : FreshKernel, JobClient, execution::JobNamer {
  /// @param gpus  number of ranks, one on each of the machine's first GPUs
  explicit JobBench(const Scenario& its_scenario = tiny_scenario(), std::uint32_t gpus = 4,
                    const std::vector<const char*>& streams = {"compute", "comm"})
      : scenario(its_scenario),
        fabric(transport::VcPlan(), 0),
        machine(scenario.machine, fabric),
        executor(fabric, records) {
    for (std::uint32_t g = 0; g < gpus; ++g) {
      Rank& rank = executor.add_rank("node", g, "[" + std::to_string(g) + "]", machine.gpu(GpuId(g)));
      for (const char* stream : streams) rank.add_stream(stream);
      ranks.push_back(&rank);
      windows.push_back(rank.gpu->window());
    }
    later_on(Time(), [] {});
    sc_core::sc_start(sc_core::SC_ZERO_TIME);  // sockets are bound from here on
  }
  JobRef kernel(std::uint32_t rank, Time duration, std::uint32_t number, const std::vector<JobRef>& after = {}) {
    return executor.kernel(*ranks[rank], ranks[rank]->stream(kCompute), kernel_of(duration, kSms), label(number), *this,
                           after);
  }
  JobRef copy(std::uint32_t from, std::vector<std::uint32_t> to, Bytes bytes, std::uint32_t number,
              const std::vector<JobRef>& after = {}) {
    std::vector<CopyTarget> transfers;
    for (const std::uint32_t rank : to) transfers.push_back({windows[rank], bytes});
    return executor.copy(*ranks[from], ranks[from]->stream(kComm), {transfers}, label(number), *this, after);
  }
  Time alone(std::uint32_t from, std::uint32_t to, Bytes bytes) {
    return fabric.uncontended(windows[from], windows[to], 0, bytes);
  }
  void run() {
    sc_core::sc_start();
    BOOST_TEST(executor.live() == 0u);
    BOOST_TEST(fabric.transactions_live() == 0u);
    for (Rank* rank : ranks) {
      BOOST_TEST(rank->gpu->sms().active() == 0u);
      for (Rank::NamedStream& named : rank->streams) BOOST_TEST(named.stream.empty());
    }
  }
  /// Emits jobs during the simulation.
  void later_on(Time when, std::function<void()> what) {
    actions_.push_back(std::move(what));
    fabric.calendar().at(when, actor_, 0, actions_.size() - 1);
  }

  /// A collective of these ranks with a given spec, not chosen by a library.
  void collective(Communicator& communicator, const collective::CollectiveSpec& spec, std::uint32_t number,
                  const std::vector<JobRef>& after = {}) {
    std::vector<JobRef> jobs;
    executor.collective(communicator, spec, label(number), *this, jobs, after);
  }
  JobLabel label(std::uint64_t number) const { return {this, number}; }
  static std::uint32_t number_of(const Job& job) { return static_cast<std::uint32_t>(job.label().arguments); }

  static constexpr std::uint32_t kSms = 10;
  static constexpr std::size_t kCompute = 0, kComm = 1;
  Scenario scenario;
  transport::Assembly fabric;
  platforms::Machine machine;
  Records records;
  Executor executor;
  std::vector<Rank*> ranks;
  std::vector<transport::Window> windows;
  std::map<std::uint32_t, Time> begun, done;  // by number; of a collective, the first and the last member
  std::map<std::uint32_t, Status> failed;     // by number
  bool goes_on = false;                       ///< continue if bytes are undeliverable
  std::function<void(const Job&)> when_begun, when_done;

 private:
  void on_job_begun(const Job& job) override {
    begun.try_emplace(number_of(job), fabric.now());
    if (when_begun) when_begun(job);
  }
  void on_job_done(const Job& job) override {
    done[number_of(job)] = fabric.now();
    if (when_done) when_done(job);
  }
  bool on_cut_off(const Job&) override { return goes_on; }
  void on_job_failed(const Job& job) override { failed[number_of(job)] = job.status(); }
  std::string name(std::uint64_t number) const override { return "job " + std::to_string(number); }
  const char* kind(std::uint64_t) const override { return "test"; }
  execution::Recorded recorded(std::uint64_t) const override { return execution::Recorded::never; }

  struct Actor : transport::CalendarClient {
    explicit Actor(JobBench& owner) : bench(owner) {}
    void on_event(std::uint32_t, std::uint64_t number) override { bench.actions_[number](); }
    JobBench& bench;
  };
  std::vector<std::function<void()>> actions_;
  Actor actor_{*this};
};

}  // namespace railyard::test
