// In-order streams, as in CUDA: a stream begins its next task when the one before has finished and every task it waits for
// (on whatever stream) is done. Plain C++; what a task does when it begins is its own affair.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace railyard::gpu {

class Stream;

/// What a stream is doing, for waveforms.
enum class Activity : std::uint8_t { idle, waiting, kernel, collective, transfer, host };

class Task {
 public:
  virtual ~Task() = default;
  /// One more thing to wait for; each is answered by one waited(). @pre not begun
  void wait_for_one_more() { ++waits_; }
  void waited();
  bool begun() const { return begun_; }

 protected:
  /// The stream has reached it and its waits are over.
  virtual void begin() = 0;
  /// The stream has reached it (its waits may not be over).
  virtual void reached() {}
  /// It waits for nothing but its turn in the stream: all it waited for is done, or it is pushed and had nothing to wait for.
  virtual void ready() {}
  /// @pre begun; the stream goes on at once. The task may be destroyed afterwards.
  void finish();
  virtual Activity activity() const = 0;

 public:
  /// Back to what a new task is, for objects that are used again. @pre in no stream
  void reset();

 private:
  friend class Stream;
  void begin_if_ready();
  Stream* stream_ = nullptr;
  Task* next_ = nullptr;
  std::uint32_t waits_ = 0;
  bool begun_ = false;
};

/// Told when a stream's activity changes.
class StreamListener {
 public:
  virtual void on_activity(const Stream& stream, Activity activity) = 0;

 protected:
  ~StreamListener() = default;
};

class Stream {
 public:
  void push(Task& task);
  bool empty() const { return front_ == nullptr; }
  const Task* front() const { return front_; }
  /// Several may listen.
  void add_listener(StreamListener& listener) { listeners_.push_back(&listener); }

 private:
  friend class Task;
  void tell(Activity activity) {
    for (StreamListener* listener : listeners_) listener->on_activity(*this, activity);
  }
  void pop();
  void reach();

  Task* front_ = nullptr;
  Task* back_ = nullptr;
  std::vector<StreamListener*> listeners_;
};

}  // namespace railyard::gpu
