// Messages that wait for a link, which they cross one after the other. Flows that wait get equal shares: the message is next
// that would have begun first if all flows had sent at once (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/units.h"

namespace railyard::collective {

template <class Flow, class Item>
class FairQueue {
 public:
  bool empty() const { return waiting_.empty(); }
  /// @param takes  time of the item on the link
  void push(const Flow& flow, Time takes, Item item) {
    Time& end = ends_[flow];
    const Time start = later(now_, end);
    end = start + takes;
    waiting_.push_back({start, pushed_++, std::move(item)});
    std::push_heap(waiting_.begin(), waiting_.end(), is_after);
  }
  /// @pre not empty
  Item pop() {
    std::pop_heap(waiting_.begin(), waiting_.end(), is_after);
    Waiting next = std::move(waiting_.back());
    waiting_.pop_back();
    now_ = next.start;
    return std::move(next.item);
  }

 private:
  struct Waiting {
    Time start;  ///< in the virtual time of the queue
    std::uint64_t order = 0;
    Item item;
  };
  static bool is_after(const Waiting& a, const Waiting& b) {
    return a.start != b.start ? b.start < a.start : b.order < a.order;
  }
  Time now_;                   ///< virtual: start of the item that was taken last
  std::map<Flow, Time> ends_;  ///< in virtual time
  std::uint64_t pushed_ = 0;
  std::vector<Waiting> waiting_;  ///< a heap
};

}  // namespace railyard::collective
