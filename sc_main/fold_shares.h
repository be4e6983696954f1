// Shares of the links between switches, in a folded machine whose messages cross spines. In the whole machine, such a link
// carries the messages of many copies, as routing spreads them; the part has those of one copy. So the routes of all
// copies' messages are walked through the whole fat tree (platforms/fat_tree.h), and each link of the part gets
//
//   rate x (messages on the link in the part) / (messages on the like link of the copy for which these are most)
//
// The slowest copy stands for all. The share is above 1 where messages of the part collide and those of no copy do, as ECMP
// may have it. Messages of one traffic class count as simultaneous, those of different classes do not, and neighbours in a
// collective send to the next copy at once. A message is a pair of memories that exchanges at least a thousandth of what
// the busiest pair of the class does.
//
// Messages in a copy, such as those between pipeline stages, leave all copies at once; rings over copies leave most leaves by
// few members. If the two have different shares of a link, it is built for each of them (Machine::part_ways_to_next_copy()),
// and they do not wait for each other there.
#pragma once

#include <vector>

#include "platforms/machine.h"
#include "sc_main/fold.h"

namespace railyard {

/// Sets the rates. @param traffic  of the part  @param routing  fluid links route by destination, whatever the machine does
/// @return the smallest share; 1: each link has its whole rate
double share_trunks(const Fold& fold, const std::vector<transport::Traffic>& traffic, platforms::Machine& machine,
                    infiniband::Routing routing);

}  // namespace railyard
