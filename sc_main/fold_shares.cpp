#include "sc_main/fold_shares.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "platforms/fat_tree.h"
#include "transport/assembly.h"

namespace railyard {

using platforms::FatTree;
using platforms::Tier;
using platforms::Trunk;

namespace {

constexpr double kLeastBytes = 1e-3;  ///< of the busiest pair's

/// Memories of the part that exchange messages of one class over the network.
struct Pair {
  std::uint32_t from_server = 0, from_gpu = 0, from_nic = 0;  ///< a server that is built; numbers in the server
  std::uint32_t to_server = 0, to_gpu = 0, to_nic = 0;
  bool to_next_copy = false;
  transport::Window source = 0, target = 0;
};

class Shares {
 public:
  Shares(const Fold& fold, const platforms::Machine& machine, infiniband::Routing routing)
      : fold_(fold), machine_(machine), spec_(machine.spec()), tree_(machine.spec(), routing) {}

  /// Of the messages of one class.
  void add_class(const std::vector<Pair>& pairs, std::uint8_t traffic_class) {
    std::map<Trunk, double> whole;
    std::map<std::pair<Trunk, bool>, double> built;
    for (const Pair& pair : pairs) {
      for (const FatTree::Leg& leg : path_in_part(pair, traffic_class))
        built[{leg.trunk, pair.to_next_copy}] += leg.part;
      for (std::uint32_t copy = 0; copy < fold_.copies; ++copy)
        if (stands_for(pair, copy))
          for (const FatTree::Leg& leg : path_in(copy, pair, traffic_class)) whole[leg.trunk] += leg.part;
    }
    for (const Pair& pair : pairs) {
      std::map<std::pair<Tier, bool>, double> most;  // by kind of trunk
      for (std::uint32_t copy = 0; copy < fold_.copies; ++copy)
        if (stands_for(pair, copy))
          for (const FatTree::Leg& leg : path_in(copy, pair, traffic_class)) {
            double& load = most[{leg.trunk.upper, leg.trunk.up}];
            load = std::max(load, whole.at(leg.trunk));
          }
      for (const FatTree::Leg& leg : path_in_part(pair, traffic_class)) {
        const auto mine = std::make_pair(leg.trunk, pair.to_next_copy);
        double& copies = copies_[mine];
        copies = std::max(copies, most[{leg.trunk.upper, leg.trunk.up}] / built.at(mine));
      }
    }
  }

  /// Whether messages in a copy and to the next one have different shares of a link.
  bool differ() const {
    return std::any_of(copies_.begin(), copies_.end(), [&](const auto& own) {
      const auto next = copies_.find({own.first.first, true});
      return !own.first.second && next != copies_.end() && share(own.second) != share(next->second);
    });
  }

  double set_rates(const std::vector<platforms::Machine::BuiltTrunk>& trunks, bool parted) const {
    double least = 1;
    for (const platforms::Machine::BuiltTrunk& trunk : trunks) {
      double share = share_of(trunk.trunk, trunk.to_next_copy);
      if (!parted) share = std::min(share, share_of(trunk.trunk, true));
      if (share == 1) continue;
      const auto rate = static_cast<double>(trunk.link.state().egress.link().rate.bytes_per_second());
      trunk.link.device->set_rate(trunk.link.port,
                                  Rate::bytes_per_second(static_cast<std::uint64_t>(std::llround(rate * share))));
      least = std::min(least, share);
    }
    return least;
  }

 private:
  static double share(double copies) { return 1 / copies; }
  double share_of(const Trunk& trunk, bool to_next_copy) const {
    const auto found = copies_.find({trunk, to_next_copy});
    return found == copies_.end() ? 1 : share(found->second);
  }
  bool stands_for(const Pair& pair, std::uint32_t copy) const {
    return fold_.runs_for[copy] == fold_.copy_of_server[pair.from_server];
  }
  std::vector<FatTree::Leg> path_in_part(const Pair& p, std::uint8_t traffic_class) const {
    platforms::NetworkMessage message;
    message.from = number_in_whole(spec_, p.from_server) * spec_.nics_per_server + p.from_nic;
    message.to = number_in_whole(spec_, p.to_server) * spec_.nics_per_server + p.to_nic;
    message.lid = p.to_next_copy ? machine_.lid_to_next_copy(message.to) : message.to;
    message.source = p.source;
    message.target = p.target;
    message.traffic_class = traffic_class;
    return tree_.path(message, p.to_next_copy ? spec_.part->turns_at : Tier::leaf);
  }
  std::vector<FatTree::Leg> path_in(std::uint32_t copy, const Pair& p, std::uint8_t traffic_class) const {
    const std::uint32_t from = fold_.servers[copy][p.from_server];
    const std::uint32_t to = fold_.servers[p.to_next_copy ? (copy + 1) % fold_.copies : copy][p.to_server];
    platforms::NetworkMessage message;
    message.from = from * spec_.nics_per_server + p.from_nic;
    message.lid = message.to = to * spec_.nics_per_server + p.to_nic;
    message.source = from * spec_.board.gpus + p.from_gpu;
    message.target = to * spec_.board.gpus + p.to_gpu;
    message.traffic_class = traffic_class;
    return tree_.path(message);
  }

  const Fold& fold_;
  const platforms::Machine& machine_;
  const platforms::MachineSpec& spec_;
  FatTree tree_;
  /// By trunk of the part, and whether it leads to the next copy: messages in the whole machine by those in the part.
  std::map<std::pair<Trunk, bool>, double> copies_;
};

/// The pairs whose messages cross the network, in a copy or to the next one.
std::vector<Pair> pairs_of(const std::vector<const transport::Traffic*>& traffic, const Fold& fold,
                           const platforms::Machine& machine) {
  const platforms::MachineSpec& spec = machine.spec();
  const std::uint32_t gpus = spec.board.gpus, beyond = platforms::first_beyond_of(spec);
  double most = 0;
  for (const transport::Traffic* t : traffic) most = std::max(most, t->bytes);
  std::vector<Pair> pairs;
  std::set<std::pair<transport::Window, transport::Window>> known;
  for (const transport::Traffic* t : traffic) {
    if (t->bytes < kLeastBytes * most) continue;
    Pair pair;
    pair.source = t->source;
    pair.target = t->destination;
    pair.to_next_copy = t->destination >= beyond;
    const std::uint32_t target = pair.to_next_copy ? t->destination - beyond : t->destination;
    if (t->source >= machine.gpus() || target >= machine.gpus()) continue;
    pair.from_server = t->source / gpus;
    pair.from_gpu = t->source % gpus;
    pair.to_server = target / gpus;
    pair.to_gpu = target % gpus;
    const bool in_copy = fold.copy_of_server[pair.from_server] == fold.copy_of_server[pair.to_server];
    if (!in_copy || (!pair.to_next_copy && pair.from_server == pair.to_server)) continue;
    if (!known.insert({pair.source, pair.target}).second) continue;
    pair.from_nic = machine.nic_of(GpuId(t->source)).value() % spec.nics_per_server;
    pair.to_nic = machine.nic_of(GpuId(target)).value() % spec.nics_per_server;
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace

double share_trunks(const Fold& fold, const std::vector<transport::Traffic>& traffic, platforms::Machine& machine,
                    infiniband::Routing routing) {
  if (machine.trunks().empty()) return 1;
  std::map<std::uint8_t, std::vector<const transport::Traffic*>> classes;
  for (const transport::Traffic& t : traffic) classes[t.traffic_class].push_back(&t);
  Shares shares(fold, machine, routing);
  for (const auto& [traffic_class, of_class] : classes)
    shares.add_class(pairs_of(of_class, fold, machine), traffic_class);
  const bool parted = shares.differ();
  if (parted) machine.separate_paths_to_next_copy();
  return shares.set_rates(machine.trunks(), parted);
}

}  // namespace railyard
