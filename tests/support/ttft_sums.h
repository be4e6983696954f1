// A run of workload.kind: serving in which the parts of each request's TTFT add up to it.
#pragma once

#include "tests/support/serving_run.h"

namespace railyard::test {

inline void run_and_check(ServingBench& run) {
  run.run();
  for (const workload::inference::Stay& served : run.served) {
    Time all;
    for (const Time part : served.ttft.all()) all += part;
    BOOST_TEST((all == served.times.first_token - served.request.arrival));
  }
}

}  // namespace railyard::test
