#include "workload/job.h"

namespace railyard::workload {

void Job::reached() { reached_at_ = dispatcher_->fabric_.now(); }

void Job::ready() { ready_at_ = dispatcher_->fabric_.now(); }

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
  begun_at_ = dispatcher_->fabric_.now();
  if (dispatcher_->listener_ != nullptr) dispatcher_->listener_->on_begun(*this);
  client_->on_job_begun(*this);
  switch (kind_) {
    case Kind::kernel: device_->gpu->sms().run(chain_, *this, stream_); break;
    case Kind::host:
    case Kind::delay: dispatcher_->fabric_.calendar().at(begun_at_ + duration_, *this, 0, 0); break;
    case Kind::collective:
      claim_ = device_->gpu->sms().claim(collective_->spec().channels, collective::cta_of(collective_->spec()), *this,
                                         stream_);
      if (device_->gpu->sms().resident(claim_)) collective_->enter(member_);
      break;
    case Kind::send: {
      landing_ = static_cast<std::uint32_t>(transfers_.size());
      transport::Message message;
      message.source = device_->gpu->window();
      message.traffic_class = traffic_class_;
      message.engine = transport::Engine::copy_engine;
      message.client = this;
      for (const Transfer& transfer : transfers_) {
        message.destination = transfer.destination;
        message.bytes = transfer.bytes;
        dispatcher_->fabric_.send(message);
      }
      finish();  // the stream goes on; the job is done when the bytes have landed
      if (transfers_.empty()) done();
      break;
    }
  }
}

void Job::on_kernel_done() {
  duration_ = dispatcher_->fabric_.now() - begun_at_;
  over();
}

void Job::on_claim_resident() { collective_->enter(member_); }

void Job::on_delivered(transport::Message&) {
  if (--landing_ == 0) done();
}

void Job::done() {
  tell();
  dispatcher_->release(*this);
}

void Job::over() {
  tell();
  finish();
  dispatcher_->release(*this);
}

void Job::tell() {
  JobListener* const listener = dispatcher_->listener_;
  if (listener != nullptr) listener->on_done(*this);
  client_->on_job_done(*this);
  ++generation_;  // whoever asks from here on need not wait
  for (Job* dependent : dependents_) {
    if (listener != nullptr) listener->on_waited(*dependent, *this);
    dependent->waited();
  }
}

Job& Dispatcher::acquire(Job::Kind kind, RankDevice& device, gpu::Stream& stream, const JobTag& tag,
                         JobClient& client) {
  Job* job;
  if (free_.empty()) {
    storage_.emplace_back();
    job = &storage_.back();
  } else {
    job = free_.back();
    free_.pop_back();
  }
  job->reset();
  job->dispatcher_ = this;
  job->client_ = &client;
  job->device_ = &device;
  job->stream_ = &stream;
  job->tag_ = tag;
  job->kind_ = kind;
  ++live_;
  ++jobs_;
  return *job;
}

void Dispatcher::release(Job& job) {
  job.dependents_.clear();
  job.transfers_.clear();
  job.chain_.reset();
  job.collective_ = nullptr;
  --live_;
  free_.push_back(&job);
}

void Dispatcher::depend(Job& job, const JobRef& on) {
  if (on.job == nullptr || on.job->generation_ != on.generation) return;  // already done
  job.wait_for_one_more();
  on.job->dependents_.push_back(&job);
}

JobRef Dispatcher::push(Job& job, const std::vector<JobRef>& after) {
  for (const JobRef& on : after) depend(job, on);
  if (listener_ != nullptr) listener_->on_emitted(job);
  const JobRef result = ref(job);
  job.stream_->push(job);
  return result;
}

JobRef Dispatcher::kernel(RankDevice& device, gpu::Stream& stream, gpu::SharedChain chain, const JobTag& tag,
                          JobClient& client, const std::vector<JobRef>& after) {
  Job& job = acquire(Job::Kind::kernel, device, stream, tag, client);
  job.chain_ = std::move(chain);
  return push(job, after);
}

JobRef Dispatcher::delay(RankDevice& device, gpu::Stream& stream, Time duration, const JobTag& tag, JobClient& client,
                         const std::vector<JobRef>& after) {
  return keep(Job::Kind::delay, device, stream, duration, tag, client, after);
}

JobRef Dispatcher::host(RankDevice& device, gpu::Stream& stream, Time duration, const JobTag& tag, JobClient& client,
                        const std::vector<JobRef>& after) {
  return keep(Job::Kind::host, device, stream, duration, tag, client, after);
}

JobRef Dispatcher::keep(Job::Kind kind, RankDevice& device, gpu::Stream& stream, Time duration, const JobTag& tag,
                        JobClient& client, const std::vector<JobRef>& after) {
  Job& job = acquire(kind, device, stream, tag, client);
  job.duration_ = duration;
  return push(job, after);
}

void Dispatcher::collective(const std::vector<RankDevice*>& devices, const collective::Group& group,
                            const collective::CollectiveSpec& spec, collective::ReuseTable* reuse, const JobTag& tag,
                            JobClient& client, std::vector<JobRef>& jobs, const std::vector<JobRef>& after,
                            gpu::Stream RankDevice::*stream) {
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::uint32_t>(runs_.size()));
    runs_.emplace_back();
  }
  const std::uint32_t number = free_runs_.back();
  free_runs_.pop_back();
  Run& run = runs_[number];
  run.jobs.clear();
  run.tag = tag;
  run.client = &client;
  collective::Collective& collective = collectives_.acquire();
  collective.prepare(spec, group, *this, reuse);
  collective.cookie = number;
  jobs.clear();
  for (std::uint32_t m = 0; m < devices.size(); ++m) {
    JobTag own = tag;
    own.tp = static_cast<std::uint16_t>(m);
    Job& job = acquire(Job::Kind::collective, *devices[m], devices[m]->*stream, own, client);
    job.collective_ = &collective;
    job.member_ = m;
    job.bytes_ = spec.bytes;
    if (m < after.size()) depend(job, after[m]);
    if (listener_ != nullptr) listener_->on_emitted(job);
    run.jobs.push_back(&job);
    jobs.push_back(ref(job));
  }
  // Pushed last: the first member may enter at once.
  for (std::uint32_t m = 0; m < devices.size(); ++m) run.jobs[m]->stream_->push(*run.jobs[m]);
}

JobRef Dispatcher::send(RankDevice& device, gpu::Stream& stream, const std::vector<Transfer>& transfers,
                        std::uint8_t traffic_class, const JobTag& tag, JobClient& client,
                        const std::vector<JobRef>& after) {
  Job& job = acquire(Job::Kind::send, device, stream, tag, client);
  job.transfers_ = transfers;
  job.bytes_ = 0;
  for (const Transfer& transfer : transfers) job.bytes_ += transfer.bytes;
  job.traffic_class_ = traffic_class;
  return push(job, after);
}

void Dispatcher::on_member_done(collective::Collective& collective, std::uint32_t member) {
  Job& job = *runs_[collective.cookie].jobs[member];
  job.device_->gpu->sms().release(job.claim_);
  job.over();
}

std::string Dispatcher::name_of(const collective::Collective& collective) const {
  const Run& run = runs_[collective.cookie];
  return run.client->name_of(Job::Kind::collective, run.tag);
}

void Dispatcher::on_collective_done(collective::Collective& collective) {
  const auto number = static_cast<std::uint32_t>(collective.cookie);
  const Run& run = runs_[number];
  run.client->on_collective_done(collective, run.tag);
  free_runs_.push_back(number);
  collectives_.release(collective);
}

}  // namespace railyard::workload
