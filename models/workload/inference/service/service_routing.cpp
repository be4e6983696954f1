// Which instances compute a request: the router chooses among those that can hold it.
#include <algorithm>
#include <optional>
#include <utility>

#include "workload/inference/service/service.h"

namespace railyard::workload::inference {

Candidates Service::holders(const Request& request, RequestPart part) const {
  Candidates all = router_.candidates(request, part);
  const auto is_too_small = [&](std::uint32_t id) {
    const RequestPart here = part == RequestPart::answer ? part : entry_part(*instances_[id]);
    return !instances_[id]->scheduler().can_hold(request, here);
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_too_small), all.end());
  return all;
}

Candidates Service::candidates(const Request& request, RequestPart part) const {
  Candidates all = holders(request, part);
  all.erase(std::remove_if(all.begin(), all.end(), [&](std::uint32_t id) { return !router_.is_open(id); }), all.end());
  return all;
}

Candidates Service::entries(const Request& request, bool is_now) const {
  Candidates all = is_now ? candidates(request, RequestPart::prompt) : holders(request, RequestPart::prompt);
  if (count_of(InstanceRole::prefill) == 0) return all;
  const Candidates answers = is_now ? candidates(request, RequestPart::answer) : holders(request, RequestPart::answer);
  const auto has_no_answer = [&](std::uint32_t id) {
    return instances_[id]->role() == InstanceRole::prefill && answers.empty();
  };
  all.erase(std::remove_if(all.begin(), all.end(), has_no_answer), all.end());
  return all;
}

bool Service::accepts(const Request& request) const { return !entries(request, false).empty(); }

Service::Choice Service::choose(Asked& asked, RequestPart part) {
  asked.part = part;
  Choice choice{part == RequestPart::answer ? candidates(asked.request, part) : entries(asked.request, true), {}};
  choice.choice = router_.choose(asked, choice.among, now());
  return choice;
}

Time Service::expected(const Asked& asked, std::uint32_t from, std::uint32_t to) {
  const Instance &prompt = *instances_[from], &answer = *instances_[to];
  const bool is_known = !exchange_.pushes();  // the prompt has been computed
  const std::uint32_t first = is_known ? prompt.replica(asked.number) : 0;
  const std::uint32_t end = is_known ? first + 1 : prompt.grid().replicas();
  Time sum;
  for (std::uint32_t i = first; i < end; ++i)
    for (std::uint32_t j = 0; j < answer.grid().replicas(); ++j)
      sum += exchange_.expected({&prompt, i}, {&answer, j}, asked.request.prompt_tokens);
  return Time::fs(sum.fs() / ((end - first) * answer.grid().replicas()));
}

std::uint32_t Service::send(Asked& asked, const Choice& choice, RequestPart part) {
  asked.part = part;
  router_.send(asked, choice.choice.instance, now());
  for (ServiceSink* sink : sinks_) sink->on_routed(asked.number, part, choice.among, choice.choice, now());
  return choice.choice.instance;
}

void Service::on_at_router(std::uint32_t request) {
  Held held{request, 0, now()};
  if (spec_.router.queue_order == RouterQueueOrder::wspt) {
    const Request what = api_server_.on_way(request).remaining();
    Asked asked(request, what, api_server_.content(request), RequestPart::prompt);
    held.new_tokens = router_.new_tokens(asked, entries(what, true), now());
  }
  held_.push_back(held);
  route_held();
}

void Service::route_held() {
  while (!held_.empty()) {
    const auto next = next_held();
    const std::uint32_t request = next->request;
    const Candidates all = entries(api_server_.on_way(request).remaining(), true);
    if (all.empty() || router_.is_full(all)) return;
    if (next->since < now()) executor_.held("ttft_s", request, next->since);
    held_.erase(next);
    route(request);
  }
}

std::deque<Service::Held>::iterator Service::next_held() {
  switch (spec_.router.queue_order) {
    case RouterQueueOrder::fcfs: break;
    case RouterQueueOrder::lcfs: return std::prev(held_.end());
    case RouterQueueOrder::wspt:
      return std::min_element(held_.begin(), held_.end(),
                              [](const Held& a, const Held& b) { return a.new_tokens < b.new_tokens; });
  }
  return held_.begin();
}

void Service::route_held_soon() {
  if (!held_.empty()) fabric_.calendar().at(now(), *this, kRouteTag, 0);
}

void Service::on_event(std::uint32_t tag, std::uint64_t data) {
  switch (tag) {
    case kRouteTag: route_held(); return;
    case kChangeTag: change(spec_.changes[data]); return;
    default: end_lease(data);
  }
}

void Service::route(std::uint32_t request) {
  const Request what = api_server_.on_way(request).remaining();
  Asked asked(request, what, api_server_.content(request), RequestPart::prompt);
  std::optional<Choice> prompt, answer;
  std::vector<Visit> visits(1);
  if (const PromptDecider* const decider = router_.decider()) {
    answer = choose(asked, RequestPart::answer);
    std::optional<std::uint32_t> prefill;
    if (decider->asks_load()) {
      prompt = choose(asked, RequestPart::prompt);
      prefill = prompt->choice.instance;
    }
    if (router_.keeps_prompt(asked, answer->choice.instance, prefill)) {
      visits[0].instance = send(asked, *answer, RequestPart::all);
      api_server_.routed(request, std::move(visits));
      return;
    }
  }
  if (!prompt) prompt = choose(asked, RequestPart::prompt);
  visits[0].instance = send(asked, *prompt, RequestPart::prompt);
  visits[0].part = entry_part(at(visits[0]));
  if (visits[0].part == RequestPart::prompt && needs_answer(what)) {
    visits.emplace_back();
    visits[1].part = RequestPart::answer;
    asked.from = visits[0].instance;
    if (exchange_.pushes() && !answer) answer = choose(asked, RequestPart::answer);
    if (answer) visits[1].instance = send(asked, *answer, RequestPart::answer);
  }
  api_server_.routed(request, std::move(visits));
}

void Service::ended(std::uint32_t request, std::uint32_t instance) {
  router_.view().on_ended(request, instance);
  route_held_soon();
}

}  // namespace railyard::workload::inference
