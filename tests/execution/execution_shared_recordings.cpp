// Groups that are alike share recordings: a collective that one group has simulated is replayed on another, and everything
// is as if both had simulated it. Groups that differ do not share.
#include "base/random.h"
#include "collective/tuner.h"
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;

namespace {

using collective::Operation;

struct Step {
  Time at;
  std::uint32_t group;
  Operation operation;
  Bytes bytes;
  Time late{};  ///< a kernel of this duration delays the group's second member
};

struct Outcome {
  std::map<std::uint32_t, std::vector<Time>> done;  ///< by step, each member; of kernels beside them, from kBeside on
  std::vector<std::uint64_t> counters;              ///< of every port and GPU, and of all messages
  std::vector<Time> busy;                           ///< of every port, at instants all through the run
  /// Of every port of an endpoint: its requesters in the order of their turns.
  std::vector<transport::RequesterKey> requesters;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> streams;  ///< if links are fluid, in order
  std::vector<std::uint64_t> simulated;  ///< transactions on links, at the end of each millisecond
  bool operator==(const Outcome& o) const {
    return done == o.done && counters == o.counters && busy == o.busy && requesters == o.requesters &&
           streams == o.streams;
  }
};

constexpr std::uint32_t kBeside = 1000, kLate = 2000;

struct Groups {
  std::string platform;
  std::vector<std::string> machine;
  std::vector<std::vector<std::uint32_t>> gpus;  ///< of each group
  bool is_fluid = false;
};

/// Beside each collective, a kernel runs on the first member from before it, and one on the last member begins amid it.
Outcome run(const Groups& groups, const std::vector<Step>& steps, bool replay) {
  std::uint32_t all = 0;
  for (const auto& gpus : groups.gpus) all = std::max(all, *std::max_element(gpus.begin(), gpus.end()) + 1);
  JobBench bench(tiny_scenario(groups.machine, groups.platform), all);
  if (groups.is_fluid) bench.fabric.model_as_fluid();
  std::deque<Communicator> communicators;
  std::vector<Communicator*> pointers;
  for (const auto& gpus : groups.gpus) {
    std::vector<Rank*> ranks;
    for (const std::uint32_t gpu : gpus) ranks.push_back(bench.ranks[gpu]);
    pointers.push_back(
        &communicators.emplace_back(ranks, JobBench::kCompute, collective::CollectiveRequest(), bench.fabric));
  }
  if (replay) {
    Communicator::allow_reuse(pointers, {}, bench.fabric);
    for (const Communicator* c : pointers) BOOST_TEST_REQUIRE((c->reuse() != nullptr));
  }
  Outcome outcome;
  bench.when_done = [&](const Job& job) { outcome.done[JobBench::number_of(job)].push_back(bench.fabric.now()); };
  bench.fabric.follow_charges();
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    Communicator& group = communicators[step.group];
    const auto read = [&bench, &group, s](std::uint32_t member, Time duration) {
      Rank& rank = group.rank(member);
      bench.executor.kernel(rank, rank.stream(JobBench::kComm), hbm_kernel_of(duration, rank.gpu->datasheet()),
                            bench.label(kBeside + 2 * s + (member == 0 ? 0 : 1)), bench);
    };
    bench.later_on(step.at - Time::us(10), [=] { read(0, Time::us(60)); });
    bench.later_on(step.at, [&, s] {
      Rank& second = group.rank(1);
      if (step.late != Time())
        bench.executor.kernel(second, second.stream(JobBench::kCompute), kernel_of(step.late, JobBench::kSms),
                              bench.label(kLate + s), bench);
      bench.collective(group, group.choose(step.operation, step.bytes), s);
    });
    bench.later_on(step.at + Time::us(15), [=, &group] { read(group.size() - 1, Time::us(20)); });
  }
  const auto ports = [&](const auto& look) {
    for (const transport::Device* device : bench.fabric.devices())
      for (std::uint32_t p = 0; p < device->ports(); ++p) look(device->port(PortId(p)));
  };
  const Time end = steps.back().at + Time::ms(1);
  // At different places in collectives: steps begin at whole milliseconds.
  for (Time at = Time::us(7); at < end; at += Time::ns(73'217))
    bench.later_on(at, [&] {
      bench.fabric.charge_until_now();
      ports([&](const auto& port) { outcome.busy.push_back(port.busy_until(bench.fabric.now())); });
    });
  for (Time at = Time::ms(1); at <= end; at += Time::ms(1))
    bench.later_on(at, [&] {
      outcome.simulated.push_back(bench.fabric.hop_transactions() - bench.fabric.replayed_transactions());
    });
  bench.run();
  ports([&](const auto& port) {
    const transport::PortCounters& c = port.counters;
    outcome.counters.insert(outcome.counters.end(),
                            {c.transactions, c.payload_bytes, c.wire_bytes, c.busy.fs(), c.peak_queued_bytes});
  });
  for (const Rank* rank : bench.ranks) outcome.counters.push_back(bench.machine.memory_traffic().bytes(*rank->gpu));
  for (const transport::Device* device : bench.fabric.devices())
    if (const auto* endpoint = dynamic_cast<const transport::Endpoint*>(device))
      for (std::uint32_t p = 0; p < device->ports(); ++p)
        for (std::size_t n = 0; n < endpoint->requesters(PortId(p)); ++n)
          outcome.requesters.push_back(endpoint->requester(PortId(p), n));
  std::vector<transport::Window> memories;
  for (const Rank* rank : bench.ranks) memories.push_back(rank->gpu->window());
  for (const transport::FluidStreamKey& key : bench.fabric.streams_since(memories, Time()))
    outcome.streams.emplace_back(key.pair, key.queue_pair);
  const transport::ClassTotals& totals = bench.fabric.ledger().totals(0);
  outcome.counters.insert(outcome.counters.end(), {totals.messages, totals.bytes});
  return outcome;
}

std::uint64_t simulated_in(const Outcome& outcome, std::size_t millisecond) {
  return outcome.simulated[millisecond] - (millisecond == 0 ? 0 : outcome.simulated[millisecond - 1]);
}

std::vector<std::uint32_t> gpus_from(std::uint32_t first, std::uint32_t count) {
  std::vector<std::uint32_t> gpus;
  for (std::uint32_t g = first; g < first + count; ++g) gpus.push_back(g);
  return gpus;
}

/// One collective in each millisecond.
std::vector<Step> one_by_one(const std::vector<std::tuple<std::uint32_t, Operation, Bytes>>& steps) {
  std::vector<Step> all;
  for (const auto& [group, operation, bytes] : steps)
    all.push_back({Time::us(100) + Time::ms(all.size()), group, operation, bytes});
  return all;
}

constexpr Operation kReduce = Operation::all_reduce, kGather = Operation::all_gather;

// Two servers of eight GPUs: groups of a server, of a switch, and of two switches of a socket or of both sockets.
const Groups kDgx{"dgx_h100", {"machine.groups.prefill.servers=10"}, {gpus_from(0, 8), gpus_from(72, 8)}};
const Groups kPlx{"plx_box", {"machine.groups.prefill.servers=2"}, {gpus_from(0, 4), gpus_from(4, 4), gpus_from(8, 4)}};
const Groups kSockets{"plx_box", {"machine.groups.prefill.servers=2"}, {gpus_from(0, 8), gpus_from(8, 8)}};

Groups fluid(Groups groups) {
  groups.is_fluid = true;
  return groups;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_takes_the_recordings_of_a_group_like_it) {
  for (const Groups& groups : {kDgx, kPlx, kSockets}) {
    const std::vector<Step> steps = one_by_one({{0, kReduce, 1 << 20},
                                                {0, kGather, 1 << 19},
                                                {1, kReduce, 1 << 20},
                                                {1, kGather, 1 << 19},
                                                {0, kReduce, 1 << 20},
                                                {1, kReduce, 1 << 20}});
    const Outcome simulated = run(groups, steps, false), replayed = run(groups, steps, true);
    BOOST_TEST((replayed == simulated));
    for (const std::size_t first : {0, 1}) BOOST_TEST(simulated_in(replayed, first) > 0u);
    for (const std::size_t again : {2, 3, 4, 5}) BOOST_TEST(simulated_in(replayed, again) == 0u);
  }
}

BOOST_AUTO_TEST_CASE(on_fluid_links_a_group_takes_recordings_if_it_has_used_the_same_streams) {
  for (const Groups& groups : {fluid(kDgx), fluid(kPlx), fluid(kSockets)}) {
    const std::vector<Step> steps = one_by_one({{0, kReduce, 1 << 20},
                                                {1, kReduce, 1 << 20},
                                                {0, kReduce, 3 << 18},
                                                {1, kReduce, 3 << 18},
                                                {1, kGather, 1 << 19},
                                                {0, kGather, 1 << 19},
                                                {0, kReduce, 7 << 17},
                                                {1, kReduce, 7 << 17}});
    const Outcome simulated = run(groups, steps, false), replayed = run(groups, steps, true);
    BOOST_TEST((replayed == simulated));
    for (const std::size_t live : {0, 1, 2, 6}) BOOST_TEST(simulated_in(replayed, live) > 0u, groups.platform << live);
    for (const std::size_t taken : {3, 7}) BOOST_TEST(simulated_in(replayed, taken) == 0u, groups.platform << taken);
  }
}

BOOST_AUTO_TEST_CASE(groups_that_differ_have_recordings_of_their_own) {
  // Of servers with another GPU, of members in another order of ports, and below one switch or two.
  const std::vector<Groups> pairs{
      {"dgx_h100", {"machine.groups.decode.gpu=H20-SXM-96GB"}, {gpus_from(0, 8), gpus_from(8, 8)}},
      {"plx_box", {"machine.groups.prefill.servers=2"}, {{0, 1, 2, 3}, {4, 6, 5, 7}}},
      {"plx_box", {"machine.groups.prefill.servers=2"}, {gpus_from(0, 4), {8, 9, 12, 13}}}};
  for (const Groups& groups : pairs) {
    const std::vector<Step> steps = one_by_one({{0, kReduce, 1 << 20}, {1, kReduce, 1 << 20}, {1, kReduce, 1 << 20}});
    const Outcome simulated = run(groups, steps, false), replayed = run(groups, steps, true);
    BOOST_TEST((replayed == simulated));
    BOOST_TEST(simulated_in(replayed, 1) == simulated_in(simulated, 1));
    BOOST_TEST(simulated_in(replayed, 2) == 0u);
  }
}

BOOST_AUTO_TEST_CASE(sharing_changes_nothing_whatever_each_group_has_done_before) {
  Random random(7, 0);
  for (const Groups& groups : {kDgx, kPlx, kSockets, fluid(kDgx), fluid(kPlx), fluid(kSockets)}) {
    bool replays = false;
    for (int trial = 0; trial < 12; ++trial) {
      std::vector<Step> steps;
      Time at = Time::us(100);
      for (int s = 0; s < 24; ++s) {
        const auto group = static_cast<std::uint32_t>(random.below(groups.gpus.size()));
        const auto operation = static_cast<Operation>(random.below(5));  // but for send and receive
        const Bytes bytes = Bytes(1) << (12 + 4 * random.below(3));
        const Time late = random.below(4) == 0 ? Time::us(5 + random.below(20)) : Time();
        steps.push_back({at, group, operation, bytes, late});
        at += Time::us(random.below(2) == 0 ? 0 : 400);
      }
      const Outcome simulated = run(groups, steps, false), replayed = run(groups, steps, true);
      BOOST_TEST((replayed == simulated), groups.platform << " trial " << trial);
      replays |= replayed.simulated.back() < simulated.simulated.back();
    }
    BOOST_TEST(replays);
  }
}

BOOST_AUTO_TEST_CASE(communicators_of_one_stream_replay_beside_each_other_and_of_two_streams_do_not) {
  const auto simulated = [](std::size_t other_stream, bool replay) {
    JobBench bench;
    std::deque<Communicator> both;
    std::vector<Communicator*> pointers;
    for (const auto& [traffic_class, stream] : {std::pair<std::uint8_t, std::size_t>{0, 0}, {1, other_stream}}) {
      collective::CollectiveRequest request;
      request.traffic_class = traffic_class;
      pointers.push_back(&both.emplace_back(bench.ranks, stream, request, bench.fabric));
    }
    if (replay) Communicator::allow_reuse(pointers, {}, bench.fabric);
    for (std::uint32_t k = 0; k < 6; ++k)
      bench.later_on(Time::ms(1 + k), [&, k] {
        bench.collective(both[k % 2], both[k % 2].choose(kReduce, 1 << 20), k);
        bench.collective(both[k % 2], both[k % 2].choose(kGather, 1 << 18), 10 + k);
      });
    bench.run();
    std::map<std::uint32_t, std::uint64_t> done;
    for (const auto& [number, when] : bench.done) done[number] = when.fs();
    return std::make_pair(done, bench.fabric.replayed_transactions());
  };
  const auto alone = simulated(JobBench::kCompute, false), one = simulated(JobBench::kCompute, true);
  BOOST_TEST(one.second > 0u);
  BOOST_TEST((one.first == alone.first));
  BOOST_TEST(simulated(JobBench::kComm, true).second == 0u);
}
