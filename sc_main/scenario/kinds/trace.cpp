// workload.kind: trace
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sc_main/scenario/execution_traces/chakra.h"
#include "sc_main/scenario/execution_traces/simai.h"
#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "workload/execution_trace/player_spec.h"

namespace railyard::scenario {

using namespace workload::execution_trace;

namespace {

enum class ExecutionTraceFormat : std::uint8_t { chakra, simai };

struct ExecutionTraceSection {
  ExecutionTraceFormat format = ExecutionTraceFormat::chakra;
  std::optional<std::string> prefix, groups, file;
  DataType dtype = DataType::bf16;
  bool eager_sends = true;
};

Record<ExecutionTraceSection> trace_record() {
  Record<ExecutionTraceSection> r;
  r.choice(
       "format", &ExecutionTraceSection::format, {"chakra", "simai"},
       "chakra: execution traces of MLCommons Chakra, one file a rank; simai: text workload of SimAI and ASTRA-sim 1")
      .required();
  r.add("prefix", &ExecutionTraceSection::prefix,
        "chakra: the files are PREFIX.0.et, PREFIX.1.et, ...; rank r runs on "
        "the r-th GPU, counted over all groups in order")
      .is_path();
  r.add("groups", &ExecutionTraceSection::groups,
        "chakra: JSON file with the ranks of each group that nodes name with pg_name: {\"NAME\": [rank, ...]}")
      .is_path()
      .fallback("one group of all ranks");
  r.add("file", &ExecutionTraceSection::file, "simai: file of the workload").is_path();
  r.choice("dtype", &ExecutionTraceSection::dtype, words_of(kDataTypeNames),
           "chakra: number format of compute nodes without a duration, which take the time of the GPU's roofline");
  r.add("eager_sends", &ExecutionTraceSection::eager_sends,
        "a send does not wait for its receive, as in ASTRA-sim and isend() of PyTorch; false: both begin together, as "
        "ncclSend() and ncclRecv() do");
  return r;
}

/// Refuses keys of the other format, and asks for the key of this one.
void check_keys(const ExecutionTraceSection& written, const Source& source) {
  const bool is_chakra = written.format == ExecutionTraceFormat::chakra;
  const std::string word = is_chakra ? "chakra" : "simai";
  const auto refuse = [&](const char* key, bool is_written, bool applies) {
    if (is_written && !applies) refuse_workload(source, key, "does not apply to format: " + word);
  };
  refuse("prefix", written.prefix.has_value(), is_chakra);
  refuse("groups", written.groups.has_value(), is_chakra);
  refuse("dtype", value_at(source.root, "workload.dtype") != nullptr, is_chakra);
  refuse("file", written.file.has_value(), !is_chakra);
  if (is_chakra && !written.prefix) refuse_workload(source, "format", "chakra needs prefix");
  if (!is_chakra && !written.file) refuse_workload(source, "format", "simai needs file");
}

void check_roofline(const Trace& trace, const TraceSpec& spec, const Setting& setting) {
  const bool has_roofline = std::any_of(trace.programs.begin(), trace.programs.end(), [](const Program& program) {
    return std::any_of(program.nodes.begin(), program.nodes.end(), [](const TraceNode& n) { return n.flops > 0; });
  });
  if (!has_roofline) return;
  for (const platforms::GroupSpec& group : setting.machine.groups)
    if (group.gpu.sm.flop_per_clock[static_cast<std::size_t>(spec.dtype)] <= 0)
      refuse_workload(setting.source, "dtype", no_tensor_rate(group.gpu, spec.dtype));
}

TraceSpec resolve_trace(const ExecutionTraceSection& written, const Setting& setting) {
  const Source& source = setting.source;
  check_keys(written, source);
  const auto place = [&](const char* key) { return place_of(source.root, std::string("workload.") + key); };
  std::uint32_t gpus = 0;
  for (const platforms::GroupSpec& group : setting.machine.groups) gpus += group.servers * setting.machine.board.gpus;
  TraceSpec spec;
  spec.dtype = written.dtype;
  const auto trace = std::make_shared<Trace>();
  std::vector<std::string> paths;  // by rank
  if (written.format == ExecutionTraceFormat::chakra) {
    const ChakraFiles files{*written.prefix, written.groups, place("prefix"), place("groups")};
    *trace = read_chakra(files);
    if (trace->ranks.size() > gpus)
      refuse_workload(source, "prefix",
                      std::to_string(trace->ranks.size()) + " ranks; there are " + std::to_string(gpus) +
                          " GPUs; set machine.groups.*.servers for more");
    for (std::uint32_t rank = 0; rank < trace->ranks.size(); ++rank)
      paths.push_back(chakra_file(*written.prefix, rank));
  } else {
    *trace = simai_trace(read_simai(*written.file, place("file")), gpus, setting.machine.board.gpus);
    paths.assign(trace->ranks.size(), *written.file);
  }
  check_roofline(*trace, spec, setting);
  try {
    spec.order = std::make_shared<Order>(order_of(*trace, written.eager_sends));
  } catch (const TraceError& e) {
    throw InputError({paths[e.rank], 0, 0}, text_of(trace->nodes(e.rank)[e.node]) + ": " + e.what());
  }
  std::vector<std::uint32_t> used;
  for (std::uint32_t rank = 0; rank < trace->ranks.size(); ++rank) used.push_back(rank);
  check_groups_used(used, setting.machine, source);
  spec.trace = trace;
  return spec;
}

}  // namespace

Kind trace_kind() { return kind_of("trace", trace_record(), resolve_trace); }

}  // namespace railyard::scenario
