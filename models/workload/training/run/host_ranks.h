// The CPU sockets of the ranks, as ranks of their own with a memory, and copies between GPUs and them by the GPUs' copy
// engines. Copies of a stream follow each other, as in CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/parallel/mesh.h"
#include "workload/program/rank_programs.h"

namespace railyard::workload::training {

struct HostSide {
  std::vector<transport::Window> memories;  ///< by rank: of its GPU's socket
  double bytes_per_s = 0;                   ///< of a socket's memory
};

class HostRanks {
 public:
  HostRanks(const HostSide& hosts, const Mesh& mesh, Executor& executor, RankPrograms& programs);

  /// The socket of a rank's GPU.
  Rank& socket(std::uint32_t rank) { return *sockets_.at(hosts_.memories[rank]); }
  /// A stream of the socket for each of its ranks, or one for all of them. @return its number, by rank
  std::vector<std::size_t> add_streams(const char* name, bool shared);
  double bytes_per_s() const { return hosts_.bytes_per_s; }

  /// From the rank to its socket. @param stream  of the rank
  JobRef store(std::uint32_t rank, std::size_t stream, Bytes bytes, const JobLabel& label,
               const std::vector<JobRef>& after);
  /// From the socket to the rank. @param stream  of the socket
  JobRef load(std::uint32_t rank, std::size_t stream, Bytes bytes, const JobLabel& label,
              const std::vector<JobRef>& after);
  /// Estimated, in both directions.
  void add_traffic(std::vector<transport::Traffic>& all, std::uint32_t rank, double stored, double loaded) const;

 private:
  /// @param rank  whose copy engine moves the bytes
  JobRef copy(std::uint32_t rank, Rank& from, std::size_t stream, const execution::CopyTarget& to,
              const JobLabel& label, std::vector<JobRef> after);

  const HostSide hosts_;
  const Mesh& mesh_;
  RankPrograms& programs_;
  std::unordered_map<transport::Window, Rank*> sockets_;
  std::map<std::pair<const Rank*, std::size_t>, JobRef> last_;  ///< copy of a stream
};

}  // namespace railyard::workload::training
