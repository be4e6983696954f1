// Folding: data-parallel replicas that are alike, or servers of a collective (fold_candidate.h), do the same at the same
// time, so one part of them runs for all. The part is the least number of replicas that shares no server with the others.
// Only its servers are built, with the switches that they reach. A message to the next
// replica leaves by its NIC and returns by its NIC: it stands for the message of the replica before
// (collective/collective.h, platforms::BuiltPart).
//
// Replicas in the only server are folded if NVSwitches join all its GPUs alike (a rack). The server is built whole; one
// replica runs, and its messages to the next one leave and return by its NVLinks. Links of the other GPUs stay idle.
//
// Replicas with a GPU or link that an event slows run beside the part, on their own servers, unless events slow the same
// GPUs of all replicas. Members of a collective begin together (Executor), so all replicas wait for the slowest.
//
// The results are those of the whole machine if no message crosses a spine. Otherwise the way to the next copy crosses a
// spine for all copies, also where most neighbours share a leaf, and links between switches have the share of their rate
// that routing leaves to the slowest copy (fold_shares.h).
#pragma once

#include <string>
#include <vector>

#include "platforms/machine.h"
#include "sc_main/fold_bound.h"
#include "sc_main/scenario.h"
#include "transport/study/fidelity_choice.h"
#include "workload/parallel/sizes.h"

namespace railyard {

struct Fold {
  bool asked = false;
  std::uint32_t copies = 1;            ///< 1: all of the machine is simulated
  std::uint32_t simulated_gpus = 0;    ///< of the servers that are built; in one server, of the part
  std::uint32_t represented_gpus = 0;  ///< of all copies' servers; in one server, of all copies
  double slowest_nic_ratio = 1;        ///< of the rates of NICs, that events give some copies
  std::string why_not;                 ///< if all is simulated; "": folded
  bool exact = true;                   ///< results are those of the whole machine
  std::string bound;                   ///< how they may differ, and by how much
  // Folded: by copy, the copy among those that run which does what it does; by server that is built, that copy; and by
  // copy and such a server, the server of the whole machine that does the same for the copy.
  workload::Copies runs_for;
  std::vector<std::uint32_t> copy_of_server;
  std::vector<std::vector<std::uint32_t>> servers;
};

/// Folds the scenario if it asks for it: the machine becomes its part, the workload that of the part.
/// @throws InputError: folding is required, and not possible
Fold fold_copies(Scenario& scenario);
/// Whether the results are those of the whole machine. @param traffic  of the part  @param share  of share_trunks()
/// @param bound  WorkloadRun::folded_bound()
void judge(Fold& fold, const std::vector<transport::Traffic>& traffic, const platforms::Machine& machine,
           const transport::Assembly& fabric, double share, const FoldBound& bound);

}  // namespace railyard
