// In-order streams, as in CUDA. A stream begins its next task when the previous task has finished and all tasks that
// this task waits for, on any stream, are done. Plain C++; each kind of task defines what happens when it begins.
#pragma once

#include <array>
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
  /// Adds a condition; one call of waited() must follow for each. @pre the task has not begun
  void wait_for_one_more() { ++waits_; }
  void waited();
  bool begun() const { return begun_; }

 protected:
  /// The stream has reached the task and all conditions are met.
  virtual void begin() = 0;
  /// The stream has reached the task; conditions may still be open.
  virtual void reached() {}
  /// All conditions are met, or there were none when the task was pushed. The task waits only for its turn in the
  /// stream.
  virtual void ready() {}
  /// The stream continues at once with the next task. The task may be destroyed afterwards. @pre the task has begun
  void finish();
  virtual Activity activity() const = 0;
  /// The task behind it in its stream; null: none yet.
  const Task* next() const { return next_; }

 public:
  /// Returns the task to the state of a new one, so that the object can be reused. @pre the task is in no stream
  void reset();

 private:
  friend class Stream;
  void begin_if_ready();
  Stream* stream_ = nullptr;
  Task* next_ = nullptr;
  std::uint32_t waits_ = 0;
  bool begun_ = false;
};

/// Receives changes of a stream's activity.
class StreamListener {
 public:
  virtual void on_activity(const Stream& stream, Activity activity) = 0;

 protected:
  ~StreamListener() = default;
};

/// When collectives of a stream get SMs that kernels hold (sm_array.h).
enum class CommPriority : std::uint8_t {
  high,   ///< at the end of a wave of thread blocks
  normal  ///< behind all thread blocks of kernels that began before
};
constexpr std::array<const char*, 2> kCommPriorityNames{"high", "normal"};

class Stream {
 public:
  void push(Task& task);
  CommPriority comm_priority() const { return comm_priority_; }
  void set_comm_priority(CommPriority priority) { comm_priority_ = priority; }
  bool empty() const { return front_ == nullptr; }
  const Task* front() const { return front_; }
  bool has_listeners() const { return !listeners_.empty(); }
  /// Any number of listeners.
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
  CommPriority comm_priority_ = CommPriority::high;
  std::vector<StreamListener*> listeners_;
};

}  // namespace railyard::gpu
