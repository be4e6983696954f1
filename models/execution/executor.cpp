#include "execution/executor.h"

#include <utility>

namespace railyard::execution {

void Job::reached() { reached_at_ = executor_->fabric_.now(); }

void Job::ready() { ready_at_ = executor_->fabric_.now(); }

gpu::Activity Job::activity() const {
  switch (kind_) {
    case Kind::kernel: return gpu::Activity::kernel;
    case Kind::collective: return gpu::Activity::collective;
    case Kind::send: return gpu::Activity::transfer;
    case Kind::host: return gpu::Activity::host;
    case Kind::delay: return gpu::Activity::waiting;
  }
  return gpu::Activity::idle;
}

void Job::begin() {
  begun_at_ = executor_->fabric_.now();
  if (executor_->listener_ != nullptr) executor_->listener_->on_begun(*this);
  if (status_ == Status::cancelled) {
    cancel();
    return;
  }
  client_->on_job_begun(*this);
  switch (kind_) {
    case Kind::kernel: rank_->gpu->sms().run(chain_, *this, stream_); break;
    case Kind::host:
    case Kind::delay: executor_->fabric_.calendar().at(begun_at_ + duration_, *this, 0, 0); break;
    case Kind::collective:
      claimed_ = true;
      claim_ = rank_->gpu->sms().claim(collective_->spec().channels, collective::cta_of(collective_->spec()), *this,
                                       stream_);
      if (rank_->gpu->sms().resident(claim_)) collective_->enter(member_);
      break;
    case Kind::send: {
      landing_ = static_cast<std::uint32_t>(transfers_.size());
      transport::Message message;
      message.source = rank_->gpu->window();
      message.traffic_class = traffic_class_;
      message.engine = transport::Engine::copy_engine;
      message.client = this;
      for (const Transfer& transfer : transfers_) {
        message.destination = transfer.destination;
        message.bytes = transfer.bytes;
        executor_->fabric_.send(message);
      }
      finish();  // the stream goes on; the job is done when the bytes have landed
      if (transfers_.empty()) done();
      break;
    }
  }
}

void Job::cancel() {
  if (collective_ == nullptr) {
    over();
    return;
  }
  collective_->abort(Status::cancelled);
  collective_->enter(member_);
}

void Job::on_kernel_done() {
  duration_ = executor_->fabric_.now() - begun_at_;
  over();
}

void Job::on_claim_resident() { collective_->enter(member_); }

void Job::on_delivered(transport::Message&) {
  if (--landing_ == 0) done();
}

bool Job::on_cut_off(const transport::Message&) {
  status_ = Status::undeliverable;
  return client_->on_cut_off(*this);
}

void Job::on_undeliverable(transport::Message& message) { on_delivered(message); }

void Job::done() {
  tell();
  executor_->release(*this);
}

void Job::over() {
  tell();
  finish();
  executor_->release(*this);
}

void Job::tell() {
  JobListener* const listener = executor_->listener_;
  if (listener != nullptr) listener->on_done(*this);
  if (status_ == Status::ok) {
    executor_->write(*this);
    client_->on_job_done(*this);
  } else {
    client_->on_job_failed(*this);
  }
  ++generation_;  // whoever asks from here on need not wait
  for (Job* dependent : dependents_) {
    if (listener != nullptr) listener->on_waited(*dependent, *this);
    if (status_ != Status::ok) dependent->status_ = Status::cancelled;
    dependent->waited();
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
  job.transfers_.clear();
  job.chain_.reset();
  job.collective_ = nullptr;
  --live_;
  free_.push_back(&job);
}

void Executor::depend(Job& job, const JobRef& on) {
  if (on.job == nullptr || on.job->generation_ != on.generation) return;  // already done
  job.wait_for_one_more();
  on.job->dependents_.push_back(&job);
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
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::uint32_t>(runs_.size()));
    runs_.emplace_back();
  }
  const std::uint32_t number = free_runs_.back();
  free_runs_.pop_back();
  Run& run = runs_[number];
  run.jobs.clear();
  run.label = label;
  run.client = &client;
  collective::Collective& collective = collectives_.acquire();
  collective.prepare(spec, communicator.group(), *this, communicator.reuse());
  collective.cookie = number;
  const std::vector<JobRef> waits = after;  // `jobs` may be the same list
  jobs.clear();
  for (std::uint32_t m = 0; m < communicator.size(); ++m) {
    Job& job = acquire(Job::Kind::collective, communicator.rank(m), communicator.stream(m),
                       {label.namer, label.namer->of_member(label.arguments, m)}, client);
    job.collective_ = &collective;
    job.member_ = m;
    job.bytes_ = spec.bytes;
    if (m < waits.size()) depend(job, waits[m]);
    if (listener_ != nullptr) listener_->on_emitted(job);
    run.jobs.push_back(&job);
    jobs.push_back(ref(job));
  }
  // Pushed last: the first member may enter at once.
  for (Job* job : run.jobs) job->stream_->push(*job);
}

JobRef Executor::send(Rank& rank, gpu::Stream& stream, const std::vector<Transfer>& transfers,
                      std::uint8_t traffic_class, const JobLabel& label, JobClient& client,
                      const std::vector<JobRef>& after) {
  Job& job = acquire(Job::Kind::send, rank, stream, label, client);
  job.transfers_ = transfers;
  job.bytes_ = 0;
  for (const Transfer& transfer : transfers) job.bytes_ += transfer.bytes;
  job.traffic_class_ = traffic_class;
  return push(job, after);
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
    record.rank = run.jobs.front()->rank().number;
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
