#include "workload/execution_trace/order.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace railyard::workload::execution_trace {

namespace {

/// The smallest first.
template <class T>
using Smallest = std::priority_queue<T, std::vector<T>, std::greater<T>>;

/// Nodes of the same rank that are emitted before this node.
std::vector<std::uint32_t> emitted_before(const TraceNode& node) {
  std::vector<std::uint32_t> nodes = node.after;
  if (node.behind) nodes.push_back(*node.behind);
  return nodes;
}

/// Finds who meets whom, and orders all ranks together.
class Ordering {
 public:
  Ordering(const Trace& trace, bool eager_sends) : trace_(trace) {
    order_.eager_sends = eager_sends;
    for (const RankTrace& rank : trace.ranks) {
      first_.push_back(nodes_);
      nodes_ += trace.programs[rank.program].nodes.size();
    }
    meeting_of_.assign(nodes_, Emission::kAlone);
  }

  Order run() {
    match_collectives();
    match_exchanges();
    sort();
    return std::move(order_);
  }

 private:
  const TraceNode& node(std::uint32_t rank, std::uint32_t index) const { return trace_.nodes(rank)[index]; }
  std::uint32_t& meeting_of(std::uint32_t rank, std::uint32_t index) { return meeting_of_[first_[rank] + index]; }

  template <class Action>
  void each_node(Action&& action) const {
    for (std::uint32_t rank = 0; rank < trace_.ranks.size(); ++rank)
      for (std::uint32_t i = 0; i < trace_.nodes(rank).size(); ++i) action(rank, i, trace_.nodes(rank)[i]);
  }

  void match_collectives() {
    // By group and member, in the order of its program.
    std::vector<std::vector<std::vector<std::uint32_t>>> entered(trace_.groups.size());
    for (std::size_t g = 0; g < entered.size(); ++g) entered[g].resize(trace_.groups[g].ranks.size());
    std::vector<std::vector<std::uint32_t>> member_of;  // by rank and its groups
    for (const RankTrace& rank : trace_.ranks) member_of.emplace_back(rank.groups.size());
    for (std::uint32_t g = 0; g < trace_.groups.size(); ++g) {
      const std::vector<std::uint32_t>& ranks = trace_.groups[g].ranks;
      for (std::uint32_t m = 0; m < ranks.size(); ++m) {
        const std::vector<std::uint32_t>& groups = trace_.ranks[ranks[m]].groups;
        for (std::size_t slot = 0; slot < groups.size(); ++slot)
          if (groups[slot] == g) member_of[ranks[m]][slot] = m;
      }
    }
    each_node([&](std::uint32_t rank, std::uint32_t i, const TraceNode& n) {
      if (n.kind != NodeKind::collective) return;
      entered[trace_.ranks[rank].groups[n.group]][member_of[rank][n.group]].push_back(i);
    });
    for (std::uint32_t g = 0; g < entered.size(); ++g) match_group(g, entered[g]);
  }

  void match_group(std::uint32_t g, const std::vector<std::vector<std::uint32_t>>& entered) {
    const CommGroup& group = trace_.groups[g];
    const std::uint32_t first = group.ranks.front();
    for (std::uint32_t m = 1; m < group.ranks.size(); ++m) {
      const std::uint32_t rank = group.ranks[m];
      const std::size_t both = std::min(entered[0].size(), entered[m].size());
      for (std::size_t k = 0; k < both; ++k) {
        const TraceNode &here = node(rank, entered[m][k]), &there = node(first, entered[0][k]);
        if (here.operation == there.operation && here.bytes == there.bytes) continue;
        throw TraceError(rank, entered[m][k],
                         fmt::format("{} of {} bytes is number {} in group {} of this rank, but rank {} runs {} of {} "
                                     "bytes there, {}",
                                     name_of(here.operation), here.bytes, k + 1, group.name, first,
                                     name_of(there.operation), there.bytes, text_of(there)));
      }
      if (entered[0].size() == entered[m].size()) continue;
      const bool more = entered[m].size() > both;
      throw TraceError(more ? rank : first, (more ? entered[m] : entered[0])[both],
                       fmt::format("is number {} in group {}, of which rank {} has only {}", both + 1, group.name,
                                   more ? first : rank, both));
    }
    for (std::size_t k = 0; k < entered[0].size(); ++k) {
      Meeting meeting{g, false, false, group.ranks, {}};
      for (std::uint32_t m = 0; m < group.ranks.size(); ++m) meeting.nodes.push_back(entered[m][k]);
      add(std::move(meeting));
    }
  }

  void match_exchanges() {
    using NodeOfRank = std::pair<std::uint32_t, std::uint32_t>;
    struct Exchange {
      std::vector<NodeOfRank> sends, receives;
    };
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, Exchange> pairs;  // sender, receiver, tag
    each_node([&](std::uint32_t rank, std::uint32_t i, const TraceNode& n) {
      if (n.kind != NodeKind::send && n.kind != NodeKind::receive) return;
      const std::uint32_t peer = trace_.ranks[rank].peers[n.peer];
      if (n.kind == NodeKind::send) {
        pairs[{rank, peer, n.tag}].sends.push_back({rank, i});
      } else {
        pairs[{peer, rank, n.tag}].receives.push_back({rank, i});
      }
    });
    for (const auto& [key, nodes] : pairs) {
      const auto& [from, to, tag] = key;
      const std::size_t both = std::min(nodes.sends.size(), nodes.receives.size());
      if (nodes.sends.size() > both)
        throw TraceError(from, nodes.sends[both].second,
                         fmt::format("send number {} to rank {} with tag {} has no receive", both + 1, to, tag));
      if (nodes.receives.size() > both)
        throw TraceError(to, nodes.receives[both].second,
                         fmt::format("receive number {} from rank {} with tag {} has no send", both + 1, from, tag));
      for (std::size_t k = 0; k < both; ++k) {
        const std::uint32_t s = nodes.sends[k].second, r = nodes.receives[k].second;
        if (node(from, s).bytes != node(to, r).bytes)
          throw TraceError(to, r,
                           fmt::format("receives {} bytes, but {} of rank {} sends {}", node(to, r).bytes,
                                       text_of(node(from, s)), from, node(from, s).bytes));
        add({0, true, order_.is_eager(node(from, s)), {from, to}, {s, r}});
      }
    }
  }

  void add(Meeting meeting) {
    const auto number = static_cast<std::uint32_t>(order_.meetings.size());
    for (std::size_t m = 0; m < meeting.ranks.size(); ++m) meeting_of(meeting.ranks[m], meeting.nodes[m]) = number;
    order_.meetings.push_back(std::move(meeting));
  }

  void sort() {
    waits_.resize(nodes_);
    missing_.resize(order_.meetings.size());
    for (std::size_t m = 0; m < missing_.size(); ++m)
      missing_[m] = order_.meetings[m].is_eager ? 1 : static_cast<std::uint32_t>(order_.meetings[m].ranks.size());
    for (const Program& program : trace_.programs) {
      auto& followers = followers_.emplace_back(program.nodes.size());
      for (std::uint32_t i = 0; i < program.nodes.size(); ++i)
        for (const std::uint32_t on : emitted_before(program.nodes[i])) followers[on].push_back(i);
    }
    each_node([&](std::uint32_t rank, std::uint32_t i, const TraceNode& n) {
      waits_[first_[rank] + i] = static_cast<std::uint32_t>(emitted_before(n).size()) + (awaits_send(rank, i) ? 1 : 0);
      if (waits_[first_[rank] + i] == 0) ready_.push({i, rank});
    });
    std::size_t done = 0;
    while (!ready_.empty()) {
      const auto [index, rank] = ready_.top();
      ready_.pop();
      const std::uint32_t m = meeting_of(rank, index);
      if (m == Emission::kAlone) {
        if (node(rank, index).kind != NodeKind::none) order_.emissions.push_back({m, rank, index});
        done += emit(rank, index);
      } else if (awaits_send(rank, index)) {
        done += emit(rank, index);
      } else if (--missing_[m] == 0) {
        order_.emissions.push_back({m});
        const Meeting& meeting = order_.meetings[m];
        const std::size_t members = meeting.is_eager ? 1 : meeting.ranks.size();
        for (std::size_t i = 0; i < members; ++i) done += emit(meeting.ranks[i], meeting.nodes[i]);
        if (meeting.is_eager) release(meeting.ranks[1], meeting.nodes[1]);
      }
    }
    if (done < nodes_) explain_cycle();
  }

  std::size_t emit(std::uint32_t rank, std::uint32_t index) {
    waits_[first_[rank] + index] = kEmitted;
    for (const std::uint32_t follower : followers_[trace_.ranks[rank].program][index]) release(rank, follower);
    return 1;
  }

  /// One of the nodes for which this node waits was emitted.
  void release(std::uint32_t rank, std::uint32_t index) {
    if (--waits_[first_[rank] + index] == 0) ready_.push({index, rank});
  }

  /// A receive of an eager exchange, which also waits for its send.
  bool awaits_send(std::uint32_t rank, std::uint32_t index) const {
    const TraceNode& n = node(rank, index);
    return n.kind == NodeKind::receive && order_.is_eager(n);
  }

  /// Follows the reasons from a node that was not emitted, until one comes up again.
  [[noreturn]] void explain_cycle() {
    const auto stuck = [&](std::uint32_t rank, std::uint32_t i) { return waits_[first_[rank] + i] != kEmitted; };
    std::uint32_t rank = 0, index = 0;
    while (true) {
      const auto& nodes = trace_.nodes(rank);
      for (index = 0; index < nodes.size() && !stuck(rank, index); ++index) continue;
      if (index < nodes.size()) break;
      ++rank;
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> chain;
    while (seen.insert({rank, index}).second) {
      chain.push_back({rank, index});
      if (waits_[first_[rank] + index] != 0) {
        const std::vector<std::uint32_t> before = emitted_before(node(rank, index));
        const auto on = std::find_if(before.begin(), before.end(), [&](std::uint32_t n) { return stuck(rank, n); });
        const Meeting* const meeting =
            on == before.end() ? &order_.meetings[meeting_of(rank, index)] : nullptr;  // an eager exchange
        index = meeting != nullptr ? meeting->nodes[0] : *on;
        if (meeting != nullptr) rank = meeting->ranks[0];
      } else {  // it is ready, and a member of its meeting is not
        const Meeting& meeting = order_.meetings[meeting_of(rank, index)];
        for (std::size_t m = 0; m < meeting.ranks.size(); ++m) {
          if (waits_[first_[meeting.ranks[m]] + meeting.nodes[m]] == 0) continue;
          rank = meeting.ranks[m];
          index = meeting.nodes[m];
          break;
        }
      }
    }
    const auto start = std::find(chain.begin(), chain.end(), std::make_pair(rank, index));
    constexpr std::ptrdiff_t kShown = 8;
    std::string text = "ranks wait for each other: ";
    bool has_exchange = false;
    for (auto at = start; at != chain.end(); ++at) {
      const TraceNode& n = node(at->first, at->second);
      has_exchange |= (n.kind == NodeKind::send || n.kind == NodeKind::receive) && !n.spec && !n.engine;
      if (at - start < kShown) text += fmt::format("{} of rank {} waits for ", text_of(n), at->first);
    }
    text +=
        chain.end() - start > kShown ? "more nodes" : fmt::format("{} of rank {}", text_of(node(rank, index)), rank);
    if (has_exchange && !order_.eager_sends)
      text += "; with workload.eager_sends: true, a send does not wait for its receive";
    throw TraceError(rank, index, text);
  }

  static constexpr std::uint32_t kEmitted = ~0u;

  const Trace& trace_;
  Order order_;
  std::size_t nodes_ = 0;
  std::vector<std::size_t> first_;                                  ///< by rank, of its nodes in the arrays below
  std::vector<std::uint32_t> meeting_of_;                           ///< by node
  std::vector<std::uint32_t> waits_;                                ///< by node: nodes of its rank for which it waits
  std::vector<std::uint32_t> missing_;                              ///< by meeting: members that are not ready
  std::vector<std::vector<std::vector<std::uint32_t>>> followers_;  ///< by program and node
  Smallest<std::pair<std::uint32_t, std::uint32_t>> ready_;         ///< node and rank: ranks advance together
};

}  // namespace

std::string plain_name(const std::string& name) {
  constexpr std::size_t kLongest = 120;
  std::string plain = name.substr(0, kLongest);
  for (char& c : plain)
    if (c <= ' ' || c > '~' || c == ',' || c == '"') c = '_';
  return plain;
}

std::string text_of(const TraceNode& node) { return fmt::format("node {} ('{}')", node.id, node.name); }

void sort_nodes(Program& program) {
  std::vector<TraceNode>& nodes = program.nodes;
  std::vector<std::vector<std::uint32_t>> followers(nodes.size());
  std::vector<std::uint32_t> waits(nodes.size());
  Smallest<std::pair<std::uint64_t, std::uint32_t>> ready;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const std::vector<std::uint32_t> before = emitted_before(nodes[i]);
    waits[i] = static_cast<std::uint32_t>(before.size());
    for (const std::uint32_t on : before) followers[on].push_back(i);
    if (waits[i] == 0) ready.push({nodes[i].id, i});
  }
  std::vector<TraceNode> sorted;
  std::vector<std::uint32_t> place(nodes.size());
  while (!ready.empty()) {
    const std::uint32_t i = ready.top().second;
    ready.pop();
    place[i] = static_cast<std::uint32_t>(sorted.size());
    for (const std::uint32_t follower : followers[i])
      if (--waits[follower] == 0) ready.push({nodes[follower].id, follower});
    TraceNode& node = sorted.emplace_back(std::move(nodes[i]));
    std::set<std::uint32_t> after;
    for (const std::uint32_t on : node.after) {
      const TraceNode& other = sorted[place[on]];
      if (other.kind == NodeKind::none) {
        after.insert(other.after.begin(), other.after.end());
      } else {
        after.insert(place[on]);
      }
    }
    node.after.assign(after.begin(), after.end());
    if (node.behind) node.behind = place[*node.behind];
  }
  if (sorted.size() < nodes.size()) {
    const auto stuck = std::find_if(waits.begin(), waits.end(), [](std::uint32_t n) { return n != 0; });
    std::uint32_t at = static_cast<std::uint32_t>(stuck - waits.begin());
    // A node of the cycle itself: go against the dependencies as often as there are nodes.
    for (std::size_t step = 0; step < nodes.size(); ++step)
      at = *std::find_if(nodes[at].after.begin(), nodes[at].after.end(),
                         [&](std::uint32_t on) { return waits[on] != 0; });
    throw TraceError(0, at, "waits for itself, over other nodes: a cycle of dependencies");
  }
  nodes = std::move(sorted);
}

Order order_of(const Trace& trace, bool eager_sends) { return Ordering(trace, eager_sends).run(); }

}  // namespace railyard::workload::execution_trace
