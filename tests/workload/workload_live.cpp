// Requests that come while a run goes on: when they arrive, what the source says of the future, and a run of their record.
#define BOOST_TEST_MODULE workload_live
#include <boost/test/unit_test.hpp>

#include "workload/inference/requests/live_source.h"

using namespace railyard;
using namespace railyard::workload::inference;

BOOST_AUTO_TEST_CASE(a_source_is_open_until_it_is_closed) {
  const auto requests = std::make_shared<LiveRequests>();
  LiveSource source(requests);
  BOOST_TEST(source.is_open());
  BOOST_TEST(!source.next_arrival());
  BOOST_TEST(source.count() == 1u);  // more than have come: a service is not done
  for (std::uint32_t i = 0; i < 3; ++i) BOOST_TEST(requests->add({Time::ns(10 * i), 100 + i, 5}, {1, {i}, {}}) == i);
  BOOST_TEST(source.count() == 4u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    BOOST_TEST((*source.next_arrival() == Time::ns(10 * i)));
    const RequestSource::Arrival arrival = source.take();
    BOOST_TEST(arrival.request.prompt_tokens == 100 + i);
    BOOST_TEST(arrival.content.ids.front() == i);
    BOOST_TEST(source.done(i, Time::ns(100)) == 0u);
  }
  requests->close();
  BOOST_TEST(!source.is_open());
  BOOST_TEST(source.count() == 3u);
  BOOST_TEST((*source.next_arrival() == Time::ns(20)));
  source.take();
  BOOST_TEST(!source.next_arrival());
}
