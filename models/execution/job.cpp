// A job from its stream to its device and back. The executor gives it out and takes it back (executor.h).
#include "execution/job.h"

#include <utility>

#include "execution/executor.h"
#include "execution/pass_course.h"

namespace railyard::execution {

namespace {

/// The cache lines of a job that every kind of job needs.
void fetch(const void* job) {
  constexpr std::size_t kLine = 64;
  for (std::size_t line = 0; line < 4; ++line) __builtin_prefetch(static_cast<const char*>(job) + line * kLine);
}

}  // namespace

void Job::reached() {
  reached_at_ = executor_->fabric_.now();
  // These jobs come soon, and were emitted long ago.
  if (next() != nullptr) fetch(next());
  dependents_.fetch();
}

void Job::ready() { ready_at_ = executor_->fabric_.now(); }

gpu::Activity Job::activity() const {
  switch (kind_) {
    case Kind::kernel: return gpu::Activity::kernel;
    case Kind::collective: return gpu::Activity::collective;
    case Kind::copy:
    case Kind::send:
    case Kind::receive: return gpu::Activity::transfer;
    case Kind::host: return gpu::Activity::host;
    case Kind::delay:
    case Kind::quiet: return gpu::Activity::waiting;
  }
  return gpu::Activity::idle;
}

void Job::begin() {
  if (course_ != nullptr && !course_->may_begin(*this)) return;
  begun_at_ = executor_->fabric_.now();
  if (executor_->listener_ != nullptr) executor_->listener_->on_begun(*this);
  if (status_ != Status::cancelled) client_->on_job_begun(*this);
  if (executor_->listener_ != nullptr) executor_->listener_->on_begin_told();
  if (status_ == Status::cancelled) {
    cancel();
    return;
  }
  switch (kind_) {
    case Kind::kernel: rank_->gpu->sms().run(chain_, *this, stream_); break;
    case Kind::host:
    case Kind::delay: executor_->fabric_.calendar().at(begun_at_ + duration_, *this, kOverTag, 0); break;
    case Kind::quiet: executor_->fabric_.when_quiet(*this, 0, 0); break;
    case Kind::collective:
      if (!collective_->spec().takes_sms) {
        executor_->enter(*this);
        break;
      }
      claimed_ = true;
      claim_ = rank_->gpu->sms().claim(collective_->spec().channels, collective::cta_of(collective_->spec()), *this,
                                       stream_);
      if (rank_->gpu->sms().resident(claim_)) executor_->enter(*this);
      break;
    case Kind::copy:
      if (copy_.kernel != nullptr) {
        claimed_ = true;
        claim_ = cta_gpu().sms().claim(copy_.kernel->ctas, copy_.kernel->footprint, *this, stream_);
        if (cta_gpu().sms().resident(claim_)) begin_copying();
      } else if (copy_.start != Time())
        executor_->fabric_.calendar().at(begun_at_ + copy_.start, *this, kPostTag, 0);
      else
        post();
      break;
    case Kind::send:
      if (peer_ != nullptr && peer_->begun()) post();
      break;
    case Kind::receive:
      if (peer_ != nullptr && peer_->begun()) peer_->post();
      break;
  }
}

void Job::post() {
  if (peer_ != nullptr && executor_->listener_ != nullptr) executor_->listener_->on_waited(*this, *peer_);
  landing_ = static_cast<std::uint32_t>(copy_.transfers.size());
  transport::Message message;
  message.source = *rank_->memory;
  message.traffic_class = copy_.traffic_class;
  message.engine = copy_.engine;
  message.kind = copy_.kind;
  message.queue_pair = copy_.queue_pair;
  message.tell_waits = copy_.tells_waits;
  message.client = this;
  for (const CopyTarget& transfer : copy_.transfers) {
    message.destination = transfer.destination;
    message.bytes = transfer.bytes;
    executor_->fabric_.send(message);
  }
  if (copy_.kernel != nullptr) return;
  finish();  // the stream goes on; the job is done when the bytes have arrived
  if (copy_.transfers.empty()) done();
}

gpu::Gpu& Job::cta_gpu() const { return copy_.kernel == nullptr ? *rank_->gpu : *copy_.kernel->gpu; }

void Job::begin_copying() {
  const CopyKernel& kernel = *copy_.kernel;
  const Time copied =
      executor_->fabric_.now() + Time::seconds(static_cast<double>(bytes_) / (kernel.bytes_per_s * kernel.ctas));
  post();
  ++landing_;
  executor_->fabric_.calendar().at(copied, *this, kLandTag, 0);
}

void Job::land() {
  if (--landing_ > 0) return;
  copy_.kernel == nullptr ? done() : over();
}

void Job::cancel() {
  if (collective_ != nullptr) {
    collective_->abort(Status::cancelled);
    executor_->enter(*this);
    return;
  }
  Job* const peer = std::exchange(peer_, nullptr);
  over();
  if (peer == nullptr) return;
  peer->peer_ = nullptr;
  peer->status_ = Status::cancelled;
  if (peer->begun()) peer->over();
}

void Job::on_kernel_done() {
  duration_ = executor_->fabric_.now() - begun_at_;
  over();
}

void Job::on_claim_resident() { copy_.kernel != nullptr ? begin_copying() : executor_->enter(*this); }

void Job::on_delivered(transport::Message& message) {
  delivery_.uncontended = later(delivery_.uncontended, message.uncontended);
  for (const transport::Message::Wait& wait : message.waits)
    if (wait.port != nullptr && wait.time > delivery_.waited) delivery_ = {delivery_.uncontended, wait.port, wait.time};
  land();
}

bool Job::on_cut_off(const transport::Message&) {
  status_ = Status::undeliverable;
  return client_->on_cut_off(*this);
}

void Job::on_undeliverable(transport::Message& message) { on_delivered(message); }

void Job::done() {
  Job* const receiver = std::exchange(peer_, nullptr);
  tell();
  if (receiver != nullptr) {
    receiver->peer_ = nullptr;
    receiver->status_ = status_;
    if (executor_->listener_ != nullptr) executor_->listener_->on_waited(*receiver, *this);
    receiver->over();
  }
  executor_->release(*this);
}

void Job::over() {
  if (course_ != nullptr && course_->goes_on(*this)) return;
  if (copy_.kernel != nullptr && std::exchange(claimed_, false)) cta_gpu().sms().release(claim_);
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
  ++generation_;  // from here on, new dependents need not wait
  for (std::uint32_t i = 0; i < dependents_.count(); ++i) {
    Job& dependent = dependents_[i];
    if (listener != nullptr) listener->on_waited(dependent, *this);
    if (status_ != Status::ok) dependent.status_ = Status::cancelled;
    dependent.waited();
  }
}

}  // namespace railyard::execution
