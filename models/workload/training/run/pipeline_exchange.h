// The sends and receives between pipeline ranks: activations to the next stage, and their gradients back. Each pair of
// ranks and direction has two streams: pp_act_to_1 on the sender, pp_act_from_0 on the receiver; pp_grad_... for
// gradients.
//
// With pp_overlap, sends and receives run beside kernels, and only a receive delays a slot. Otherwise a rank sends what
// a slot produced and receives what its next slot needs at the same time, and waits for both; the host waits with it
// (Megatron-LM, p2p_communication.py: torch.cuda.synchronize after batch_isend_irecv), so launches cannot run ahead
// into the next slot. With virtual stages, forward and backward slots that take turns do so in pairs (Megatron-LM,
// send_forward_backward_recv_forward_backward): one by one, a cycle of ranks would wait for each other.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/parallel/mesh.h"
#include "workload/program/rank_programs.h"
#include "workload/training/run/training_jobs.h"

namespace railyard::workload::training {

/// What a rank sends to the next or the previous virtual stage for a micro-batch.
Bytes pipeline_bytes(const transformer::ModelShape& model, const TrainingSpec& spec);

class PipelineExchange {
 public:
  PipelineExchange(const TrainingSpec& spec, const Schedule& schedule, Bytes sent_bytes, const Mesh& mesh,
                   const collective::CollectiveRequest& request, transport::Fabric& fabric, const TrainingJobs& jobs,
                   RankPrograms& programs);

  /// Says when ranks may send to each other (RankPrograms::announce()).
  void announce();
  /// Of a send or a receive.
  const Communicator& communicator_of(const Job& job) const;
  void begin_step();
  /// Before the first job of a slot is emitted: the ranks of a pipeline rank wait for what the slot needs.
  void before_slot(std::uint32_t pipeline_rank, std::uint32_t index);
  /// After the last job of a slot is emitted: the ranks send what the slot produced.
  void after_slot(std::uint32_t pipeline_rank, std::uint32_t index);
  /// From each rank to each other rank, in all steps.
  void add_traffic(std::vector<transport::Traffic>& all) const;

 private:
  /// Sends from one pipeline rank to another one, of activations or of gradients.
  struct Link {
    std::uint32_t from, to;  ///< pipeline ranks
    bool gradients;
    bool operator<(const Link& o) const { return std::tie(from, to, gradients) < std::tie(o.from, o.to, o.gradients); }
  };
  struct RankState {
    JobRef before;                             ///< last compute job before the latest slot
    Time before_place;                         ///< its place in the rank's program
    std::vector<JobRef> sends;                 ///< of the latest slot
    std::map<Link, std::uint32_t> received;    ///< receives that are emitted, in this step
    std::map<std::uint32_t, JobRef> arrivals;  ///< receives for slots that are not emitted yet, by slot
  };

  /// The rank that receives what a rank sends to its own place: with schedules of both ends, its partner.
  std::uint32_t partner(std::uint32_t rank) const;
  Link link(std::uint32_t from_stage, std::uint32_t to_stage) const;
  void connect(const collective::CollectiveRequest& request, transport::Fabric& fabric);
  void order_arrivals();
  /// Whether this slot is the backward slot of a pair of slots that exchange together.
  bool ends_pair(std::uint32_t pipeline_rank, std::uint32_t index) const;
  void receive(const Slot& slot, std::uint32_t index, std::uint32_t rank);
  void send(const Slot& slot, std::uint32_t index, std::uint32_t rank);

  const TrainingSpec& spec_;
  const Schedule& schedule_;
  const Bytes sent_bytes_;
  const Mesh& mesh_;
  const TrainingJobs& jobs_;
  RankPrograms& programs_;
  std::vector<std::vector<std::uint32_t>> ranks_at_;  ///< by pipeline rank
  std::map<Link, Communicators> pairs_;               ///< by sender
  std::map<Link, std::map<std::uint32_t, Communicator*>> by_receiver_;
  std::map<Link, std::vector<std::uint32_t>> arrivals_;     ///< slots of the receiver, in the order of the sends
  std::vector<std::vector<std::uint32_t>> place_in_order_;  ///< by pipeline rank and slot: place among these
  std::vector<RankState> ranks_;
};

}  // namespace railyard::workload::training
