// A link that flows share, without a simulation of its trains. A flow's items cross one after the other. The flows that have
// items get parts of the line in proportion to their weights, from one instant to the next (processor sharing: Kleinrock,
// Time-shared systems: a theoretical treatment, JACM 1967). Plain arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/units.h"

namespace railyard::collective {

template <class Flow, class Item>
class SharedLink {
 public:
  /// @param weight  of the flow, while this item is its first
  /// @param takes   time of the item, if its flow has the line for itself and the weight is 1
  void push(Time now, const Flow& flow, std::uint32_t weight, Time takes, Item item) {
    serve_until(now);
    Items& items = flows_[flow];
    items.push_back({weight, takes, std::move(item)});
    if (items.size() == 1) begin(items);
  }
  /// When the next item has crossed, if no other comes before. Time::max(): the link is idle.
  Time next() const { return firsts_.empty() ? Time::max() : now_ + since(firsts_.front().end, served_) * weights_; }
  /// Calls `with` with each item that has crossed by `now`. @pre now is at most next()
  template <class With>
  void cross(Time now, With with) {
    serve_until(now);
    while (!firsts_.empty() && firsts_.front().end <= served_) {
      std::pop_heap(firsts_.begin(), firsts_.end(), is_after);
      Items& items = *firsts_.back().items;
      firsts_.pop_back();
      const Item item = std::move(items.front().item);
      weights_ -= items.front().weight;
      items.pop_front();
      if (!items.empty()) begin(items);
      with(item);
    }
  }

 private:
  struct Waiting {
    std::uint32_t weight = 1;
    Time takes;
    Item item;
  };
  using Items = std::deque<Waiting>;  ///< of a flow
  struct First {
    Time end;  ///< as served_
    std::uint64_t order = 0;
    Items* items = nullptr;
  };
  static bool is_after(const First& a, const First& b) { return a.end != b.end ? b.end < a.end : b.order < a.order; }

  void serve_until(Time now) {
    if (weights_ != 0) served_ += Time::fs((now - now_).fs() / weights_);
    now_ = now;
  }
  void begin(Items& items) {
    weights_ += items.front().weight;
    firsts_.push_back({served_ + items.front().takes, begun_++, &items});
    std::push_heap(firsts_.begin(), firsts_.end(), is_after);
  }

  Time now_;
  Time served_;  ///< time that a flow of weight 1 would have had the line by now, had it always had items
  std::uint64_t weights_ = 0, begun_ = 0;
  std::map<Flow, Items> flows_;  ///< also those without items, which have had some
  std::vector<First> firsts_;    ///< a heap
};

}  // namespace railyard::collective
