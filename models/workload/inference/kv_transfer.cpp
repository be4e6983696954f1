#include "workload/inference/kv_transfer.h"

#include <fmt/format.h>

#include "workload/traffic.h"

namespace railyard::workload::inference {

void KvTransfer::send(std::uint32_t request, const HandoffPlan::Tokens& tokens) {
  std::uint32_t& left = left_[request];
  for (std::uint32_t r = 0; r < from_.ranks(); ++r) {
    std::vector<Transfer> transfers;
    for (const HandoffPlan::Share& share : plan_.shares(r)) {
      const Bytes bytes = plan_.bytes(share, tokens);
      if (bytes > 0) transfers.push_back({*to_.rank(share.decode_rank).memory, bytes});
    }
    if (transfers.empty()) continue;
    ++left;
    Rank& rank = from_.rank(r);
    executor_.copy(rank, rank.stream(Instance::kKv), {transfers, number(TrafficClass::kv)},
                   JobLabel::of(*this, Fields{request, r / from_.tp(), r % from_.tp()}), *this);
  }
  if (left > 0) return;
  left_.erase(request);
  client_.on_kv_arrived(request);
}

void KvTransfer::on_job_done(const Job& job) {
  const std::uint32_t request = job.label().as<Fields>().request;
  executor_.reached(this, request);
  if (--left_.at(request) > 0) return;
  left_.erase(request);
  executor_.passed(this, request);
  client_.on_kv_arrived(request);
}

std::string KvTransfer::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("Handoff_PP[{}]_TP[{}]_Req[{}]", std::uint32_t{f.stage}, std::uint32_t{f.tp}, f.request);
}

std::string KvTransfer::work(std::uint64_t arguments) const {
  return fmt::format("Req[{}]", JobLabel::fields_of<Fields>(arguments).request);
}

}  // namespace railyard::workload::inference
