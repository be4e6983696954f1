// workload.requests of the kind `serving` under test: read from a text, or a trace, and taken.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "sc_main/scenario/kinds/serving_requests.h"
#include "tests/scenario/scenario_support.h"

namespace railyard::test {

using scenario::Record;
using scenario::ServingRequests;
using scenario::ServingRequestsSection;
using scenario::Source;
using workload::inference::RequestSource;

using Ids = std::vector<std::uint64_t>;

struct Workload {
  ServingRequestsSection requests;
};

struct Requests {
  Scratch scratch;

  /// `text` begins at column 13 of line 2.
  ServingRequests load(const std::string& text, std::uint64_t seed = 1) const {
    const Source source{scenario::parse_yaml("workload:\n  requests: " + text + "\n", "s.yaml")};
    Record<Workload> table;
    table.variants("requests", &Workload::requests, scenario::serving_request_forms(), "the requests").required();
    Workload written;
    table.read(written, *scenario::value_at(source.root, "workload"), "workload");
    return scenario::resolve_serving_requests(written.requests, {{"a"}, {}}, true, seed, source);
  }
  std::string refusal(const std::string& text) const {
    try {
      load(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  ServingRequests trace(const std::string& format, const std::string& text, const std::string& more = "") const {
    scratch.write("t", text);
    return load("{format: " + format + ", file: t" + more + "}");
  }
  std::string trace_refusal(const std::string& format, const std::string& text, const std::string& more = "") const {
    scratch.write("t", text);
    return refusal("{format: " + format + ", file: t" + more + "}");
  }
};

/// All requests; each is done when it arrives.
inline std::vector<RequestSource::Arrival> taken(RequestSource& source) {
  std::vector<RequestSource::Arrival> all;
  while (source.next_arrival()) {
    all.push_back(source.take());
    source.done(static_cast<std::uint32_t>(all.size() - 1), all.back().request.arrival);
  }
  BOOST_TEST(all.size() == source.count());
  return all;
}

inline std::vector<RequestSource::Arrival> taken(const ServingRequests& requests) {
  return taken(*requests.make_source());
}

}  // namespace railyard::test
