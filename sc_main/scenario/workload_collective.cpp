#include "sc_main/scenario/workload.h"

namespace railyard::scenario {

using workload::collective_bench::CollectiveBenchSpec;

namespace {

/// An optional of what the word after `auto` says.
template <class Value, class Word>
std::optional<Value> forced(Word word) {
  if (word == Word::automatic) return std::nullopt;
  return static_cast<Value>(static_cast<int>(word) - 1);
}

}  // namespace

CollectiveBenchSpec resolve_collective(const CollectiveSection& written, const platforms::MachineSpec& machine,
                                       const Source& source) {
  CollectiveBenchSpec spec;
  spec.operation = written.operation;
  spec.gpus = resolve_ranks(written, machine, source);
  spec.sizes = resolve_sizes(written, source);
  spec.dtype = written.dtype;
  spec.library = written.library;
  spec.algorithm = forced<collective::Algorithm>(written.algorithm);
  spec.protocol = forced<collective::Protocol>(written.protocol);
  spec.root = written.root;
  if (spec.root != 0 && spec.operation != collective::Operation::broadcast)
    refuse_workload(source, "root", "needs workload.op: broadcast");
  if (spec.root >= spec.gpus.size())
    refuse_workload(
        source, "root",
        std::to_string(spec.root) + " is no rank; " + std::to_string(spec.gpus.size()) + " take part, numbered from 0");
  spec.both_directions = written.both_directions;
  if (spec.both_directions && spec.algorithm != collective::Algorithm::ring)
    refuse_workload(source, "both_directions", "needs workload.algorithm: ring");
  spec.in_graph = written.in_graph;
  spec.iterations = written.iterations;
  if (!written.skew_us.empty() && written.skew_us.size() != spec.gpus.size())
    refuse_workload(source, "skew_us",
                    "lists " + std::to_string(written.skew_us.size()) + " ranks; " + std::to_string(spec.gpus.size()) +
                        " take part");
  for (const double us : written.skew_us) spec.skew.push_back(Time::seconds(us * 1e-6));
  return spec;
}

}  // namespace railyard::scenario
