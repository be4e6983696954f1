// The first contact of instances between which a KvExchange moves KV: who meets whom, and for how long.
#include <algorithm>

#include "workload/inference/service/kv_exchange.h"

namespace railyard::workload::inference {

void KvExchange::follow_contacts(std::vector<Instance*> instances, bool have_met) {
  KvContactsClient& client = *this;
  contacts_.emplace(std::move(instances), have_met, pushes(), executor_, client);
}

std::vector<Time> KvExchange::handshakes(const KvEnd& from, const KvEnd& to) {
  std::vector<Time> times((pushes() ? from : to).ranks());
  const std::uint64_t blocks = (pushes() ? to : from).blocks();
  const HandoffPlan& plan = this->plan(*from, *to);
  for (std::uint32_t r = 0; r < from.ranks(); ++r)
    for (const HandoffPlan::Share& share : plan.shares(r)) {
      const std::uint64_t regions = this->regions(from->grid(), share, share.first_layer, share.last_layer, true);
      times[pushes() ? r : share.decode_rank] += Time::seconds(
          (connector_.metadata_us + static_cast<double>(blocks * regions) * connector_.prepare_us) * 1e-6);
    }
  return times;
}

std::vector<Time> KvExchange::announcements(const KvEnd& from, const KvEnd& to) {
  std::vector<Time> times(to.ranks());
  const HandoffPlan& plan = this->plan(*from, *to);
  for (std::uint32_t r = 0; r < from.ranks(); ++r)
    for (const HandoffPlan::Share& share : plan.shares(r))
      times[share.decode_rank] += Time::seconds(connector_.metadata_us * 1e-6);
  return times;
}

void KvExchange::on_met(const KvEnd& from, const KvEnd& to) {
  std::vector<std::uint32_t> requests;
  for (const auto& [request, prompt] : prompts_)
    if (prompt.meets && prompt.from == from && prompt.to == to) requests.push_back(request);
  std::sort(requests.begin(), requests.end());  // the order of the map is the library's
  for (const std::uint32_t request : requests) {
    Prompt& prompt = prompts_.at(request);
    prompt.meets = false;
    if (!prompt.is_computed) continue;
    prompt.moved.handshake = executor_.fabric().now() - prompt.computed;
    client_.on_kv_met(request);
    if (pushes()) {
      client_.on_kv_posted(request);
    } else if (prompt.posts == 0) {
      on_posted(request);
    }
  }
}

}  // namespace railyard::workload::inference
