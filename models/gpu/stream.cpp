#include "gpu/stream.h"

namespace railyard::gpu {

void Task::waited() {
  if (--waits_ == 0) ready();
  begin_if_ready();
}

void Task::begin_if_ready() {
  if (begun_ || waits_ != 0 || stream_ == nullptr || stream_->front_ != this) return;
  begun_ = true;
  stream_->tell(activity());
  begin();
}

void Task::reset() {
  stream_ = nullptr;
  next_ = nullptr;
  waits_ = 0;
  begun_ = false;
}

void Task::finish() { stream_->pop(); }

void Stream::push(Task& task) {
  task.stream_ = this;
  task.next_ = nullptr;
  if (task.waits_ == 0) task.ready();
  const bool was_empty = front_ == nullptr;
  (was_empty ? front_ : back_->next_) = &task;
  back_ = &task;
  if (was_empty) reach();
}

void Stream::pop() {
  front_ = front_->next_;
  if (front_ != nullptr) {
    reach();
  } else {
    tell(Activity::idle);
  }
}

void Stream::reach() {
  Task& task = *front_;
  task.reached();
  if (task.waits_ != 0) tell(Activity::waiting);
  task.begin_if_ready();
}

}  // namespace railyard::gpu
