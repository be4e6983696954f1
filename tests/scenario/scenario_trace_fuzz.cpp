// Whatever bytes an execution trace holds, the loader loads it or throws an InputError of one line.
//
//   build/bin/tests/scenario_trace_fuzz -- 20000     # so many mutants of each format; default 1500
#define BOOST_TEST_MODULE scenario_trace_fuzz
#include <boost/test/unit_test.hpp>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "chakra.pb.h"
#include "tests/scenario/mutants.h"

using namespace railyard;
using namespace railyard::test;

namespace {

std::size_t rounds() {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  return suite.argc > 1 ? std::stoul(suite.argv[1]) : 1500;
}

void add(chakra::Node& node, const char* name, std::int64_t value) {
  chakra::AttributeProto& attribute = *node.add_attr();
  attribute.set_name(name);
  attribute.set_int64_val(value);
}

/// Two ranks: compute, an all-reduce, a transfer, and a store.
std::string chakra_trace(int rank) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  const auto write = [&](const google::protobuf::MessageLite& message) {
    out.WriteVarint32(static_cast<std::uint32_t>(message.ByteSizeLong()));
    message.SerializeToCodedStream(&out);
  };
  chakra::GlobalMetadata metadata;
  metadata.set_version("0.0.4");
  write(metadata);
  std::uint64_t id = 0;
  const auto node = [&](chakra::NodeType type) {
    chakra::Node made;
    made.set_id(++id);
    made.set_name("n" + std::to_string(id));
    made.set_type(type);
    if (id > 1) made.add_data_deps(id - 1);
    return made;
  };
  chakra::Node compute = node(chakra::COMP_NODE);
  compute.set_duration_micros(3);
  write(compute);
  chakra::Node counted = node(chakra::COMP_NODE);
  add(counted, "num_ops", 1000000000);
  add(counted, "tensor_size", 1000000);
  write(counted);
  chakra::Node sum = node(chakra::COMM_COLL_NODE);
  add(sum, "comm_type", 0);
  add(sum, "comm_size", 65536);
  write(sum);
  chakra::Node transfer = node(rank == 0 ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE);
  add(transfer, "comm_size", 4096);
  add(transfer, "comm_tag", 1);
  add(transfer, rank == 0 ? "comm_dst" : "comm_src", 1 - rank);
  write(transfer);
  chakra::Node store = node(chakra::MEM_STORE_NODE);
  add(store, "tensor_size", 4096);
  write(store);
  out.Trim();
  return bytes;
}

const std::string kSimai =
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 2 vpp: 1 ga: 2 all_gpus: 8 checkpoints: 0 "
    "checkpoint_initiates: 0 pp_comm: 4096\n6\n"
    "grads -1 0 NONE 0 0 NONE 0 0 REDUCESCATTER 65536 100\n"
    "a -1 5000 ALLGATHER 8192 4000 REDUCESCATTER 8192 4000 NONE 0 100\n"
    "b -1 5000 REDUCESCATTER 8192 4000 ALLGATHER 8192 4000 NONE 0 100\n"
    "a -1 5000 ALLGATHER 8192 4000 REDUCESCATTER 8192 4000 NONE 0 100\n"
    "b -1 5000 REDUCESCATTER 8192 4000 ALLGATHER 8192 4000 NONE 0 100\n"
    "end -1 0 ALLREDUCE 4 0 NONE 0 0 NONE 0 100\n";

void expect_both(const Tally& tally) {
  BOOST_TEST(tally.loaded > rounds() / 100);
  BOOST_TEST(tally.refused > rounds() / 3);
}

}  // namespace

BOOST_AUTO_TEST_CASE(mutated_chakra_traces) {
  const Scratch scratch;
  const std::string path = scratch.write("s.yaml", "workload: {kind: trace, format: chakra, prefix: t}\n");
  const std::vector<std::string> traces{chakra_trace(0), chakra_trace(1)};
  std::mt19937 random(6);
  Tally tally;
  for (std::size_t round = 0; round < rounds(); ++round) {
    const std::size_t damaged = random() % 2;
    for (std::size_t rank = 0; rank < 2; ++rank)
      scratch.write("t." + std::to_string(rank) + ".et",
                    rank == damaged ? mutated(traces[rank], random) : traces[rank]);
    tally.run([&] { load_scenario(path, {}, "dgx_h100"); });
  }
  expect_both(tally);
}

BOOST_AUTO_TEST_CASE(mutated_simai_traces) {
  const Scratch scratch;
  const std::string path = scratch.write("s.yaml", "workload: {kind: trace, format: simai, file: w.txt}\n");
  std::mt19937 random(7);
  Tally tally;
  for (std::size_t round = 0; round < rounds(); ++round) {
    scratch.write("w.txt", mutated(kSimai, random));
    tally.run([&] { load_scenario(path, {}, "dgx_h100"); });
  }
  expect_both(tally);
}
