#include "execution/executor.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "execution/pass_course.h"

namespace railyard::execution {

Executor::Executor(transport::Fabric& fabric, JobSink& sink) : fabric_(fabric), sink_(sink), collectives_(fabric) {}

Executor::~Executor() = default;

void Executor::enter(const Job& last) {
  Run& run = runs_[last.collective_->cookie];
  collective::Collective& collective = *last.collective_;
  std::vector<std::uint32_t> others;
  if (members_begin_together_ && collective.status() == Status::ok) {
    if (run.ready.size() + 1 < run.jobs.size()) {
      run.ready.push_back(last.member_);
      return;
    }
  }
  others.swap(run.ready);
  collective.enter(last.member_);
  for (const std::uint32_t member : others) {
    if (listener_ != nullptr) listener_->on_waited_for_peer(*run.jobs[member], last);
    collective.enter(member);
  }
}

void Executor::write(const Job& job) {
  const Recorded recorded = job.label().recorded();
  if (recorded == Recorded::never || (job.collective() != nullptr && recorded != Recorded::each_member)) return;
  JobRecord record;
  record.label = job.label();
  record.rank = job.rank().number;
  record.start = job.begun_at();
  record.end = fabric_.now();
  record.queued = job.begun_at() - job.ready_at();
  record.bytes = job.bytes();
  sink_.on_job(record);
}

Job& Executor::acquire(Job::Kind kind, Rank& rank, gpu::Stream& stream, const JobLabel& label, JobClient& client) {
  Job* job;
  if (free_.empty()) {
    storage_.emplace_back();
    job = &storage_.back();
  } else {
    job = free_.back();
    free_.pop_back();
  }
  job->reset();
  job->executor_ = this;
  job->client_ = &client;
  job->rank_ = &rank;
  job->stream_ = &stream;
  job->label_ = label;
  job->kind_ = kind;
  job->status_ = Status::ok;
  job->bytes_ = 0;
  ++live_;
  ++jobs_;
  return *job;
}

void Executor::release(Job& job) {
  job.dependents_.clear();
  if (job.kind_ == Job::Kind::copy || job.kind_ == Job::Kind::send) {
    job.copy_ = Copy();
    job.delivery_ = {};
  }
  job.chain_.reset();
  job.collective_ = nullptr;
  --live_;
  free_.push_back(&job);
}

void Executor::depend(Job& job, const JobRef& on) {
  if (is_done(on)) return;
  job.wait_for_one_more();
  on.job->dependents_.add(job);
}

JobRef Executor::push(Job& job, const std::vector<JobRef>& after) {
  for (const JobRef& on : after) depend(job, on);
  if (listener_ != nullptr) listener_->on_emitted(job);
  const JobRef result = ref(job);
  job.stream_->push(job);
  return result;
}

JobRef Executor::kernel(Rank& rank, gpu::Stream& stream, gpu::SharedChain chain, const JobLabel& label,
                        JobClient& client, const std::vector<JobRef>& after) {
  Job& job = acquire(Job::Kind::kernel, rank, stream, label, client);
  job.chain_ = std::move(chain);
  return push(job, after);
}

JobRef Executor::delay(Rank& rank, gpu::Stream& stream, Time duration, const JobLabel& label, JobClient& client,
                       const std::vector<JobRef>& after) {
  return keep(Job::Kind::delay, rank, stream, duration, label, client, after);
}

JobRef Executor::host(Rank& rank, gpu::Stream& stream, Time duration, const JobLabel& label, JobClient& client,
                      const std::vector<JobRef>& after) {
  return keep(Job::Kind::host, rank, stream, duration, label, client, after);
}

JobRef Executor::keep(Job::Kind kind, Rank& rank, gpu::Stream& stream, Time duration, const JobLabel& label,
                      JobClient& client, const std::vector<JobRef>& after) {
  Job& job = acquire(kind, rank, stream, label, client);
  job.duration_ = duration;
  return push(job, after);
}

void Executor::collective(Communicator& communicator, const collective::CollectiveSpec& spec, const JobLabel& label,
                          JobClient& client, std::vector<JobRef>& jobs, const std::vector<JobRef>& after) {
  const std::uint32_t run = begin_run(communicator, spec, label, client);
  for (std::uint32_t m = 0; m < communicator.size(); ++m) {
    Job& job = add_member(run, m, communicator.rank(m), communicator.stream(m),
                          {label.namer, label.namer->of_member(label.arguments, m)}, client);
    for (std::size_t i = m; i < after.size(); i += communicator.size()) depend(job, after[i]);
    if (listener_ != nullptr) listener_->on_emitted(job);
  }
  jobs.clear();  // `jobs` may be the same list as `after`
  for (Job* job : runs_[run].jobs) jobs.push_back(ref(*job));
  // Push last: the first member may enter immediately.
  for (Job* job : runs_[run].jobs) job->stream_->push(*job);
}

std::uint32_t Executor::begin_run(Communicator& communicator, const collective::CollectiveSpec& spec,
                                  const JobLabel& label, JobClient& client, std::optional<std::uint64_t> first_turn) {
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::uint32_t>(runs_.size()));
    runs_.emplace_back();
  }
  const std::uint32_t number = free_runs_.back();
  free_runs_.pop_back();
  Run& run = runs_[number];
  run.jobs.assign(communicator.size(), nullptr);
  run.label = label;
  run.rank = communicator.rank(0).number;
  run.client = &client;
  run.course = nullptr;
  run.collective = &collectives_.acquire();
  run.collective->prepare(spec, communicator.group(), *this, reuse_of(communicator), first_turn);
  run.collective->cookie = number;
  return number;
}

collective::ReuseTable* Executor::reuse_of(const Communicator& communicator) {
  collective::ReuseTable* const table = communicator.reuse();
  if (!replays_ || table == nullptr || changing_.empty()) return replays_ ? table : nullptr;
  const auto [crosses, fresh] = crosses_changing_.try_emplace(table);
  if (fresh) crosses->second = table->crosses(changing_);
  return crosses->second ? nullptr : table;
}

void Executor::course(Communicator& communicator, const std::vector<CourseStep>& steps,
                      const std::vector<CourseLaunches>& launches, JobClient& client, std::vector<JobRef>& jobs,
                      const std::vector<JobRef>& after, CourseMemory* memory) {
  if (free_courses_.empty()) free_courses_.push_back(courses_.emplace_back(std::make_unique<PassCourse>()).get());
  PassCourse& course = *free_courses_.back();
  free_courses_.pop_back();
  course.prepare(*this, communicator, steps, client, memory);
  std::vector<Job*> all;
  for (std::uint32_t m = 0; m < communicator.size(); ++m) {
    all.push_back(&acquire(Job::Kind::kernel, communicator.rank(m), communicator.stream(m), {}, client));
    course.add(*all.back());
  }
  for (const CourseLaunches& all : launches) {
    if (all.host == nullptr) {
      course.add_host(Time());
      continue;
    }
    Job& host = acquire(Job::Kind::host, *all.host, *all.stream, all.label, client);
    host.duration_ = all.takes;
    course.add_host(host, all.before);
    composed_ += all.count - 1;
    push(host, all.after);
  }
  const std::vector<JobRef> waits = after;  // `jobs` may be the same list as `after`
  jobs.clear();
  for (std::uint32_t m = 0; m < all.size(); ++m) {
    course.take(*all[m]);
    for (std::size_t i = m; i < waits.size(); i += all.size()) depend(*all[m], waits[i]);
    jobs.push_back(ref(*all[m]));
  }
  for (Job* job : all) job->stream_->push(*job);
}

void Executor::end_course(PassCourse& course, bool is_composed) {
  if (is_composed) {
    ++composed_passes_;
  } else {
    count_pass("its collectives were new, or others might have used its links or memories");
  }
  free_courses_.push_back(&course);
}

const char* Executor::not_composed(const Communicator& communicator) {
  if (why_not_composed_ != nullptr) return why_not_composed_;
  if (sink_.takes(Recorded::detail)) return "jobs.csv has rows of all jobs";
  if (listener_ != nullptr) return "causes are followed";
  const bool followed = std::any_of(communicator.ranks().begin(), communicator.ranks().end(), [](const Rank* rank) {
    return rank->gpu->sms().has_listeners() ||
           std::any_of(rank->streams.begin(), rank->streams.end(),
                       [](const Rank::NamedStream& s) { return s.stream.has_listeners(); });
  });
  if (followed || fabric_.listener() != nullptr) return "links, GPUs or streams are followed";
  if (fabric_.charges_followed()) return "the use of links is followed";
  if (!replays_) return "every collective is simulated";
  if (communicator.size() == 1) return "a stage of one GPU has no collectives";
  if (!members_begin_together_) return "ranks enter collectives one by one";
  const collective::ReuseTable* const table = reuse_of(communicator);
  if (table == nullptr || !table->may_be_undisturbed()) return "others may use its links or memories at any time";
  return nullptr;
}

void Executor::gpus_change_at(std::vector<Time> instants) {
  std::sort(instants.begin(), instants.end());
  gpu_changes_ = std::move(instants);
}

Time Executor::unchanged_until() const {
  const auto next = std::upper_bound(gpu_changes_.begin(), gpu_changes_.end(), fabric_.now());
  return next == gpu_changes_.end() ? Time::max() : *next;
}

bool Executor::on_replay(collective::Collective& collective) {
  PassCourse* const course = runs_[collective.cookie].course;
  return course != nullptr && course->compose(collective);
}

Job& Executor::add_member(std::uint32_t number, std::uint32_t member, Rank& rank, gpu::Stream& stream,
                          const JobLabel& label, JobClient& client) {
  Run& run = runs_[number];
  Job& job = acquire(Job::Kind::collective, rank, stream, label, client);
  job.collective_ = run.collective;
  job.member_ = member;
  job.bytes_ = run.collective->spec().bytes;
  run.jobs[member] = &job;
  return job;
}

JobRef Executor::copy(Rank& rank, gpu::Stream& stream, Copy copy, const JobLabel& label, JobClient& client,
                      const std::vector<JobRef>& after) {
  Job& job = acquire(Job::Kind::copy, rank, stream, label, client);
  job.copy_ = std::move(copy);
  for (const CopyTarget& transfer : job.copy_.transfers) job.bytes_ += transfer.bytes;
  return push(job, after);
}

JobRef Executor::exchange_side(Communicator& communicator, const Exchange& exchange, bool sends, const JobLabel& label,
                               JobClient& client, const std::vector<JobRef>& after) {
  const bool by_sms = exchange.engine == transport::Engine::sm;
  const std::uint32_t member = sends ? exchange.from : exchange.to;
  Rank& rank = communicator.rank(member);
  gpu::Stream& stream = communicator.stream(member);
  const ExchangeKey key{&communicator, exchange.from, exchange.to, exchange.tag};
  std::optional<Unmatched> other;
  if (const auto found = unmatched_.find(key); found != unmatched_.end() && found->second.front().sends != sends) {
    other = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) unmatched_.erase(found);
    if (other->bytes != exchange.bytes) throw std::logic_error("a receive of another size than its send");
  }
  Unmatched mine{{}, sends, exchange.bytes, other ? other->run : 0};
  Job* job;
  if (by_sms) {
    Communicator& pair = communicator.pair(exchange.from, exchange.to);
    if (!other) mine.run = begin_run(pair, pair.choose_exchange(exchange.bytes), label, client);
    job = &add_member(mine.run, sends ? 0 : 1, rank, stream, label, client);
  } else {
    job = &acquire(sends ? Job::Kind::send : Job::Kind::receive, rank, stream, label, client);
    job->bytes_ = exchange.bytes;
    if (sends) {
      job->copy_.transfers = {{*communicator.rank(exchange.to).memory, exchange.bytes}};
      job->copy_.traffic_class = communicator.request().traffic_class;
      job->copy_.queue_pair = transport::of_set(communicator.request().queue_pair_set.value_or(0), 0);
    }
    if (other && other->job.job->generation_ != other->job.generation) {
      job->status_ = Status::cancelled;  // its peer was cancelled
    } else if (other) {
      job->peer_ = other->job.job;
      job->peer_->peer_ = job;
    }
  }
  mine.job = ref(*job);
  if (!other) unmatched_[key].push_back(mine);
  return push(*job, after);
}

void Executor::on_member_done(collective::Collective& collective, std::uint32_t member) {
  Job& job = *runs_[collective.cookie].jobs[member];
  if (std::exchange(job.claimed_, false)) job.rank_->gpu->sms().release(job.claim_);
  job.status_ = collective.status();
  job.over();
}

bool Executor::on_cut_off(const collective::Collective& collective, std::uint32_t member) {
  const Job& job = *runs_[collective.cookie].jobs[member];
  return job.client_->on_cut_off(job);
}

std::string Executor::name_of(const collective::Collective& collective) const {
  return runs_[collective.cookie].label.name();
}

void Executor::on_collective_done(collective::Collective& collective) {
  const auto number = static_cast<std::uint32_t>(collective.cookie);
  const Run& run = runs_[number];
  const Recorded recorded = run.label.recorded();
  if (collective.status() == Status::ok && (recorded == Recorded::detail || recorded == Recorded::stage)) {
    JobRecord record;
    record.label = run.label;
    record.rank = run.rank;
    record.start = collective.first_entry();
    record.end = fabric_.now();
    record.queued = collective.last_entry() - collective.first_entry();
    record.bytes = collective.spec().bytes;
    sink_.on_job(record);
  }
  if (collective.status() == Status::ok) run.client->on_collective_done(collective, run.label);
  free_runs_.push_back(number);
  collectives_.release(collective);
}

}  // namespace railyard::execution
