// How a training software uses NCCL: the properties that all collectives of a class of traffic share.
#pragma once

#include "collective/tuner.h"
#include "workload/traffic.h"
#include "workload/training/plan/software.h"

namespace railyard::workload::training {

inline collective::CollectiveRequest nccl_request(const Software& software, TrafficClass traffic) {
  collective::CollectiveRequest request;
  request.traffic_class = number(traffic);
  request.in_graph = software.launch == Launch::graph;
  request.nvls = software.nvls;
  request.most_channels = software.nccl_ctas.value_or(0);
  return request;
}

}  // namespace railyard::workload::training
