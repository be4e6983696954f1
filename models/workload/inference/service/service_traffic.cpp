// What a service asks of the fabric: an estimate of its traffic for the choice of fidelity, and which of it can meet.
#include <algorithm>

#include "workload/inference/service/service.h"

namespace railyard::workload::inference {

namespace {

/// A prompt and its answer in a conversation, for the choice of fidelity only.
constexpr std::uint64_t kTokensOfARequest = 1500;

}  // namespace

double Service::expected_tokens(InstanceRole role) const {
  const auto shared = static_cast<double>(count_of(role));
  if (!spec_.listed) return static_cast<double>(kTokensOfARequest * api_server_.count()) / shared;
  double sum = 0;
  for (const Request& r : *spec_.listed) {
    if (takes_prompts(role)) sum += r.prompt_tokens;
    if (takes_answers(role)) sum += r.output_tokens;
  }
  return sum / shared;
}

std::vector<transport::Traffic> Service::traffic() {
  std::vector<transport::Traffic> all;
  std::int64_t group = 0;
  for (const auto& instance : instances_) {
    instance->grid().add_traffic(all, expected_tokens(instance->role()),
                                 executor_.replays() ? group : transport::Traffic::kNobody,
                                 instance->spec().rules.passes_residual ? 2 : 1);
    group += instance->grid().pp();
    if (const KvOffload* const offload = instance->offload())
      offload->add_traffic(all, expected_tokens(instance->role()));
  }
  for_each_share([&](const KvEnd& from, const KvEnd& to, std::uint32_t rank, const HandoffPlan::Share& share) {
    all.push_back({from.rank(rank).gpu->window(), to.rank(share.decode_rank).gpu->window(), number(TrafficClass::kv),
                   handed_over(from, to, share)});
  });
  if (weights_) weights_->add_traffic(all);
  return all;
}

double Service::handed_over(const KvEnd& from, const KvEnd& to, const HandoffPlan::Share& share) {
  const std::size_t answers = count_of(InstanceRole::decode) + count_of(InstanceRole::colocated);
  const std::size_t replicas = from->grid().replicas() * to->grid().replicas();
  const auto pairs = static_cast<double>(count_of(InstanceRole::prefill) * answers * replicas);
  const HandoffPlan& plan = exchange_.plan(*from, *to);
  const auto of = [&](std::uint64_t prompt) { return static_cast<double>(plan.bytes(share, {0, prompt, prompt})); };
  if (!spec_.listed) return of(kTokensOfARequest) * api_server_.count() / pairs;
  double bytes = 0;
  for (const Request& r : *spec_.listed) bytes += of(r.prompt_tokens);
  return bytes / pairs;
}

void Service::start() {
  // Ranks that enter by themselves drift apart in a ring, by nanoseconds a layer: no collective equals an earlier one.
  const auto is_paged = [](const auto& instance) { return !instance->spec().whole; };
  if (std::all_of(instances_.begin(), instances_.end(), is_paged)) executor_.members_begin_together();
  if (executor_.replays()) {
    std::vector<Grid*> grids;
    for (const auto& instance : instances_) grids.push_back(&instance->grid());
    std::vector<collective::OtherTraffic> kv;
    for_each_share([&](const KvEnd& from, const KvEnd& to, std::uint32_t rank, const HandoffPlan::Share& share) {
      // Memory that is not paged is promised outside of batches, at any time.
      transport::Horizon* const sends = to->spec().whole ? nullptr : &exchange_.sends(*from, *to);
      kv.push_back(
          {from.rank(rank).gpu->window(), to.rank(share.decode_rank).gpu->window(), number(TrafficClass::kv), sends});
    });
    for (const auto& instance : instances_)
      if (KvOffload* const offload = instance->offload())
        for (const collective::OtherTraffic& each : offload->traffic()) kv.push_back(each);
    if (weights_)
      for (const collective::OtherTraffic& each : weights_->traffic()) kv.push_back(each);
    allow_reuse(grids, std::move(kv), fabric_, executor_.begin_together());
  }
  for (std::size_t i = 0; i < spec_.changes.size(); ++i)
    fabric_.calendar().at(spec_.changes[i].at, *this, kChangeTag, i);
  api_server_.start();
}

void Service::for_each_share(
    const std::function<void(const KvEnd&, const KvEnd&, std::uint32_t, const HandoffPlan::Share&)>& what) {
  for (const auto& from : instances_) {
    for (const auto& to : instances_) {
      if (!hands_over(from->role(), to->role())) continue;
      const HandoffPlan& plan = exchange_.plan(*from, *to);
      for (std::uint32_t i = 0; i < from->grid().replicas(); ++i)
        for (std::uint32_t j = 0; j < to->grid().replicas(); ++j)
          for (std::uint32_t r = 0; r < from->grid().replica_ranks(); ++r)
            for (const HandoffPlan::Share& share : plan.shares(r)) what({from.get(), i}, {to.get(), j}, r, share);
    }
  }
}

}  // namespace railyard::workload::inference
