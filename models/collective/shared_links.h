// Links that flows share, without a device and without trains. A flow's items cross one after the other, and an item crosses
// all its links at the same time. Rates are those of fluid streams (transport/fluid/rates.h), from one instant to the next:
// max-min, and a link takes turns among its inputs. Plain arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "transport/fluid/rates.h"

namespace railyard::collective {

class SharedLinks {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  static constexpr std::uint32_t kOwnInput = transport::FluidCrossing::kOwn;  ///< a queue of the flow alone
  struct Crossing {
    std::uint32_t link = kNone;  ///< numbered from 0
    std::uint32_t input = kOwnInput;
    bool operator<(const Crossing& other) const { return std::tie(link, input) < std::tie(other.link, other.input); }
  };
  using Path = std::array<Crossing, 2>;  ///< the second may be kNone
  struct Item {
    std::array<std::uint32_t, 2> weights{1, 1};  ///< of the flow on its links, while this item is its first
    Time takes;                                  ///< if the flow has its links for itself and the weights are 1
    std::uint32_t number = 0;
  };

  SharedLinks() : rates_(plan_) {}
  SharedLinks(const SharedLinks&) = delete;
  SharedLinks& operator=(const SharedLinks&) = delete;

  /// Removes all flows.
  void clear(std::uint32_t links);
  /// A flow is all items of a sender with this way.
  void push(Time now, std::uint32_t sender, const Path& path, const Item& item);
  /// When the next item has crossed, if no other comes before. Time::max(): the links are idle.
  Time next();
  /// Calls `with` with the number of each item that has crossed by `now`. `with` may push. @pre now is at most next()
  template <class With>
  void cross(Time now, With with) {
    while (next() <= now) with(pop(now));
  }

 private:
  /// Its rate is the time of its first item that passes in a unit of time.
  struct Flow : transport::FluidFlow {
    std::vector<transport::FluidCrossing> path;
    std::deque<Item> items;
    double speed = 0;  ///< its rate since `since`
    double left = 0;   ///< time of its first item that had not passed then, in femtoseconds
    Time since;
    Time ends = Time::max();
  };
  struct End {
    Time at;
    std::uint32_t flow = 0;
    bool operator>(const End& other) const { return std::tie(at, flow) > std::tie(other.at, other.flow); }
  };

  void begin(Time now, Flow& flow);
  std::uint32_t pop(Time now);
  void take_rate(Flow& flow);

  const transport::VcPlan plan_;  ///< one virtual channel
  transport::FluidRates rates_;
  transport::FluidPort opposite_;  ///< no acks here
  std::deque<transport::FluidPort> links_;
  std::deque<Flow> flows_;
  std::map<std::pair<std::uint32_t, Path>, std::uint32_t> numbers_;     ///< of flows, by sender and way
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends_;  ///< also ends that no longer hold
  Time now_;
};

}  // namespace railyard::collective
