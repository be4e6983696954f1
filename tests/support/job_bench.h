// Jobs on the ranks of one box, without a workload: a test emits them and is told when each began and was done.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/kernel_of.h"
#include "tests/support/prefill_run.h"

namespace railyard::test {

using workload::Dispatcher;
using workload::Job;
using workload::JobClient;
using workload::JobKind;
using workload::JobRef;
using workload::RankDevice;
using workload::Transfer;

struct JobBench : FreshKernel, JobClient {
  JobBench()
      : scenario(tiny_scenario()),
        fabric(transport::ChannelPlan(), 0),
        machine(scenario.machine, fabric),
        dispatcher(fabric) {
    for (std::uint32_t g = 0; g < 4; ++g) {
      ranks[g].gpu = &machine.gpu(GpuId(g));
      devices.push_back(&ranks[g]);
      windows.push_back(ranks[g].gpu->window());
      group.members.push_back(windows.back());
    }
    later_on(Time(), [] {});
    sc_core::sc_start(sc_core::SC_ZERO_TIME);  // sockets are bound from here on
  }
  JobRef kernel(std::uint32_t rank, Time duration, std::uint32_t number, const std::vector<JobRef>& after = {}) {
    return dispatcher.kernel(ranks[rank], ranks[rank].compute, kernel_of(duration, kSms), tag(number), *this, after);
  }
  JobRef send(std::uint32_t from, std::vector<std::uint32_t> to, Bytes bytes, std::uint32_t number,
              const std::vector<JobRef>& after = {}) {
    std::vector<Transfer> transfers;
    for (const std::uint32_t rank : to) transfers.push_back({windows[rank], bytes});
    return dispatcher.send(ranks[from], ranks[from].pp, transfers, 0, tag(number), *this, after);
  }
  Time alone(std::uint32_t from, std::uint32_t to, Bytes bytes) {
    return fabric.uncontended(windows[from], windows[to], 0, bytes);
  }
  void run() {
    sc_core::sc_start();
    BOOST_TEST(dispatcher.live() == 0u);
    BOOST_TEST(fabric.transactions_live() == 0u);
    for (RankDevice& rank : ranks) {
      BOOST_TEST(rank.gpu->sms().active() == 0u);
      BOOST_TEST(rank.compute.empty());
      BOOST_TEST(rank.pp.empty());
    }
  }
  /// Emits from inside the simulation.
  void later_on(Time when, std::function<void()> what) {
    actions_.push_back(std::move(what));
    fabric.calendar().at(when, actor_, 0, actions_.size() - 1);
  }

  static constexpr std::uint32_t kSms = 10;
  Scenario scenario;
  transport::Fabric fabric;
  platforms::Machine machine;
  Dispatcher dispatcher;
  std::array<RankDevice, 4> ranks;
  std::vector<RankDevice*> devices;
  std::vector<transport::Window> windows;
  collective::Group group;
  std::map<std::uint32_t, Time> begun, done;  // by number; of a collective the first and the last member
  std::function<void(const Job&)> when_begun, when_done;

 private:
  static workload::JobTag tag(std::uint32_t number) {
    workload::JobTag t;
    t.run = number;
    return t;
  }
  void on_job_begun(const Job& job) override {
    begun.try_emplace(job.tag().run, fabric.now());
    if (when_begun) when_begun(job);
  }
  void on_job_done(const Job& job) override {
    done[job.tag().run] = fabric.now();
    if (when_done) when_done(job);
  }
  void on_collective_done(const collective::Collective&, const workload::JobTag&) override {}
  std::string name_of(JobKind, const workload::JobTag& tag) const override { return "job " + std::to_string(tag.run); }

  struct Actor : transport::CalendarClient {
    explicit Actor(JobBench& owner) : bench(owner) {}
    void on_event(std::uint32_t, std::uint64_t number) override { bench.actions_[number](); }
    JobBench& bench;
  };
  std::vector<std::function<void()>> actions_;
  Actor actor_{*this};
};

}  // namespace railyard::test
