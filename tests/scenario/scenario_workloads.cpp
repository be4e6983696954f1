// workload.kind: collective, p2p and kernel: what the loader makes of them, and what it refuses.
#define BOOST_TEST_MODULE scenario_workloads
#include <boost/test/unit_test.hpp>

#include <set>

#include "tests/scenario/scenario_support.h"
#include "workload/bench/collective_spec.h"
#include "workload/bench/kernel_spec.h"
#include "workload/bench/point_to_point_spec.h"

using namespace railyard;
using namespace railyard::test;
using workload::collective_bench::CollectiveBenchSpec;
using workload::kernel_bench::KernelBenchSpec;
using workload::p2p::PointToPointSpec;

namespace {

using Indices = std::vector<std::uint32_t>;
using Sizes = std::vector<Bytes>;

const std::string kCollective = "workload: {kind: collective, op: all_reduce}\n";
const std::string kKernel = "workload: {kind: kernel, kernels: [{op: copy, bytes: 1}]}\n";
const std::string kMatrix = "workload: {kind: p2p, test: matrix}\n";
const std::string kWrite = "machine: {groups: {node: {servers: 2}}}\nworkload: {kind: p2p, test: ib_write_bw}\n";
const std::string kRead = "machine: {groups: {node: {servers: 2}}}\nworkload: {kind: p2p, test: ib_read_bw}\n";

CollectiveBenchSpec collective_of(const std::vector<std::string>& sets) {
  return Scratch().load(kCollective, sets).spec<CollectiveBenchSpec>();
}
KernelBenchSpec kernels_of(const std::vector<std::string>& sets) {
  return Scratch().load(kKernel, sets).spec<KernelBenchSpec>();
}
PointToPointSpec p2p_of(const std::string& text, const std::vector<std::string>& sets) {
  return Scratch().load(text, sets).spec<PointToPointSpec>();
}
std::string refusal(const std::string& text, const std::string& set) { return Scratch().refusal(text, {set}); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_collective_needs_nothing_but_its_operation) {
  const CollectiveBenchSpec s = collective_of({});
  BOOST_TEST(s.gpus == (Indices{0, 1, 2, 3, 4, 5, 6, 7}), boost::test_tools::per_element());
  BOOST_TEST(s.sizes.size() == 25u);
  BOOST_TEST(s.sizes.front() == 8u);
  BOOST_TEST(s.sizes.back() == 128u << 20);
  BOOST_TEST(!s.algorithm.has_value());
  BOOST_TEST(!s.protocol.has_value());
  BOOST_TEST(!s.in_graph);
  BOOST_TEST(s.iterations == 1u);
  BOOST_TEST(s.skew.empty());
}

BOOST_AUTO_TEST_CASE(ranks_of_a_collective) {
  const auto ranks = [](const std::vector<std::string>& sets) {
    std::vector<std::string> all{"machine.groups={a: {servers: 1}, b: {servers: 1}}"};
    all.insert(all.end(), sets.begin(), sets.end());
    return collective_of(all).gpus;
  };
  BOOST_TEST(ranks({}).size() == 16u);
  BOOST_TEST(ranks({"workload.ranks=9"}) == (Indices{0, 1, 2, 3, 4, 5, 6, 7, 8}), boost::test_tools::per_element());
  BOOST_TEST(ranks({"workload.ranks=[9, 2, 15]"}) == (Indices{9, 2, 15}), boost::test_tools::per_element());
  BOOST_TEST(ranks({"workload.ranks_per_server=2"}) == (Indices{0, 1, 8, 9}), boost::test_tools::per_element());
  BOOST_TEST(ranks({"workload.ranks_per_server=2", "workload.ranks=3"}) == (Indices{0, 1, 8}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(sizes_of_a_collective) {
  BOOST_TEST(collective_of({"workload.min_bytes=3", "workload.max_bytes=100", "workload.factor=4"}).sizes ==
                 (Sizes{3, 12, 48}),
             boost::test_tools::per_element());
  BOOST_TEST(collective_of({"workload.sizes_bytes=[1024, 8, 17179869184]"}).sizes == (Sizes{1024, 8, 17179869184ull}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(choices_of_a_collective) {
  const CollectiveBenchSpec s = collective_of({"workload.op=reduce_scatter", "workload.algorithm=pxn",
                                               "workload.protocol=ll128", "workload.ranks=2", "workload.library=trtllm",
                                               "workload.dtype=bf16", "workload.skew_us=[0, 1.5]"});
  BOOST_TEST((s.operation == collective::Operation::reduce_scatter));
  BOOST_TEST((s.algorithm == collective::Algorithm::pxn));
  BOOST_TEST((s.protocol == collective::Protocol::ll128));
  BOOST_TEST(s.engine.name == "trtllm-1.0");
  BOOST_TEST((s.dtype == workload::collective_bench::ElementType::bf16));
  BOOST_TEST((s.skew == std::vector<Time>{Time(), Time::ns(1500)}));
}

BOOST_AUTO_TEST_CASE(root_and_directions_of_a_collective) {
  BOOST_TEST(collective_of({"workload.op=broadcast", "workload.root=7"}).root == 7u);
  BOOST_TEST(collective_of({}).root == 0u);
  BOOST_TEST(collective_of({"workload.algorithm=ring", "workload.both_directions=true"}).both_directions);
  BOOST_TEST(!collective_of({}).both_directions);
}

BOOST_AUTO_TEST_CASE(refused_collectives) {
  const auto refuse = [](const std::string& set) { return refusal(kCollective, set); };
  BOOST_TEST(refuse("workload.root=1") ==
             "--set workload.root=1: error: workload.root: needs workload.op: broadcast or reduce");
  BOOST_TEST(refuse("workload.both_directions=true") ==
             "--set workload.both_directions=true: error: workload.both_directions: needs workload.algorithm: ring");
  BOOST_TEST(refuse("workload.kind=colective") ==
             "--set workload.kind=colective: error: workload.kind: unknown value 'colective'; accepted: "
             "disaggregated_prefill, serving, training, collective, p2p, kernel, layer, overlap, trace "
             "(did you mean 'collective'?)");
  BOOST_TEST(refuse("workload.op=allreduce") ==
             "--set workload.op=allreduce: error: workload.op: unknown value 'allreduce'; accepted: all_reduce, "
             "all_gather, reduce_scatter, broadcast, all_to_all, send_recv, reduce (did you mean 'all_reduce'?)");
  BOOST_TEST(refuse("workload.size_bytes=[8]") ==
             "--set workload.size_bytes=[8]: error: workload.size_bytes: unknown key (did you mean 'sizes_bytes'?)");
  BOOST_TEST(
      refuse("workload.ranks=9") ==
      "--set workload.ranks=9: error: workload.ranks: 9; there are 8 GPUs; set machine.groups.*.servers for more");
  BOOST_TEST(refuse("workload.ranks=[0, 8]") ==
             "--set workload.ranks=[0, 8]: error: workload.ranks.1: no GPU 8; the machine has GPUs 0 to 7");
  BOOST_TEST(refuse("workload.ranks=[3, 3]") ==
             "--set workload.ranks=[3, 3]: error: workload.ranks.1: GPU 3 is listed twice; each GPU holds one rank");
  BOOST_TEST(refuse("workload.ranks=1") ==
             "--set workload.ranks=1: error: workload.ranks: '1' is out of range; accepted: 2 to 1048576");
  BOOST_TEST(refuse("workload.max_bytes=4") ==
             "--set workload.max_bytes=4: error: workload.max_bytes: 4 is less than min_bytes, 8");
  BOOST_TEST(refuse("workload.sizes_bytes=[]") ==
             "--set workload.sizes_bytes=[]: error: workload.sizes_bytes: is empty; at least one");
  BOOST_TEST(refuse("workload.sizes_bytes=[8, 8]") ==
             "--set workload.sizes_bytes=[8, 8]: error: workload.sizes_bytes.1: 8 twice");
  BOOST_TEST(refuse("workload.skew_us=[1]") ==
             "--set workload.skew_us=[1]: error: workload.skew_us: lists 1 ranks; 8 take part");
  BOOST_TEST(refuse("model={config: m.json}") ==
             "--set model={config: m.json}: error: model: this workload.kind runs no model");
  BOOST_TEST(Scratch().refusal("workload: {op: all_reduce}\n") ==
             "s.yaml:1:11: error: workload.kind: is required; kind of workload");
}

BOOST_AUTO_TEST_CASE(p2p_tests) {
  const PointToPointSpec matrix = p2p_of(kMatrix, {"workload.ranks=2", "workload.engine=sm"});
  BOOST_TEST(matrix.gpus == (Indices{0, 1}), boost::test_tools::per_element());
  BOOST_TEST(matrix.sizes == (Sizes{40'000'000, 4}), boost::test_tools::per_element());
  BOOST_TEST((matrix.engine == transport::Engine::sm));
  const PointToPointSpec write = p2p_of(kWrite, {"workload.queue_pairs=4"});
  BOOST_TEST(write.gpus == (Indices{0, 8}), boost::test_tools::per_element());
  BOOST_TEST(write.sizes.front() == 2u);
  BOOST_TEST(write.sizes.back() == 8u << 20);
  BOOST_TEST(write.queue_pairs == 4u);
  BOOST_TEST(write.tx_depth == 128u);
  BOOST_TEST(p2p_of(kRead, {}).outstanding_reads == 16u);
  BOOST_TEST(p2p_of(kRead, {}).iterations == 1000u);
  BOOST_TEST(p2p_of(kRead, {"workload.test=ib_read_lat"}).iterations == 10u);
  BOOST_TEST(p2p_of(kWrite, {"workload.ranks=[3, 12]"}).gpus == (Indices{3, 12}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(refused_p2p_tests) {
  BOOST_TEST(
      refusal(kMatrix, "workload.test=ib_write_bw") ==
      "--set workload.test=ib_write_bw: error: workload.test: needs two servers; set machine.groups.*.servers to 2");
  BOOST_TEST(refusal(kMatrix, "workload.queue_pairs=2") ==
             "--set workload.queue_pairs=2: error: workload.queue_pairs: is not accepted with workload.test: matrix");
  BOOST_TEST(
      refusal(kWrite, "workload.copy_bytes=2") ==
      "--set workload.copy_bytes=2: error: workload.copy_bytes: is not accepted with workload.test: ib_write_bw");
  BOOST_TEST(refusal(kWrite, "workload.outstanding_reads=4") ==
             "--set workload.outstanding_reads=4: error: workload.outstanding_reads: is not accepted with "
             "workload.test: ib_write_bw");
  BOOST_TEST(refusal(kRead, "workload.tx_depth=4") ==
             "--set workload.tx_depth=4: error: workload.tx_depth: is not accepted with workload.test: ib_read_bw");
  BOOST_TEST(refusal(kWrite, "workload.ranks=[0, 1]") ==
             "--set workload.ranks=[0, 1]: error: workload.ranks: both GPUs are in one server; accepted: GPUs of two "
             "servers");
  BOOST_TEST(
      refusal(kWrite, "workload.test=ib_write_lan") ==
      "--set workload.test=ib_write_lan: error: workload.test: unknown value 'ib_write_lan'; "
      "accepted: matrix, h2d, d2h, ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat (did you mean 'ib_write_lat'?)");
}

BOOST_AUTO_TEST_CASE(circumstances_of_kernels) {
  const KernelBenchSpec s =
      kernels_of({"workload.kernels=[{op: gemm, m: 1, n: 1, k: 1}, {op: gemm, m: 1, n: 1, k: 1, gemm_library: cublas, "
                  "l2_flushed: true, steady: true, weight_copies: 5, "
                  "launch: synchronous, host_us: 21}, {op: attention_decode, heads: 1, head_dim: 128, split_context: "
                  "false}, {op: softmax, "
                  "tokens: 1, width: 1, load_bytes: 2}]"});
  BOOST_TEST((!s.kernels[0].l2_flushed && !s.kernels[0].steady && s.kernels[0].weight_copies == 0 &&
              s.kernels[0].split_context));
  BOOST_TEST((s.kernels[1].l2_flushed && s.kernels[1].steady && s.kernels[1].weight_copies == 5));
  for (const std::size_t kernel : {0u, 1u})
    BOOST_TEST(gpu::name_of(s.kernels[kernel].gemm_library) == std::string("cublas"));
  BOOST_TEST(gpu::name_of(s.kernels[1].launch) == std::string("synchronous"));
  BOOST_TEST(s.kernels[1].host_us == 21);
  BOOST_TEST(!s.kernels[2].split_context);
  BOOST_TEST(s.kernels[3].load_bytes == 2);
  const auto refuse = [](const std::string& set) { return Scratch().refusal(kKernel, {set}); };
  const std::string steady = "workload.kernels=[{op: copy, bytes: 1, steady: true}]";
  BOOST_TEST(refuse(steady) == "--set " + steady + ": error: workload.kernels.0.steady: is not accepted with op: copy");
}

BOOST_AUTO_TEST_CASE(kernels_of_a_list_and_of_a_sweep) {
  const KernelBenchSpec s =
      kernels_of({"workload.kernels=[{op: copy, bytes: 8}, {op: gemm, m: {min: 1, max: 100, factor: 10}, n: [5, 7], "
                  "k: 3, dtype: [fp8, bf16]}]"});
  BOOST_TEST(s.kernels.size() == 1u + 3 * 2 * 2);
  BOOST_TEST(s.items.front() == 0u);
  BOOST_TEST(s.items.back() == 1u);
  // The last key of the table varies fastest.
  BOOST_TEST((s.kernels[1].dtype == DataType::fp8 && s.kernels[7].dtype == DataType::bf16));
  BOOST_TEST(s.kernels[1].m == 1u);
  BOOST_TEST(s.kernels[2].m == 1u);
  BOOST_TEST(s.kernels[2].n == 7u);
  BOOST_TEST(s.kernels[3].m == 10u);
  BOOST_TEST(s.kernels[12].m == 100u);
  BOOST_TEST(s.kernels[12].k == 3u);
  const KernelBenchSpec steps =
      kernels_of({"workload.kernels=[{op: norm, tokens: {min: 1, max: 6, step: 2}, width: 4}]"});
  BOOST_TEST(steps.kernels.size() == 3u);
  BOOST_TEST(steps.kernels[2].tokens == 5u);
}

BOOST_AUTO_TEST_CASE(a_sweep_makes_every_combination_once) {
  const KernelBenchSpec s = kernels_of(
      {"workload.kernels=[{op: attention_prefill, launch: [graph, stream], dtype: [fp8, bf16], heads: [8, 16], "
       "kv_heads: [2, 4], head_dim: [64, 128], kv_dtype: [fp8, bf16], batch: [1, 2], tokens: [5, 6], "
       "context_tokens: [0, 7]}]"});
  std::set<std::string> seen;
  for (const gpu::KernelSpec& k : s.kernels)
    seen.insert(std::to_string(static_cast<int>(k.launch)) + " " + std::string(name_of(k.dtype)) + " " +
                std::to_string(k.heads.query) + "/" + std::to_string(k.heads.kv) + "x" + std::to_string(k.heads.dim) +
                " " + std::string(name_of(k.heads.kv_dtype)) + " " + std::to_string(k.sequences.size()) + "x" +
                std::to_string(k.sequences[0].tokens) + "+" + std::to_string(k.sequences[0].kv_start));
  BOOST_TEST(s.kernels.size() == 512u);
  BOOST_TEST(seen.size() == 512u);
  BOOST_TEST(s.kernels[1].sequences[0].kv_start == 7u);
  BOOST_TEST((s.kernels[8].heads.kv_dtype == DataType::bf16 && s.kernels[7].heads.kv_dtype == DataType::fp8));
}

BOOST_AUTO_TEST_CASE(sequences_of_an_attention_kernel) {
  const auto one = [](const std::string& item) {
    return kernels_of({"workload.kernels=[" + item + "]"}).kernels.at(0);
  };
  const gpu::KernelSpec even = one("{op: attention_decode, heads: 8, head_dim: 64, batch: 3, context_tokens: 100}");
  BOOST_TEST(even.sequences.size() == 3u);
  BOOST_TEST(even.sequences[2].kv_start == 100u);
  BOOST_TEST(even.sequences[2].tokens == 1u);
  BOOST_TEST(even.heads.kv == 8u);
  const gpu::KernelSpec uneven =
      one("{op: attention_decode, heads: 8, kv_heads: 2, head_dim: 64, contexts_tokens: [5, 900], dtype: fp8}");
  BOOST_TEST(uneven.sequences.size() == 2u);
  BOOST_TEST(uneven.sequences[1].kv_start == 900u);
  BOOST_TEST((uneven.heads.kv_dtype == DataType::fp8));
  BOOST_TEST(uneven.heads.kv == 2u);
}

BOOST_AUTO_TEST_CASE(refused_kernels) {
  const auto refuse = [](const std::string& item) {
    const std::string set = "workload.kernels=[" + item + "]";
    const std::string text = refusal(kKernel, set), before = "--set " + set + ": error: workload.kernels.0";
    BOOST_TEST(text.substr(0, before.size()) == before);
    return text.substr(before.size());
  };
  BOOST_TEST(refuse("{op: gemm, m: 3, n: 3}") == ": k is required by op: gemm");
  BOOST_TEST(refuse("{op: copy, bytes: 3, width: 3}") == ".width: is not accepted with op: copy");
  BOOST_TEST(refuse("{op: gemm, m: {min: 3, max: 1}, n: 1, k: 1}") == ".m: max 1 is less than min, 3");
  BOOST_TEST(refuse("{op: gemm, m: {min: 3, max: 9, step: 1, factor: 2}, n: 1, k: 1}") ==
             ".m: has both factor and step; set only one of them");
  BOOST_TEST(refuse("{op: gemm, m: {min: 0, max: 9}, n: 1, k: 1}") ==
             ".m.min: '0' is out of range; accepted: 1 to 1073741824");
  BOOST_TEST(refuse("{op: gemm, m: [1, x], n: 1, k: 1}").substr(0, 5) == ".m.1:");
  BOOST_TEST(refuse("{op: gemm, m: 1, n: 1, k: 1, dtype: fp4}") ==
             ".dtype: L40S has no tensor rate for fp4; accepted: fp16, bf16, tf32, fp8, int8");
  BOOST_TEST(refuse("{op: attention_decode, heads: 8, head_dim: 64, batch: 2, contexts_tokens: [1, 2]}") ==
             ".batch: cannot be combined with contexts_tokens; set only one of them");
  BOOST_TEST(refuse("{op: attention_prefill, heads: 8, kv_heads: 3, head_dim: 64, tokens: 5}") ==
             ".kv_heads: 3 does not divide the 8 query heads");
  BOOST_TEST(refuse("{op: attention_decode, heads: 8, head_dim: 64, value_dim: 65, latent: true}") ==
             ".value_dim: 65 is more than head_dim, 64");
  BOOST_TEST(refuse("{op: copy, bytes: 40000000000}") == ": operands of 80 GB do not fit in the 48 GB of L40S");
  BOOST_TEST(refuse("{op: gemm, m: 1000000, n: 1000000, k: 1}") ==
             ": operands of 2000.004 GB do not fit in the 48 GB of L40S");
  BOOST_TEST(
      refuse("{op: attention_decode, heads: 1, head_dim: 1, batch: 65536, tokens: {min: 1, max: 400, step: 1}}") ==
      ": brings the scenario to more than 16000000 sequences");
  BOOST_TEST(refuse("{op: gem, m: 1}").find("(did you mean 'gemm'?)") != std::string::npos);
  BOOST_TEST(refuse("{op: gemm, m: {min: 1, max: 2000, step: 1}, n: {min: 1, max: 2000, step: 1}, k: 1}") ==
             ": brings the scenario to more than 1000000 kernels");
  BOOST_TEST(refusal(kKernel, "workload.kernels=[]") ==
             "--set workload.kernels=[]: error: workload.kernels: is empty; accepted: at least one kernel");
}
