// Fleets of instances behind a router: queues against Lindley's recursion, prefix hits, waits in the router.
#include <numeric>

#include "sc_main/kinds/serving_load.h"
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

/// Prompts of 512 tokens, which fill a batch, with one token each, on instances of one GPU.
std::vector<std::string> fleet(std::uint32_t instances, std::uint32_t requests, const std::string& arrivals,
                               const std::string& router, const std::string& more = "") {
  return {"workload.requests={count: " + std::to_string(requests) + ", prompt_tokens: 512, output_tokens: 1, " +
              arrivals + more + "}",
          "workload.scheduler={max_batched_tokens: 512, max_seqs: 512}",
          "workload.instances=[{name: a, count: " + std::to_string(instances) + "}]", "workload.router=" + router};
}

/// Time of a batch of one prompt.
Time service_time() {
  ServingBench run(tiny_serving(fleet(1, 1, "arrivals: at_once", "round_robin")));
  run.run();
  return run.served[0].times.first_token - run.served[0].request.arrival;
}

double mean_wait_s(const std::string& router, const std::string& rate, std::uint32_t instances) {
  ServingBench run(tiny_serving(fleet(instances, 3000, "arrivals: poisson, rate_per_s: " + rate, router)));
  run.run();
  double sum = 0;
  for (const Stay& served : run.served) sum += (served.times.first_token - served.request.arrival).seconds();
  return sum / static_cast<double>(run.served.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(by_turn_each_instance_is_a_queue_of_every_kth_arrival) {
  const Time service = service_time();
  const std::string rate = std::to_string(0.8 * 3 / service.seconds());
  ServingBench run(tiny_serving(fleet(3, 400, "arrivals: poisson, rate_per_s: " + rate, "round_robin")));
  run.run();
  std::vector<Time> free(3);
  for (std::size_t i = 0; i < run.served.size(); ++i) {
    const Stay& served = run.served[i];
    BOOST_TEST_REQUIRE(served.instance() == i % 3);
    const Time done = later(served.request.arrival, free[i % 3]) + service;
    BOOST_TEST_REQUIRE((served.times.first_token == done));
    free[i % 3] = done;
  }
}

BOOST_AUTO_TEST_CASE(policies_that_know_more_wait_less) {
  constexpr std::uint32_t kInstances = 6;
  const std::string rate = std::to_string(0.85 * kInstances / service_time().seconds());
  const double random = mean_wait_s("random", rate, kInstances), two = mean_wait_s("power_of_two", rate, kInstances),
               fewest = mean_wait_s("least_requests", rate, kInstances),
               load = mean_wait_s("least_load", rate, kInstances),
               late = mean_wait_s("{policy: least_load, state_delay_us: 20000}", rate, kInstances);
  BOOST_TEST(two < 0.8 * random);
  BOOST_TEST(fewest < two);
  BOOST_TEST(load < two);
  BOOST_TEST(load < late);
  // M/D/1 at this load: W = D (1 + rho / 2(1 - rho)).
  BOOST_TEST(random / service_time().seconds() == 1 + 0.85 / (2 * 0.15), boost::test_tools::tolerance(0.2));
}

BOOST_AUTO_TEST_CASE(an_instance_beyond_its_capacity_grows_by_the_difference) {
  const double capacity = 1 / service_time().seconds();
  for (const double load : {0.7, 1.5}) {
    BOOST_TEST_INFO_SCOPE(load);
    ServingBench run(tiny_serving(
        fleet(1, 1000, "arrivals: poisson, rate_per_s: " + std::to_string(load * capacity), "round_robin")));
    run.run();
    std::vector<RequestSpan> spans;
    for (const Stay& served : run.served) spans.emplace_back(served.request.arrival, served.times.last_token);
    const LoadGrowth growth = *load_growth(spans);
    BOOST_TEST(growth.is_certain == (load > 1));
    if (load < 1) continue;
    // Arrivals as they were drawn in the second half of their time, less a steady stream of answers.
    const Time last = spans.back().first, middle = last - share(last - spans.front().first, 1, 2);
    const auto came =
        std::count_if(spans.begin(), spans.end(), [&](const RequestSpan& span) { return span.first > middle; });
    const double seconds = (last - middle).seconds();
    BOOST_TEST(std::abs(growth.per_s - (static_cast<double>(came) / seconds - capacity)) <= 1 / seconds);
  }
}

BOOST_AUTO_TEST_CASE(prompts_of_g_groups_on_g_instances_miss_g_times) {
  constexpr std::uint32_t kGroups = 4, kRequests = 64;
  const std::string rate = std::to_string(0.05 / service_time().seconds());
  for (const std::string policy : {"prefix_trie", "cache_aware", "session"}) {
    BOOST_TEST_INFO_SCOPE(policy);
    ServingBench run(tiny_serving(fleet(kGroups, kRequests, "arrivals: constant, rate_per_s: " + rate, policy,
                                        ", prefix: {groups: 4, users_per_group: 1, shared_tokens: 256}")));
    run.run();
    std::uint64_t cached = 0;
    for (const Stay& served : run.served) cached += served.counts.cached_tokens;
    BOOST_TEST(cached == (kRequests - kGroups) * 256);
  }
}

BOOST_AUTO_TEST_CASE(short_prompts_first_wait_least_on_average) {
  // Smith's rule: of all orders on one machine, the shortest first has the least mean time.
  const auto served = [](const std::string& order) {
    ServingBench run(
        tiny_serving({"workload.requests={count: 40, prompt_tokens: {uniform: {min: 16, max: 512}}, output_tokens: 1, "
                      "arrivals: at_once}",
                      "workload.scheduler={max_batched_tokens: 512, max_seqs: 512}", "workload.instances=[{name: a}]",
                      "workload.router={policy: round_robin, queue_threshold: 1e-6, queue_order: " + order + "}"}));
    run.run();
    std::vector<std::pair<Time, std::uint32_t>> found;
    for (const Stay& stay : run.served) found.push_back({stay.times.first_token, stay.request.prompt_tokens});
    std::sort(found.begin(), found.end());
    return found;
  };
  const auto mean = [](const auto& found) {
    double sum = 0;
    for (const auto& [time, tokens] : found) sum += time.seconds();
    return sum / static_cast<double>(found.size());
  };
  const auto shortest = served("wspt");
  const auto is_shorter = [](const auto& a, const auto& b) { return a.second < b.second; };
  BOOST_TEST(std::is_sorted(shortest.begin() + 1, shortest.end(), is_shorter));  // the first is sent as it comes
  BOOST_TEST(mean(shortest) < mean(served("fcfs")));
  BOOST_TEST(mean(shortest) < mean(served("lcfs")));
}

BOOST_AUTO_TEST_CASE(a_wait_in_the_router_has_its_name) {
  // Two prompts go to the instances at once; two wait in the router until these have their tokens.
  for (const std::string order : {"fcfs", "lcfs"}) {
    BOOST_TEST_INFO_SCOPE(order);
    ServingBench run(
        tiny_serving(fleet(2, 5, "arrivals: at_once",
                           "{policy: round_robin, router_us: 30, queue_threshold: 0.5, queue_order: " + order + "}")));
    run.run();
    const Time service = service_time(), router = Time::seconds(30e-6);
    std::vector<Time> waits;
    for (const Stay& served : run.served) {
      waits.push_back(served.ttft.all()[static_cast<std::size_t>(TtftPart::router)]);
      Time sum;
      for (const Time part : served.ttft.all()) sum += part;
      BOOST_TEST((sum == served.times.first_token - served.request.arrival));
    }
    const bool is_fcfs = order == "fcfs";
    const std::size_t second[] = {is_fcfs ? 2u : 4u, 3u};
    for (const std::size_t i : {0, 1}) BOOST_TEST((waits[i] == router));
    for (const std::size_t i : second) BOOST_TEST((waits[i] == router + service));
    BOOST_TEST((waits[is_fcfs ? 4 : 2] == router + service + service));
  }
}
