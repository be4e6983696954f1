// workload.kind: p2p
#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "workload/bench/point_to_point_spec.h"

namespace railyard::scenario {

using workload::p2p::PointToPointSpec;
using workload::p2p::Test;

namespace {

struct PointToPointSection : PointToPointSpec, RanksSection, SizesSection {
  PointToPointSection() {
    min_bytes = 2;
    max_bytes = 8u << 20;
  }
  bool p2p = true;
  std::optional<std::uint64_t> copy_bytes;
  std::optional<std::uint32_t> written_iterations;  ///< nullopt: depends on the test
};

Record<PointToPointSection> p2p_record() {
  Record<PointToPointSection> r;
  r.choice("test", &PointToPointSection::test, words_of(workload::p2p::kTestNames),
           "matrix: p2pBandwidthLatencyTest over all pairs of GPUs; h2d, d2h: nvbandwidth between each GPU and its "
           "host; ib_write, ib_read: perftest between two servers")
      .required();
  add_ranks(r,
            "number or list of GPUs, as for a collective; ib_write, ib_read: a list of two GPUs, by default the first "
            "ones of two servers; the first one's server writes or reads");
  r.choice("engine", &PointToPointSection::engine, {"sm", "copy_engine"},
           "matrix: the engine that copies, SMs or a copy engine");
  r.add("p2p", &PointToPointSection::p2p, "matrix: peer access between GPUs; false: bytes bounce off host memory");
  r.choice("memory", &PointToPointSection::memory, {"host", "gpu"},
           "ib_write, ib_read: memory that is read and written; host: the memory of the GPU's socket");
  r.add("copy_bytes", &PointToPointSection::copy_bytes, "size of a copy")
      .range(1, kMostSizeBytes)
      .fallback("40000000; h2d, d2h 512 MiB");
  add_sizes(r);
  r.add("iterations", &PointToPointSection::written_iterations,
        "number of copies, of writes or reads per queue pair, or of ping-pongs")
      .range(1, 1e6)
      .fallback("1; ib_write_bw, ib_read_bw 1000; ib_write_lat, ib_read_lat 10");
  r.add("queue_pairs", &PointToPointSection::queue_pairs,
        "ib_write_bw, ib_read_bw: number of queue pairs; one host thread posts to them in turn")
      .range(1, 1024);
  r.add("tx_depth", &PointToPointSection::tx_depth, "ib_write_bw: most outstanding writes of a queue pair")
      .range(1, 65536);
  r.add("outstanding_reads", &PointToPointSection::outstanding_reads,
        "ib_read_bw: most outstanding reads of a queue pair; the NIC has the limit")
      .range(1, 65536)
      .cite("ibv_devinfo -v of mlx5 devices: max_qp_rd_atom 16, which perftest takes");
  return r;
}

constexpr Bytes kCopyBytes = 40'000'000;  // 10 million integers, as in p2pBandwidthLatencyTest
constexpr Bytes kLatencyBytes = 4;
constexpr Bytes kHostCopyBytes = 512u << 20;  // as in nvbandwidth
constexpr std::uint32_t kOperations = 1000, kLatencies = 10;

void refuse_keys(const Source& source, const std::vector<const char*>& keys, const std::string& test) {
  for (const char* key : keys)
    if (value_at(source.root, std::string("workload.") + key))
      refuse_workload(source, key, "is not accepted with workload.test: " + test);
}

PointToPointSpec resolve_copies(const PointToPointSection& written, const platforms::MachineSpec& machine,
                                const Source& source) {
  PointToPointSpec spec = written;
  const bool is_matrix = written.test == Test::matrix;
  const std::string test = is_matrix ? "matrix" : "h2d or d2h";
  refuse_keys(
      source,
      {"min_bytes", "max_bytes", "factor", "sizes_bytes", "queue_pairs", "tx_depth", "outstanding_reads", "memory"},
      test);
  if (!is_matrix) refuse_keys(source, {"engine", "p2p"}, test);
  spec.gpus = resolve_ranks(written, machine, source);
  spec.sizes = {written.copy_bytes.value_or(is_matrix ? kCopyBytes : kHostCopyBytes), kLatencyBytes};
  spec.iterations = written.written_iterations.value_or(1);
  return spec;
}

PointToPointSpec resolve_rdma(const PointToPointSection& written, const platforms::MachineSpec& machine,
                              const Source& source) {
  PointToPointSpec spec = written;
  const bool is_bandwidth = workload::p2p::is_rdma_bandwidth(written.test);
  const std::string test = workload::p2p::kTestNames[static_cast<std::size_t>(written.test)];
  refuse_keys(source, {"copy_bytes", "engine", "p2p", "ranks_per_server"}, test);
  if (!is_bandwidth) refuse_keys(source, {"queue_pairs"}, test);
  if (written.test != Test::ib_write_bw) refuse_keys(source, {"tx_depth"}, test);
  if (written.test != Test::ib_read_bw) refuse_keys(source, {"outstanding_reads"}, test);
  const std::uint32_t per_server = machine.board.gpus;
  if (written.ranks) {
    spec.gpus = resolve_ranks(written, machine, source);
  } else {
    if (written.rank_count) refuse_workload(source, "ranks", "expected a list of two GPUs");
    if (platforms::servers_of(machine) < 2)
      refuse_workload(source, "test", "needs two servers; set machine.groups.*.servers to 2");
    spec.gpus = {0, per_server};
  }
  if (spec.gpus.size() != 2) refuse_workload(source, "ranks", "expected a list of two GPUs");
  if (spec.gpus[0] / per_server == spec.gpus[1] / per_server)
    refuse_workload(source, "ranks", "both GPUs are in one server; accepted: GPUs of two servers");
  spec.sizes = resolve_sizes(written, source);
  spec.iterations = written.written_iterations.value_or(is_bandwidth ? kOperations : kLatencies);
  return spec;
}

/// Makes peer memory unreachable for all GPUs.
void remove_peer_access(platforms::MachineSpec& machine) {
  for (platforms::GroupSpec& group : machine.groups) {
    group.gpu.pcie.p2p = false;
    group.nvlink_mesh = 0;
    if (machine.board.nvlink_planes.empty()) group.nvlink_planes.clear();
  }
}

PointToPointSpec resolve_point_to_point(const PointToPointSection& written, const Setting& setting) {
  PointToPointSpec spec = workload::p2p::is_rdma(written.test)
                              ? resolve_rdma(written, setting.machine, setting.source)
                              : resolve_copies(written, setting.machine, setting.source);
  check_groups_used(spec.gpus, setting.machine, setting.source);
  if (!written.p2p) remove_peer_access(setting.machine);
  return spec;
}

}  // namespace

Kind point_to_point_kind() { return kind_of("p2p", p2p_record(), resolve_point_to_point); }

}  // namespace railyard::scenario
