// Takes all requests of a source, as a service does that needs a given time for each.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <vector>

#include "workload/inference/requests/request_source.h"

namespace railyard::test {

struct Taken {
  workload::inference::RequestSource::Arrival arrival;
  Time done;
};

/// Takes every request of a source, and answers request n after service(n).
template <class Service>
std::vector<Taken> served(workload::inference::RequestSource& source, const Service& service) {
  std::vector<Taken> taken;
  std::multimap<Time, std::uint32_t, bool (*)(const Time&, const Time&)> in_flight(
      [](const Time& a, const Time& b) { return a < b; });
  for (;;) {
    const auto next = source.next_arrival();
    if (!in_flight.empty() && (!next || in_flight.begin()->first <= *next)) {
      const auto [now, request] = *in_flight.begin();
      in_flight.erase(in_flight.begin());
      source.done(request, now);
    } else if (next) {
      const auto number = static_cast<std::uint32_t>(taken.size());
      taken.push_back({source.take(), {}});
      BOOST_REQUIRE((taken.back().arrival.request.arrival == *next));
      taken.back().done = *next + service(number);
      in_flight.emplace(taken.back().done, number);
    } else {
      break;
    }
  }
  BOOST_TEST(taken.size() == source.count());
  return taken;
}

}  // namespace railyard::test
