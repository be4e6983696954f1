// workload.kind: overlap
#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/ranks_and_sizes.h"
#include "sc_main/scenario/table/lists.h"
#include "sc_main/scenario/table/words.h"
#include "workload/bench/overlap_spec.h"

namespace railyard::scenario {

using namespace workload::overlap;
namespace linear = workload::linear;

namespace {

struct OverlapSection : OverlapSpec, RanksSection {
  std::optional<std::uint32_t> comm_sms;
};

Record<OverlapSection> overlap_record() {
  constexpr double kMostElements = 1 << 24;
  const auto of_product = [](auto member) { return within(&OverlapSection::product, member); };
  Record<OverlapSection> gemm;
  gemm.add("m", of_product(&gpu::GemmShape::m), "rows of the result: tokens").range(1, kMostElements).required();
  gemm.add("n", of_product(&gpu::GemmShape::n), "columns of the result; all_gather_gemm: total of all ranks")
      .range(1, kMostElements)
      .required();
  gemm.add("k", of_product(&gpu::GemmShape::k), "inner dimension; gemm_reduce_scatter: total of all ranks")
      .range(1, kMostElements)
      .required();
  gemm.choice("dtype", of_product(&gpu::GemmShape::dtype), words_of(kDataTypeNames), "number format of operands");

  Record<OverlapSection> r;
  r.choice("op", &OverlapSection::operation, words_of(kOperationNames),
           "all_gather_gemm: rows of A are gathered before the product; gemm_reduce_scatter: results are summed and "
           "scattered after the product; gemm_all_reduce: an all-reduce of other data runs beside the product")
      .required();
  add_ranks(r,
            "number of GPUs that take part, from the first one; or a list of GPUs, counted over all groups in order");
  r.group("gemm", gemm, "the matrix product").required();
  r.add("collective_bytes", &OverlapSection::collective_bytes, "gemm_all_reduce: bytes of the all-reduce")
      .range(1, kMostSizeBytes)
      .fallback("bytes of the result");
  const std::vector<std::string> words = words_of(kMethodNames);
  r.custom(
       "methods",
       "methods to run product and collective; each listed method is run. gemm, collective: one of them alone; "
       "decomposed: products of one shard each; fused: one kernel; ring: chunks go round a ring; pipelined: a "
       "collective "
       "after each piece of the product; beside: at the same time; bulk: the same, on SMs that the product leaves free",
       "list of gemm, collective, serial, decomposed, fused, beside, ring, pipelined, bulk",
       [words] {
         return list_schema({{"enum", words}});
       },
       [words](OverlapSection& section, const Node& node, const std::string& path) {
         Field field;
         field.choices = words;
         section.methods = read_list<Method>(node, path, [&](const Node& n, const std::string& p) {
           return static_cast<Method>(read_choice(field, n, p));
         });
       })
      .fallback("all methods of the operation");
  const auto option = [](auto member) { return within(&OverlapSection::options, member); };
  r.choice("engine", option(&linear::Options::engine), {"sm", "copy_engine"}, "ring: what moves chunks");
  r.choice("order", option(&linear::Options::order), words_of(linear::kRingOrderNames),
           "ring: a chunk is passed on while it is multiplied, or after that");
  r.add("splits", option(&linear::Options::splits), "pipelined: pieces of the product").range(1, 64);
  r.choice(
      "reduce", option(&linear::Options::reduce), words_of(linear::kPieceSumNames),
      "pipelined: the sum of each piece is scattered over all ranks, or goes to one rank, which then has a piece of "
      "its own; to_owner has a piece for each rank, in place of splits");
  r.add("comm_sms", &OverlapSection::comm_sms,
        "SMs that transfers use and products leave free: of a ring by SMs, pipelined, bulk")
      .range(1, 1024)
      .fallback("1 in a ring, otherwise 16");
  return r;
}

OverlapSpec resolve_overlap(const OverlapSection& written, const Setting& setting) {
  const platforms::MachineSpec& machine = setting.machine;
  const Source& source = setting.source;
  OverlapSpec spec = written;
  spec.gpus = resolve_ranks(written, machine, source);
  const auto tp = spec.gpus.size();
  const bool gathers = spec.operation == OverlapOperation::all_gather_gemm,
             scatters = spec.operation == OverlapOperation::gemm_reduce_scatter;
  const auto divide = [&](const char* key, std::uint64_t number) {
    if (number % tp != 0)
      refuse_workload(source, std::string("gemm.") + key,
                      std::to_string(number) + " is not a multiple of the " + std::to_string(tp) + " ranks");
  };
  if (gathers || scatters) divide("m", spec.product.m);
  if (gathers) divide("n", spec.product.n);
  if (scatters) divide("k", spec.product.k);
  if (written.collective_bytes != 0 && (gathers || scatters))
    refuse_workload(source, "collective_bytes",
                    std::string("is given by the matrix product; accepted only with op: gemm_all_reduce"));
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  const gpu::GemmShape& product = spec.product;
  const double element = bytes_of(product.dtype), result = std::max(element, 2.0);  // results have at least 16 bits
  if (spec.collective_bytes == 0)
    spec.collective_bytes = static_cast<Bytes>(gathers ? number(product.m) * number(product.k) * element
                                                       : number(product.m) * number(product.n) * result);
  if (spec.methods.empty()) {
    spec.methods = {Method::gemm, Method::collective, Method::serial};
    if (gathers || scatters) {
      spec.methods.insert(spec.methods.end(), {Method::decomposed, Method::fused});
    } else {
      spec.methods.push_back(Method::beside);
    }
  }
  const auto runs = [&](Method method) {
    return std::find(spec.methods.begin(), spec.methods.end(), method) != spec.methods.end();
  };
  for (std::size_t i = 0; i < spec.methods.size(); ++i)
    if (!accepts(spec.operation, spec.methods[i]))
      refuse_workload(source, "methods." + std::to_string(i),
                      std::string(name_of(spec.methods[i])) + " is not accepted with op: " + name_of(spec.operation));
  const bool to_owner = spec.options.reduce == linear::PieceSum::to_owner;
  if (to_owner && value_at(source.root, "workload.splits"))
    refuse_workload(source, "splits", "is accepted only with reduce: scatter; to_owner has a piece for each rank");
  if (to_owner && !runs(Method::pipelined)) refuse_workload(source, "reduce", "to_owner needs methods with pipelined");
  if (runs(Method::pipelined) && !to_owner && spec.product.m % (spec.options.splits * tp) != 0)
    refuse_workload(source, "splits",
                    std::to_string(spec.options.splits) + " pieces for " + std::to_string(tp) + " ranks: gemm.m, " +
                        std::to_string(spec.product.m) + ", is not a multiple of both together");
  if (written.comm_sms) spec.options.ring_sms = spec.options.comm_sms = *written.comm_sms;
  for (const std::uint32_t gpu : spec.gpus) {
    std::uint32_t group = 0, first = 0;
    while (gpu - first >= machine.groups[group].servers * machine.board.gpus)
      first += machine.groups[group++].servers * machine.board.gpus;
    const gpu::GpuDatasheet& sheet = machine.groups[group].gpu;
    if (sheet.sm.flop_per_clock[static_cast<std::size_t>(spec.product.dtype)] <= 0)
      refuse_workload(source, "gemm.dtype", no_tensor_rate(sheet, spec.product.dtype));
    const bool rings = runs(Method::ring) && spec.options.engine == transport::Engine::sm;
    const std::uint32_t ring = rings ? 2 * spec.options.ring_sms : 0;  // it sends and receives
    const bool shares = runs(Method::pipelined) || runs(Method::bulk);
    const std::uint32_t most_sms = std::max(ring, shares ? spec.options.comm_sms : 0);
    if (most_sms >= sheet.sm.count)
      refuse_workload(source, "comm_sms",
                      "expected less than the " + std::to_string(sheet.sm.count) + " SMs of " + sheet.name + ", got " +
                          std::to_string(most_sms));
    if (sheet.name != machine.groups[0].gpu.name)
      refuse_workload(source, "ranks",
                      "all GPUs need the same datasheet, got " + machine.groups[0].gpu.name + " and " + sheet.name);
  }
  check_groups_used(spec.gpus, machine, source);
  return spec;
}

}  // namespace

Kind overlap_kind() { return kind_of("overlap", overlap_record(), resolve_overlap); }

}  // namespace railyard::scenario
