// workload.kind: collective
#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "sc_main/scenario/table/lists.h"
#include "workload/bench/collective_spec.h"

namespace railyard::scenario {

using workload::collective_bench::CollectiveBenchSpec;

namespace {

constexpr double kMostIterations = 10000;

struct CollectiveSection : CollectiveBenchSpec, RanksSection, SizesSection {
  std::string library = "nccl";
};

Record<CollectiveSection> collective_record() {
  using workload::collective_bench::kElementTypeNames;
  Record<CollectiveSection> r;
  r.choice("op", &CollectiveSection::operation, words_of(collective::kOperationNames),
           "the operation, as in nccl-tests")
      .required();
  add_ranks(r,
            "number of GPUs that take part, from the first one; or a list of GPUs, counted over all groups in order");
  add_sizes(r);
  r.choice("dtype", &CollectiveSection::dtype, words_of(kElementTypeNames), "number format of the elements");
  r.add("library", &CollectiveSection::library,
        "datasheet of the library that chooses algorithm and protocol, shipped or a file: nccl, with its tuner, or a "
        "serving engine, with its own all-reduce")
      .is_path(Field::Path::unless_name);
  r.choice_or("algorithm", "auto", &CollectiveSection::algorithm, words_of(collective::kAlgorithmNames),
              "algorithm; auto: the library chooses");
  r.choice_or("protocol", "auto", &CollectiveSection::protocol, words_of(collective::kProtocolNames),
              "NCCL protocol; auto: the library chooses");
  r.choice("nccl_version", &CollectiveSection::nccl_version, words_of(collective::kNcclVersionNames),
           "NCCL up to this version: its rules for all_to_all and send_recv");
  r.add("root", &CollectiveSection::root, "rank from which a broadcast starts, or that gets the sum of a reduce")
      .range(0, kMostGpus - 1);
  r.add("both_directions", &CollectiveSection::both_directions,
        "with algorithm: ring, every second channel runs in the opposite direction");
  r.add("in_graph", &CollectiveSection::in_graph,
        "collectives are launched from a CUDA graph, not one by one from the host");
  r.add("iterations", &CollectiveSection::iterations,
        "repetitions of each size, back to back; the time of one is the mean. Chains and trees (broadcast, reduce) of "
        "repetitions overlap")
      .range(1, kMostIterations);
  r.custom(
       "skew_us", "delay of each rank at the start of every size, relative to the first rank", "list of numbers",
       [] {
         return list_schema({{"type", "number"}, {"minimum", 0}, {"maximum", kLongestRunSeconds * 1e6}});
       },
       [](CollectiveSection& section, const Node& node, const std::string& path) {
         Field skew;
         skew.key = "skew_us";
         skew.range(0, kLongestRunSeconds * 1e6);
         section.skew = read_list<Time>(node, path, [&](const Node& n, const std::string& p) {
           return Time::seconds(read_number(skew, n, p) * 1e-6);
         });
       })
      .fallback("none");
  return r;
}

CollectiveBenchSpec resolve_collective(const CollectiveSection& written, const Setting& setting) {
  const platforms::MachineSpec& machine = setting.machine;
  const Source& source = setting.source;
  CollectiveBenchSpec spec = written;
  spec.engine = load_engine({written.library, "workload.library", place_of(source.root, "workload.library")});
  spec.gpus = resolve_ranks(written, machine, source);
  spec.sizes = resolve_sizes(written, source);
  if (spec.root != 0 && !is_rooted(spec.operation))
    refuse_workload(source, "root", "needs workload.op: broadcast or reduce");
  if (spec.root >= spec.gpus.size())
    refuse_workload(source, "root",
                    std::to_string(spec.root) + " is not a rank; there are " + std::to_string(spec.gpus.size()) +
                        " ranks, numbered from 0");
  if (spec.both_directions && spec.algorithm != collective::Algorithm::ring)
    refuse_workload(source, "both_directions", "needs workload.algorithm: ring");
  if (!spec.skew.empty() && spec.skew.size() != spec.gpus.size())
    refuse_workload(
        source, "skew_us",
        "lists " + std::to_string(spec.skew.size()) + " ranks; " + std::to_string(spec.gpus.size()) + " take part");
  check_groups_used(spec.gpus, machine, source);
  return spec;
}

}  // namespace

Kind collective_kind() { return kind_of("collective", collective_record(), resolve_collective); }

}  // namespace railyard::scenario
