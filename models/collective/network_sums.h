// Sums in the network (SHARP): the heads with the same place on their servers, one of each server, send to aggregation nodes.
// Nodes form a tree. When the k-th message of every child has arrived, a node sends the k-th sum to its parent. The root sends
// it down, and every node passes it to its children. A head has one tree for each of its threads.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "collective/spec.h"

namespace railyard::collective {

class NetworkSums {
 public:
  /// @param threads  of a member
  void prepare(const Group& group, std::uint32_t threads);

  bool is_node(transport::Window memory) const { return nodes_.count(memory) != 0; }
  /// A message that follows: from a node to another one, or to a head.
  struct Next {
    transport::Window from = 0, to = 0;
    std::uint32_t member = 0;  ///< a head below both ends
  };
  /// A message has arrived at the node `at`, of a sum of the head `member` and of those with its place.
  std::vector<Next> arrived(transport::Window from, transport::Window at, std::uint32_t member, std::uint32_t thread);

 private:
  static constexpr transport::Window kNone = ~transport::Window(0);
  struct Child {
    transport::Window memory = 0;
    std::uint32_t member = 0;            ///< the child, or a head below it
    std::vector<std::uint32_t> arrived;  ///< by thread
  };
  struct Node {
    transport::Window parent = kNone;
    std::vector<Child> children;
    std::vector<std::uint32_t> sums;  ///< by thread, complete
  };
  using Tree = std::map<transport::Window, Node>;

  std::set<transport::Window> nodes_;
  std::vector<Tree> trees_;              ///< by place of the heads
  std::vector<std::uint32_t> place_of_;  ///< by member
};

}  // namespace railyard::collective
