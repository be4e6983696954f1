#include "workload/collective_test/collective_test.h"

namespace railyard::workload::collective_test {

collective::CollectiveSpec plan(const CollectiveTestSpec& test, const collective::Group& group,
                                const collective::Site& site, Bytes bytes) {
  collective::Request request;
  request.operation = test.operation;
  request.bytes = bytes;
  request.library = test.library;
  request.algorithm = test.algorithm;
  request.protocol = test.protocol;
  request.root = test.root;
  request.both_directions = test.both_directions;
  request.in_graph = test.in_graph;
  request.traffic_class = number(TrafficClass::tp);
  return collective::choose(request, group, site);
}

}  // namespace railyard::workload::collective_test
