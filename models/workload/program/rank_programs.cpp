#include "workload/program/rank_programs.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "workload/traffic.h"

namespace railyard::workload {

RankPrograms::RankPrograms(std::vector<Rank*> ranks, std::size_t compute, Host host, Executor& executor,
                           JobClient& client)
    : ranks_(std::move(ranks)),
      compute_(compute),
      host_(std::move(host)),
      executor_(executor),
      client_(client),
      states_(ranks_.size()) {}

void RankPrograms::kernels(std::uint32_t rank, const gpu::SharedChain& chain, std::uint32_t launches,
                           const JobLabel& label) {
  wait_for(rank, launch(rank, launches));
  ++live_;
  State& state = states_[rank];
  state.clock.add(least_time(chain));
  Rank& r = *ranks_[rank];
  state.last = executor_.kernel(r, r.stream(compute_), chain, label, client_, state.waits);
  state.waits.clear();
}

JobRef RankPrograms::kernels_beside(std::uint32_t rank, std::size_t stream, const gpu::SharedChain& chain,
                                    const JobLabel& label, const std::vector<JobRef>& after) {
  ++live_;
  Rank& r = *ranks_[rank];
  return executor_.kernel(r, r.stream(stream), chain, label, client_, after);
}

void RankPrograms::collective(Communicator& communicator, const collective::CollectiveSpec& spec,
                              const JobLabel& label) {
  for (const Rank* rank : communicator.ranks()) wait_for(rank->number, launch(rank->number, 1));
  start(communicator, spec, label, waits_of(communicator));
  emitted(communicator);
}

std::vector<JobRef> RankPrograms::waits_of(const Communicator& communicator) const {
  std::size_t longest = 0;
  for (const Rank* rank : communicator.ranks()) longest = std::max(longest, states_[rank->number].waits.size());
  std::vector<JobRef> after;
  for (std::size_t n = 0; n < longest; ++n)
    for (const Rank* rank : communicator.ranks()) {
      const std::vector<JobRef>& waits = states_[rank->number].waits;
      after.push_back(n < waits.size() ? waits[n] : JobRef());
    }
  return after;
}

void RankPrograms::emitted(const Communicator& communicator) {
  for (std::uint32_t m = 0; m < communicator.size(); ++m) {
    State& state = states_[communicator.rank(m).number];
    state.last = jobs_[m];
    state.waits.clear();
  }
}

void RankPrograms::course(Communicator& communicator, std::vector<execution::CourseStep>& steps,
                          const std::vector<std::uint32_t>& launches, execution::CourseMemory& memory) {
  Time launched, least;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kernels != nullptr) least += least_time(*steps[i].kernels);
    if (launches[i] == 0 || !host_launches()) continue;
    launched += launch_time(launches[i]);
    steps[i].launched = launched;
  }
  std::vector<execution::CourseLaunches> hosts;
  for (Rank* rank : communicator.ranks()) {
    State& state = states_[rank->number];
    state.clock.add(least);
    if (launched == Time()) continue;
    const Time takes = add_to_host(state, launched);
    if (takes == Time()) {
      hosts.emplace_back();
      continue;
    }
    ++live_;
    hosts.push_back({rank, &rank->stream(host_.stream), takes, launched - takes,
                     static_cast<std::uint32_t>(steps.size()), host_.label(rank->number)});
  }
  executor_.course(communicator, steps, hosts, client_, jobs_, waits_of(communicator), &memory);
  live_ += static_cast<std::int64_t>(jobs_.size() * steps.size());
  emitted(communicator);
}

void RankPrograms::composed(std::uint32_t rank, std::uint32_t steps, Time least, Time next) {
  live_ -= steps;
  states_[rank].clock.end(least);
  states_[rank].clock.begin(next);
}

const std::vector<JobRef>& RankPrograms::start(Communicator& communicator, const collective::CollectiveSpec& spec,
                                               const JobLabel& label, const std::vector<JobRef>& after,
                                               const std::vector<Time>& places) {
  if (NextSends* const sends = announced(communicator))
    for (std::uint32_t m = 0; m < communicator.size(); ++m)
      sends->emitted(m, places.empty() ? place(communicator.rank(m).number) : places[m]);
  executor_.collective(communicator, spec, label, client_, jobs_, after);
  live_ += static_cast<std::int64_t>(jobs_.size());
  return jobs_;
}

JobRef RankPrograms::send(Communicator& pair, const execution::Exchange& exchange, const JobLabel& label,
                          const std::vector<JobRef>& after) {
  ++live_;
  if (NextSends* const sends = announced(pair)) sends->emitted(0, place(pair.rank(0).number));
  return executor_.send(pair, exchange, label, client_, after);
}

JobRef RankPrograms::receive(Communicator& pair, const execution::Exchange& exchange, const JobLabel& label,
                             const std::vector<JobRef>& after, Time place) {
  ++live_;
  if (NextSends* const sends = announced(pair)) sends->emitted(1, place);
  return executor_.receive(pair, exchange, label, client_, after);
}

JobRef RankPrograms::copy(std::uint32_t rank, std::size_t stream, execution::Copy copy, const JobLabel& label,
                          const std::vector<JobRef>& after) {
  Rank& r = *ranks_[rank];
  return this->copy(r, r.stream(stream), std::move(copy), label, after);
}

JobRef RankPrograms::copy(Rank& from, gpu::Stream& stream, execution::Copy copy, const JobLabel& label,
                          const std::vector<JobRef>& after) {
  ++live_;
  return executor_.copy(from, stream, std::move(copy), label, client_, after);
}

JobRef RankPrograms::host_work(Rank& host, gpu::Stream& stream, Time duration, const JobLabel& label,
                               const std::vector<JobRef>& after) {
  ++live_;
  return executor_.host(host, stream, duration, label, client_, after);
}

JobRef RankPrograms::delay(std::uint32_t rank, std::size_t stream, Time duration, const JobLabel& label,
                           const std::vector<JobRef>& after) {
  ++live_;
  Rank& r = *ranks_[rank];
  return executor_.delay(r, r.stream(stream), duration, label, client_, after);
}

std::vector<JobRef> RankPrograms::last_of(const Communicator& communicator) const {
  std::vector<JobRef> jobs;
  for (const Rank* rank : communicator.ranks()) jobs.push_back(states_[rank->number].last);
  return jobs;
}

void RankPrograms::announce(Communicator& communicator, bool one_way) {
  if (communicator.members() == 1) return;
  std::vector<NextSends::Follows> members;
  for (std::uint32_t m = 0; m < communicator.size(); ++m)
    members.push_back({&states_[communicator.rank(m).number].clock, !one_way || m == 0});
  const std::string name = fmt::format("{} of rank {}", kTrafficClasses[communicator.request().traffic_class].name,
                                       communicator.rank(0).number);
  announced_.push_back({&communicator, one_way, NextSends(name, executor_.fabric(), members)});
  sends_of_[&communicator] = &announced_.back().sends;
}

NextSends* RankPrograms::announced(const Communicator& communicator) {
  if (sends_of_.empty()) return nullptr;
  const auto found = sends_of_.find(&communicator);
  return found == sends_of_.end() ? nullptr : found->second;
}

void RankPrograms::add_announced(std::vector<collective::OtherTraffic>& all) {
  for (Announced& each : announced_) {
    const std::vector<transport::Window>& members = each.communicator->group().members;
    const std::set<transport::Window> distinct(members.begin(), members.end());  // copies of a member have one
    const std::uint8_t traffic_class = each.communicator->request().traffic_class;
    for (const Rank* from : each.communicator->ranks()) {
      if (each.one_way && from != each.communicator->ranks().front()) continue;
      for (const transport::Window to : distinct)
        if (to != from->gpu->window()) all.push_back({from->gpu->window(), to, traffic_class, &each.sends});
    }
  }
}

void RankPrograms::begun(const Job& job, const Communicator* by) {
  if (is_of_program(job)) states_[job.rank().number].clock.begin(executor_.fabric().now());
  if (by == nullptr) return;
  if (NextSends* const sends = announced(*by)) sends->begun(job.member());
}

void RankPrograms::ended(const Job& job, const Communicator* by) {
  if (is_of_program(job)) states_[job.rank().number].clock.end(least_time(job.kernels()));
  if (by == nullptr) return;
  if (NextSends* const sends = announced(*by)) sends->done(job.member());
}

void RankPrograms::wait_on_host(std::uint32_t rank, std::vector<JobRef>& jobs, const JobLabel& label) {
  if (!host_launches()) return;
  State& state = states_[rank];
  Rank& r = *ranks_[rank];
  ++live_;
  ++state.waits_left;
  state.queued = Time();
  jobs.push_back(executor_.host(r, r.stream(host_.stream), launch_time(1), label, client_, jobs));
}

void RankPrograms::host_waited(std::uint32_t rank) {
  done();
  State& state = states_[rank];
  if (--state.waits_left > 0) return;
  state.launched = executor_.fabric().now() + state.queued;
  state.queued = Time();
}

Time RankPrograms::add_to_host(State& state, Time duration) {
  if (state.waits_left > 0) {
    state.queued += duration;
    return duration;
  }
  const Time now = executor_.fabric().now(), before = later(state.launched, now);
  state.launched += duration;
  return since(state.launched, before);
}

JobRef RankPrograms::take_host(std::uint32_t rank, Time duration) {
  if (!host_launches() || duration == Time()) return {};
  const Time takes = add_to_host(states_[rank], duration);
  if (takes == Time()) return {};
  Rank& r = *ranks_[rank];
  ++live_;
  return executor_.host(r, r.stream(host_.stream), takes, host_.label(rank), client_);
}

}  // namespace railyard::workload
