// What other threads hand to one thread: a queue with a bound. Plain C++.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace railyard::serve {

template <class Item>
class Inbox {
 public:
  explicit Inbox(std::size_t most) : most_(most) {}

  enum class Put { taken, full, closed };
  Put put(Item item) {
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return Put::closed;
      if (items_.size() >= most_) return Put::full;
      items_.push_back(std::move(item));
      has_items_ = true;
    }
    came_.notify_one();
    return Put::taken;
  }
  /// Nothing is put any more.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    came_.notify_one();
  }
  // Cheap: for a look at each instant of a run.
  bool is_closed() const { return is_closed_; }
  bool has_items() const { return has_items_; }
  /// All that is there, in the order in which it was put.
  std::deque<Item> take() {
    const std::lock_guard lock(mutex_);
    has_items_ = false;
    return std::exchange(items_, {});
  }
  /// Until something has been put, the inbox is closed, or then.
  template <class Instant>
  void wait_until(Instant then) {
    std::unique_lock lock(mutex_);
    came_.wait_until(lock, then, [&] { return is_closed_ || !items_.empty(); });
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Item> items_;
  std::atomic<bool> has_items_{false}, is_closed_{false};
};

}  // namespace railyard::serve
