#include "workload/inference/routing/router_view.h"

#include <algorithm>
#include <utility>

namespace railyard::workload::inference {

namespace {

/// production-stack, src/vllm_router/parser.py: --request-stats-window.
const Time kWindow = Time::seconds(60);

}  // namespace

RouterView::RouterView(const std::vector<Member>& members, Time delay, bool has_contents)
    : instances_(members.size()), delay_(delay), has_contents_(has_contents) {
  for (std::size_t i = 0; i < members.size(); ++i) instances_[i].member = members[i];
}

void RouterView::report(Report report) { delay_ == Time() ? apply(report) : reports_.push_back(report); }

void RouterView::apply(const Report& report) {
  Instance& instance = instances_[report.instance];
  switch (report.what) {
    case Report::What::load: instance.heard = report.load; break;
    case Report::What::stored: instance.cached[static_cast<std::size_t>(report.place)].add(report.content); break;
    case Report::What::removed: instance.cached[static_cast<std::size_t>(report.place)].remove(report.content); break;
  }
}

void RouterView::on_load(std::uint32_t instance, const EngineLoad& load, Time now) {
  report({Report::What::load, instance, now, load});
}

void RouterView::on_stored(std::uint32_t instance, BlockPool::Content content, Time now, KvPlace place) {
  report({Report::What::stored, instance, now, {}, content, place});
}

void RouterView::on_removed(std::uint32_t instance, BlockPool::Content content, Time now, KvPlace place) {
  report({Report::What::removed, instance, now, {}, content, place});
}

void RouterView::hear(Time now) {
  for (; !reports_.empty() && reports_.front().at + delay_ <= now; reports_.pop_front()) apply(reports_.front());
  for (Instance& instance : instances_)
    while (!instance.recent.empty() && instance.recent.front() + kWindow < now) instance.recent.pop_front();
}

void RouterView::on_sent(std::uint32_t id, Asked& asked, Time now) {
  Instance& instance = instances_[id];
  Sent& sent = instance.requests[asked.number];
  if (has_contents_) sent.contents = asked.contents(instance.member.block_tokens);
  sent.own_blocks = ceil_div(asked.request.prompt_tokens, instance.member.block_tokens) - sent.contents.size();
  if (asked.part != RequestPart::answer) {
    const std::uint64_t found = has_contents_ ? cached_blocks(id, asked) * instance.member.block_tokens : 0;
    sent.prefill_tokens = asked.request.prompt_tokens - std::min<std::uint64_t>(found, asked.request.prompt_tokens);
  }
  instance.prefill_tokens += sent.prefill_tokens;
  instance.own_blocks += sent.own_blocks;
  for (const BlockPool::Content content : sent.contents) ++instance.shared[content];
  instance.recent.push_back(now);
}

void RouterView::compute_no_more(Instance& instance, Sent& sent) {
  if (!std::exchange(sent.is_prefilling, false)) return;
  instance.prefill_tokens -= sent.prefill_tokens;
}

void RouterView::on_first_token(std::uint32_t request, std::uint32_t id) {
  const auto sent = instances_[id].requests.find(request);
  if (sent != instances_[id].requests.end()) compute_no_more(instances_[id], sent->second);
}

void RouterView::on_ended(std::uint32_t request, std::uint32_t id) {
  Instance& instance = instances_[id];
  const auto found = instance.requests.find(request);
  if (found == instance.requests.end()) return;
  Sent& sent = found->second;
  compute_no_more(instance, sent);
  instance.own_blocks -= sent.own_blocks;
  for (const BlockPool::Content content : sent.contents) {
    const auto shared = instance.shared.find(content);
    if (--shared->second == 0) instance.shared.erase(shared);
  }
  instance.requests.erase(found);
}

std::uint64_t RouterView::blocks_with(std::uint32_t id, Asked& asked) const {
  const Instance& instance = instances_[id];
  const Asked::Contents& contents = asked.contents(instance.member.block_tokens);
  const auto is_new = [&](BlockPool::Content content) { return instance.shared.count(content) == 0; };
  return instance.own_blocks + instance.shared.size() +
         static_cast<std::uint64_t>(std::count_if(contents.begin(), contents.end(), is_new)) +
         ceil_div(asked.request.prompt_tokens, instance.member.block_tokens) - contents.size();
}

std::uint64_t RouterView::cached_blocks(std::uint32_t id, Asked& asked) const {
  const Instance& instance = instances_[id];
  return instance.cached.front().matched(asked.contents(instance.member.block_tokens));
}

RouterView::Copies RouterView::copied_blocks(std::uint32_t id, Asked& asked) const {
  const Instance& instance = instances_[id];
  const Asked::Contents& contents = asked.contents(instance.member.block_tokens);
  const auto in = [&](KvPlace place) -> const PrefixIndex& { return instance.cached[static_cast<std::size_t>(place)]; };
  const std::uint64_t on_gpus = in(KvPlace::gpus).matched(contents);
  Copies copies;
  copies.host = in(KvPlace::host).matched(contents, on_gpus);
  copies.disks = in(KvPlace::disks).matched(contents, on_gpus + copies.host);
  return copies;
}

Time RouterView::out_of_date(std::uint32_t id, Time now) const {
  for (const Report& report : reports_)
    if (report.instance == id) return now - report.at;
  return {};
}

}  // namespace railyard::workload::inference
