#include "probe/critical_path.h"

#include <algorithm>

#include "transport/assembly.h"

namespace railyard::probe {

namespace {

using transport::Cost;
using transport::CostKind;

/// What has been added between two states of a vector, of which the first one may be empty, and so may both.
void add_since(std::vector<double>& sum, const std::vector<Time>& before, const std::vector<Time>& after,
               std::uint32_t parts) {
  for (std::size_t f = 0; f < after.size(); ++f)
    sum[f] += (before.empty() ? after[f] : after[f] - before[f]).seconds() / parts;
}

/// Its stream goes on before the job is done.
bool leaves_early(const execution::Job& job) {
  return job.kind() == execution::JobKind::copy || job.kind() == execution::JobKind::send;
}

}  // namespace

CriticalPath::CriticalPath(transport::Assembly& fabric, const Frees& frees, Groups groups, Stragglers stragglers)
    : fabric_(fabric),
      frees_(frees),
      groups_(std::move(groups)),
      stragglers_(std::move(stragglers)),
      message_costs_(fabric.context(), fabric.routes(), groups_, frees.groups),
      free_links_({frees.count(), static_cast<std::size_t>(CostKind::engine),
                   static_cast<std::size_t>(CostKind::latency), static_cast<std::size_t>(CostKind::wire),
                   static_cast<std::size_t>(CostKind::queue), frees.of_class(0), frees.of_group(0)}) {
  fabric.add_listener(*this);
}

// -- moments of jobs

CriticalPath::Moment CriticalPath::beginning() const {
  return {CauseRef(), now(), std::vector<Time>(frees_.count(), now()), nullptr};
}

const CriticalPath::Moment& CriticalPath::current() {
  if (current_.if_free.empty() || current_.at != now()) current_ = beginning();
  return current_;
}

void CriticalPath::join(Moment& moment, const Moment& other) {
  if (other.if_free.empty()) return;
  if (moment.if_free.empty()) {
    moment = other;
    return;
  }
  for (std::size_t f = 0; f < moment.if_free.size(); ++f)
    moment.if_free[f] = later(moment.if_free[f], other.if_free[f]);
  if (other.at < moment.at || (other.at == moment.at && moment.cause)) return;
  moment.at = other.at;
  moment.cause = other.cause;
  moment.clock = other.clock;
}

CriticalPath::Moment CriticalPath::after(const Moment& before, std::vector<Cost> costs, std::string name,
                                         const std::vector<Time>& floors, bool is_collective) const {
  Moment result{before.cause, now(), before.if_free, before.clock};
  if (result.at == before.at) return result;
  const Time took = now() - before.at;
  std::vector<Time> free(frees_.count());
  for (const Cost& cost : costs) {
    free[static_cast<std::size_t>(cost.kind)] += cost.time - cost.hidden;
    if (transport::of_traffic(cost.kind)) free[frees_.of_class(cost.which)] += cost.time;
    if (cost.kind == CostKind::straggler) {  // a kernel that takes no time does so on a slow GPU, too
      free[static_cast<std::size_t>(CostKind::kernel)] += cost.time;
      free[frees_.of_straggler(cost.which)] += cost.time;
    }
    if (cost.kind == CostKind::host) free[frees_.of_host(cost.which)] += cost.time;
    if (!transport::of_links(cost.kind)) continue;
    // Of a queue in a collective, between nothing and all of the hidden part remains: the middle.
    const Time remains = cost.kind == CostKind::wire ? cost.hidden_elsewhere
                         : is_collective             ? share(cost.hidden_elsewhere, 1, 2)
                                                     : Time();
    if (const auto group = groups_.find(cost.port); group != groups_.end())
      free[frees_.of_group(group->second)] += cost.time - remains;
  }
  for (std::size_t f = 0; f < free.size(); ++f) {
    const Time least = floors.empty() ? Time() : sooner(floors[f], took);
    result.if_free[f] += later(since(took, free[f]), least);
  }
  auto* const cause = new Cause{before.cause, before.at, now(), std::move(costs), std::move(name), is_collective};
  result.cause = CauseRef(cause);
  return result;
}

void CriticalPath::on_emitted(const execution::Job& job) { jobs_[&job] = current(); }

void CriticalPath::on_waited(const execution::Job& job, const execution::Job& done) { join(jobs_[&job], jobs_[&done]); }

void CriticalPath::on_begun(const execution::Job& job) {
  Moment& moment = jobs_[&job];
  // Requests have clocks of their own, and use streams of the host in turn: these count where the job waited for them.
  const Moment& stream = streams_[&job.stream()];
  if (job.rank().gpu != nullptr || stream.at > moment.at) join(moment, stream);
  if (moment.at != now()) moment = after(moment, {{CostKind::arrival, 0, nullptr, now() - moment.at, {}, {}}}, {});
  if (leaves_early(job)) streams_[&job.stream()] = moment;
  if (job.kind() == execution::JobKind::collective) {
    Inside& inside = collectives_[job.collective()];
    inside.entered.resize(job.collective()->size());
    inside.entered[job.member()] = moment;
  }
  if (job.kind() == execution::JobKind::kernel && job.rank().gpu->sms().speed() < 1)
    speeds_[&job] = job.rank().gpu->sms().speed();
  inside_ = nullptr;
  outer_.push_back(std::exchange(current_, moment));
}

void CriticalPath::on_begin_told() {
  current_ = std::move(outer_.back());
  outer_.pop_back();
}

void CriticalPath::on_done(const execution::Job& job) {
  Moment& moment = jobs_[&job];
  switch (job.kind()) {
    case execution::JobKind::kernel: moment = done_kernels(job, moment); break;
    case execution::JobKind::collective: moment = done_collective(job); break;
    case execution::JobKind::copy:
    case execution::JobKind::send: moment = done_messages(job, moment); break;
    case execution::JobKind::receive: break;  // its send is the cause
    case execution::JobKind::quiet:
      moment = after(moment, {{CostKind::arrival, 0, nullptr, now() - moment.at, {}, {}}}, {});
      break;
    case execution::JobKind::host:
      moment = after(
          moment,
          {{CostKind::host, static_cast<std::uint32_t>(job.label().host_work()), nullptr, now() - moment.at, {}, {}}},
          job.name());
      break;
    case execution::JobKind::delay:
      moment = after(moment, {{CostKind::delay, 0, nullptr, now() - moment.at, {}, {}}}, job.name());
      break;
  }
  if (!leaves_early(job)) streams_[&job.stream()] = moment;
  current_ = moment;
  inside_ = nullptr;
  join(end_, moment);
}

const CriticalPath::Kernels& CriticalPath::kernels_of(const gpu::SharedChain& chain) {
  for (const Kernels& known : kernels_)
    if (known.chain == chain) return known;
  Kernels& made = kernels_[next_kernels_++ % kernels_.size()];
  made = {chain, {}, {}};
  for (const gpu::KernelTime& kernel : chain->kernels) {
    made.seconds[static_cast<std::size_t>(gpu::KernelLimit::launch)] += kernel.fixed_seconds;
    made.seconds[static_cast<std::size_t>(kernel.limit)] += kernel.seconds - kernel.fixed_seconds;
    for (std::size_t limit = 0; limit < made.saved.size(); ++limit)
      made.saved[limit] += kernel.seconds - kernel.seconds_without(static_cast<gpu::KernelLimit>(limit));
  }
  return made;
}

CriticalPath::Moment CriticalPath::done_kernels(const execution::Job& job, const Moment& begun) {
  const Kernels& kernels = kernels_of(job.kernels());
  std::vector<Cost> costs;
  Time left = job.duration();
  for (std::size_t limit = 0; limit < kernels.seconds.size(); ++limit) {
    const Time time = sooner(left, Time::seconds(kernels.seconds[limit]));
    left = left - time;
    if (time != Time()) costs.push_back({CostKind::kernel, static_cast<std::uint8_t>(limit), nullptr, time, {}, {}});
  }
  double speed = 1;
  if (const auto slow = speeds_.find(&job); slow != speeds_.end()) {
    speed = slow->second;
    speeds_.erase(slow);
    const Time time = sooner(left, Time::seconds(job.kernels()->seconds * (1 / speed - 1)));
    left = left - time;
    costs.push_back({CostKind::straggler, stragglers_.at(job.rank().gpu), nullptr, time, {}, {}});
  }
  if (left != Time()) costs.push_back({CostKind::sharing, 0, nullptr, left, {}, {}});
  Moment done = after(begun, std::move(costs), job.name());
  for (std::size_t limit = 0; limit < kernels.saved.size(); ++limit) {
    Time& if_free = done.if_free[frees_.of_resource(limit)];
    if_free = if_free - sooner(Time::seconds(std::max(0.0, kernels.saved[limit] / speed)), job.duration());
  }
  return done;
}

void CriticalPath::on_waited_for_peer(const execution::Job& job, const execution::Job& last) {
  std::vector<Moment>& entered = collectives_[job.collective()].entered;
  join(entered[job.member()], entered[last.member()]);
}

void CriticalPath::on_reached(const void* owner, std::uint32_t number) {
  Gate& gate = gates_[{owner, number}];
  join(gate.met, current());
  gate.queued.clear();
  if (const auto scheduler = composed_.find(owner); scheduler != composed_.end()) gate.then = scheduler->second.shifts;
}

std::optional<CriticalPath::Gate> CriticalPath::take_gate(const void* owner, std::uint32_t number) {
  const auto found = gates_.find({owner, number});
  if (found == gates_.end()) return std::nullopt;
  Gate gate = std::move(found->second);
  gates_.erase(found);
  return gate;
}

void CriticalPath::wait_for(const Moment& moment) {
  if (current_.at == now() && !current_.if_free.empty()) {
    join(current_, moment);
  } else {
    current_ = after(moment, {{CostKind::arrival, 0, nullptr, now() - moment.at, {}, {}}}, {});
  }
}

void CriticalPath::on_passed(const void* owner, std::uint32_t gate) {
  if (const std::optional<Gate> passed = take_gate(owner, gate)) wait_for(passed->met);
}

// -- results

CriticalPath::Doubt CriticalPath::Measure::doubt(std::size_t free) const {
  constexpr double kMostArrivals = 0.03, kMostQueues = 0.05;  // relative to the time without
  const double without = if_free[free];
  double other = 0;  // time of batches that would have other requests
  for (const Shifted& in : shifted)
    if (in.moved[free] > 0) other += in.moved[free] / (in.moved[free] + without) * in.other[free];
  if (other > kMostArrivals * without || held[free] > kMostArrivals * without) return Doubt::arrivals;
  if (std::min(seconds - without, queued[free] / 2) > kMostQueues * without) return Doubt::queues;
  return Doubt::none;
}

void CriticalPath::add(Measure& measure, const Begun& begun, const Moment& last, const Offsets& ahead,
                       std::uint32_t number, std::uint32_t parts) const {
  const Moment& first = begun.moment;
  const Time from = first.at;
  measure.seconds += (last.at - from).seconds() / parts;
  if (measure.count++ == 0 || last.at - from > measure.to - measure.from) {
    measure.number = number;
    measure.from = from;
    measure.to = last.at;
    measure.chain = last.cause;
  }
  for (std::vector<double>* sums : {&measure.if_free, &measure.queued, &measure.held}) sums->resize(frees_.count());
  const Cause* cause = last.cause.get();
  Time covered = last.at;
  for (; cause != nullptr && cause->to > from; cause = cause->before.get()) {
    // A piece that began before the interval counts with its share.
    const double inside = cause->from >= from ? 1 : (cause->to - from).seconds() / (cause->to - cause->from).seconds();
    for (const Cost& cost : cause->costs) {
      const double seconds = cost.time.seconds() * inside / parts;
      measure.cost_seconds[cost.key()] += seconds;
      if (!cause->is_collective || cost.kind != CostKind::queue) continue;
      if (const auto group = groups_.find(cost.port); group != groups_.end())
        measure.queued[frees_.of_group(group->second)] += cost.hidden_elsewhere.seconds() * inside / parts;
    }
    covered = later(cause->from, from);
  }
  if (covered > from)
    measure.cost_seconds[Cost{CostKind::arrival, 0, nullptr, {}, {}, {}}.key()] += (covered - from).seconds() / parts;
  for (std::size_t f = 0; f < frees_.count(); ++f) {
    const auto took =
        static_cast<std::int64_t>(last.if_free[f].fs() - first.if_free[f].fs() - (ahead[f] - begun.ahead[f]));
    Time without = Time::fs(static_cast<std::uint64_t>(std::max<std::int64_t>(0, took)));
    if (parts == 1)
      without = sooner(without, last.at - from);  // what waits for everything is never later without something
    measure.if_free[f] += without.seconds() / parts;
  }
}

void CriticalPath::add_held(Measure& measure, Time held, std::uint32_t parts) const {
  measure.held[static_cast<std::size_t>(CostKind::host)] += held.seconds() / parts;
  for (std::size_t work = 0; work < execution::kHostWorkNames.size(); ++work)
    measure.held[frees_.of_host(work)] += held.seconds() / parts;
}

void CriticalPath::add_shifts(Measure& measure, std::size_t stay, const Shifts& since, const Shifts& until,
                              std::uint32_t parts) const {
  if (measure.shifted.size() <= stay)
    measure.shifted.resize(stay + 1, {std::vector<double>(frees_.count()), std::vector<double>(frees_.count())});
  add_since(measure.shifted[stay].moved, since.moved, until.moved, parts);
  add_since(measure.shifted[stay].other, since.starting, until.starting, parts);
}

void CriticalPath::on_measure_begun(const char* metric, std::uint32_t number) {
  Begun& begun = begun_[{metric, number}] = {current(), ahead_of(number, current()), 0, {}, {}};
  const auto request = requests_.find(number);
  if (request == requests_.end() || request->second.stays.empty()) return;
  begun.stay = request->second.stays.size() - 1;
  begun.then = composed_.at(request->second.stays.back().scheduler).shifts;
}

void CriticalPath::on_measured(const char* metric, std::uint32_t number, std::uint32_t parts) {
  auto measure = std::find_if(measures_.begin(), measures_.end(), [&](const Measure& m) { return m.metric == metric; });
  if (measure == measures_.end()) {
    measures_.emplace_back();
    measure = measures_.end() - 1;
    measure->metric = metric;
  }
  const auto begun = begun_.find({metric, number});
  Moment last = current();
  const auto request = requests_.find(number);
  if (request != requests_.end() && request->second.queued > begun->second.moment.at)
    last.cause = spliced(last.cause, request->second.queued, request->second.own);
  add(*measure, begun->second, last, ahead_of(number, last), number, parts);
  measure->held_seconds += begun->second.held.seconds() / parts;
  add_held(*measure, begun->second.held, parts);
  if (request != requests_.end()) {
    const std::vector<Request::Stay>& stays = request->second.stays;
    for (std::size_t s = begun->second.stay; s < stays.size(); ++s) {
      const bool is_in = s == begun->second.stay && !begun->second.then.moved.empty();
      const Shifts& until = stays[s].until.moved.empty() ? composed_.at(stays[s].scheduler).shifts : stays[s].until;
      add_shifts(*measure, s, is_in ? begun->second.then : stays[s].since, until, parts);
    }
  }
  begun_.erase(begun);
}

CriticalPath::Measure CriticalPath::end() const {
  Measure measure;
  measure.metric = "end_s";
  if (end_.if_free.empty()) return measure;
  const std::size_t count = frees_.count();
  Moment last = end_;
  if (!last_answer_.if_free.empty()) last.if_free = last_answer_.if_free;
  add(measure, {{CauseRef(), Time(), std::vector<Time>(count), nullptr}, Offsets(count), 0, {}, {}}, last,
      Offsets(count), 0, 1);
  add_held(measure, sooner(held_, last.at), 1);
  for (std::size_t s = 0; s < last_stays_.size(); ++s) {
    add_shifts(measure, s, {}, composed_.at(last_stays_[s].scheduler).shifts, 1);
  }
  return measure;
}

}  // namespace railyard::probe
