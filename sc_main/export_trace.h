// Writes the jobs of a run as Chakra execution traces (--export-et PREFIX): PREFIX.R.et for each rank, and the ranks of
// each group in PREFIX.groups.json. kind: trace reads them.
//
// A job becomes a node. It depends on the jobs of its rank for which it waited, and on the job at whose end it was
// emitted. If the reason lies on another rank and is no collective, send or receive, or outside of all jobs, the node
// depends on a node `timer` that ends at that instant. Jobs of hosts are in the file of the first rank. Durations are whole
// microseconds, as the format has them; attributes of Railyard's own (own_attributes.h) hold what is exact.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "collective/cause_listener.h"
#include "execution/job_listener.h"
#include "sc_main/simulation.h"

namespace railyard::chakra {
class Node;
}

namespace railyard {

class TraceExport final : private execution::JobListener, private collective::CauseListener {
 public:
  /// Call before the run. @throws InputError: a folded machine
  explicit TraceExport(Simulation& simulation);
  /// After a complete run.
  void write(const std::string& prefix) const;

 private:
  /// A node of a rank's file; id 0: none.
  struct NodeRef {
    std::uint32_t file = 0;
    std::uint64_t id = 0;
  };
  struct Live {
    NodeRef node;
    std::vector<std::uint64_t> after;
    std::uint64_t send = 0;  ///< of a receive by a copy engine: the node that sends
  };
  struct File {
    std::string bytes;
    std::uint64_t timer = 0;  ///< the latest node `timer`
    Time timer_end;
  };
  static constexpr std::uint32_t kNotEmitted = ~0u;
  struct Running {
    std::vector<std::uint32_t> ranks;  ///< by member
    std::vector<std::string> streams;
    std::uint64_t tag = 0;
  };

  void on_emitted(const execution::Job& job) override;
  void on_waited(const execution::Job& job, const execution::Job& done) override;
  void on_begun(const execution::Job&) override {}
  void on_done(const execution::Job& job) override;
  void on_waited_for_peer(const execution::Job&, const execution::Job&) override {}
  void on_reached(const void* owner, std::uint32_t gate) override;
  void on_passed(const void* owner, std::uint32_t gate) override;
  void on_arrived(std::optional<std::uint32_t>) override { causes_.clear(); }
  void on_measure_begun(const char*, std::uint32_t) override {}
  void on_measured(const char*, std::uint32_t, std::uint32_t) override {}
  void on_entered(const collective::Collective&, std::uint32_t) override {}
  void on_put_off(const collective::Collective&, std::uint32_t, std::uint64_t, Time) override {}
  void on_taken_up(const collective::Collective&, std::uint32_t, std::uint64_t) override {}
  void on_left(const transport::Message&) override {}
  collective::Trail trail_of(const collective::Collective&) override { return {}; }
  void on_ended(const collective::Trail&) override {}

  std::uint32_t file_of(const execution::Rank& rank) const;
  /// "compute"; of a host "host0:API server"
  std::string stream_name(const execution::Job& job) const;
  /// Makes the job wait until now, by a timer if need be.
  void wait_until_now(Live& live);
  void add_cause(Live& live, const NodeRef& cause);
  void append(File& file, const chakra::Node& node);
  void describe_collective(chakra::Node& node, const execution::Job& job);
  /// A copy to other GPUs: sends, and receives for other readers.
  void describe_copy(chakra::Node& node, const execution::Job& job);
  std::string group_of(const Running& running);

  Simulation& simulation_;
  std::map<const execution::Rank*, std::uint32_t> ranks_;   ///< with a GPU
  std::map<transport::Window, std::uint32_t> rank_of_gpu_;  ///< by memory
  std::vector<File> files_;
  std::unordered_map<const execution::Job*, Live> live_;
  std::unordered_map<const collective::Collective*, Running> running_;
  std::map<std::pair<std::vector<std::uint32_t>, std::vector<std::string>>, std::string> groups_;
  std::map<std::pair<const void*, std::uint32_t>, std::vector<NodeRef>> gates_;
  std::unordered_map<const gpu::Stream*, std::uint64_t> latest_;  ///< the latest job of a stream; 0: it may leave early
  std::unordered_map<std::uint64_t, std::uint32_t> senders_;      ///< ranks of sends by copy engines, by id
  std::vector<NodeRef> causes_;                                   ///< of the event that is being processed
  Time caused_at_;
  std::uint64_t last_id_ = 0;
};

}  // namespace railyard
