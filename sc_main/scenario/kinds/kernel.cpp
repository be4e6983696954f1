// workload.kind: kernel. All combinations of each entry's lists; the last key of the table varies fastest.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/kinds/ranges.h"
#include "sc_main/scenario/table/lists.h"
#include "sc_main/scenario/table/words.h"
#include "workload/bench/kernel_spec.h"

namespace railyard::scenario {

using gpu::KernelOp;
using gpu::KernelSpec;
using nlohmann::json;
using workload::kernel_bench::KernelBenchSpec;

namespace {

constexpr double kMostElements = 1 << 30, kMostCopy = 1099511627776;
constexpr std::uint64_t kMostKernels = 1'000'000, kMostSequences = 16'000'000;

/// Kernels of one operation: every combination of the values in its keys' lists. An empty list: the key is not written.
struct KernelItem {
  using Numbers = std::vector<std::uint64_t>;
  gpu::KernelSpec each;  ///< values of keys without a list, common to all combinations
  std::vector<gpu::KernelLaunch> launch;
  std::vector<DataType> dtype, result_dtype, kv_dtype;
  Numbers m, n, k, groups, weight_copies;
  Numbers heads, kv_heads, head_dim, value_dim, batch, context_tokens;
  Numbers contexts_tokens;  ///< not a sweep: one value for each sequence of one batch
  Numbers tokens, width, bytes;
};

struct KernelSection {
  std::vector<KernelItem> kernels;
};

Field& add_numbers(Record<KernelItem>& r, const char* key, KernelItem::Numbers KernelItem::*member, double least,
                   double most, const char* doc) {
  Field field;
  field.range(least, most);
  return r.custom(
      key, doc, "integer, list, or {min, max, factor or step}", [least, most] { return numbers_schema(least, most); },
      [member, field](KernelItem& item, const Node& node, const std::string& path) {
        item.*member = read_numbers(field, node, path);
      });
}

template <class Word>
Field& add_words(Record<KernelItem>& r, const char* key, std::vector<Word> KernelItem::*member,
                 std::vector<std::string> words, const char* doc) {
  Field field;
  field.choices = words;
  return r.custom(
      key, doc, ("one or a list of " + joined(words)).c_str(),
      [words] {
        const json word = {{"enum", words}};
        return json{{"anyOf", {word, list_schema(word)}}};
      },
      [member, field](KernelItem& item, const Node& node, const std::string& path) {
        const auto one = [&](const Node& n, const std::string& p) {
          return static_cast<Word>(read_choice(field, n, p));
        };
        item.*member =
            node.kind == Node::Kind::sequence ? read_list<Word>(node, path, one) : std::vector<Word>{one(node, path)};
      });
}

Record<KernelItem> item_record() {
  using Item = KernelItem;
  using namespace gpu;
  const std::vector<std::string> types = words_of(kDataTypeNames);
  const auto of_each = [](auto member) { return within(&Item::each, member); };
  const KernelSpec otherwise;
  Record<Item> r;
  r.choice("op", of_each(&KernelSpec::op), words_of(kKernelOpNames), "the operation").required();
  add_words(r, "launch", &Item::launch, words_of(kKernelLaunchNames),
            "how the kernel is started. graph: a CUDA graph; stream: a stream that the host keeps filled; host: a "
            "framework call per kernel; synchronous: a framework that waits for each kernel")
      .fallback(name_of(otherwise.launch));
  add_words(r, "dtype", &Item::dtype, types,
            "number format of operands and elements; quantize: of the result, dequantize: of the operand")
      .fallback(std::string(name_of(otherwise.dtype)));
  add_numbers(r, "m", &Item::m, 1, kMostElements, "gemm: rows of the result (tokens)");
  add_numbers(r, "n", &Item::n, 1, kMostElements, "gemm: columns of the result");
  add_numbers(r, "k", &Item::k, 1, kMostElements, "gemm: inner dimension");
  add_numbers(r, "groups", &Item::groups, 1, 1 << 20,
              "gemm: number of equal products in one launch (experts, or a batch)")
      .fallback(std::to_string(otherwise.groups));
  add_words(r, "result_dtype", &Item::result_dtype, types, "gemm: number format of the result")
      .fallback("dtype, but not below 16 bits");
  add_numbers(r, "weight_copies", &Item::weight_copies, 0, 1 << 20,
              "gemm: number of weight matrices that kernels use in turn; they stay in L2 if they fit; 0: weights are "
              "never in L2")
      .fallback(std::to_string(otherwise.weight_copies));
  r.add("split_k", of_each(&KernelSpec::split_k), "gemm: K may be split to use idle SMs");
  r.add("steady", of_each(&KernelSpec::steady), "gemm: the GPU has been at its power limit for long; false: a burst");
  add_numbers(r, "heads", &Item::heads, 1, 65536, "attention, rotary: query heads");
  add_numbers(r, "kv_heads", &Item::kv_heads, 1, 65536, "attention, rotary: KV heads").fallback("as heads");
  add_numbers(r, "head_dim", &Item::head_dim, 1, 65536, "attention, rotary: size of a head");
  add_numbers(r, "value_dim", &Item::value_dim, 1, 65536, "attention: size of a value vector").fallback("head_dim");
  r.add("latent", within(of_each(&KernelSpec::heads), &AttentionHeads::latent),
        "attention: values are the first value_dim numbers of the keys (MLA)");
  add_words(r, "kv_dtype", &Item::kv_dtype, types, "attention, rotary: number format of the KV cache")
      .fallback("dtype");
  r.add("causal", of_each(&KernelSpec::causal),
        "attention_prefill, attention_backward: a token sees only earlier tokens and itself");
  r.add("split_context", of_each(&KernelSpec::split_context),
        "attention_decode: several thread blocks share a long context");
  add_numbers(r, "batch", &Item::batch, 1, 65536, "attention: number of sequences").fallback("1");
  add_numbers(r, "tokens", &Item::tokens, 1, kMostElements, "number of rows; attention: new tokens of each sequence")
      .fallback("attention_decode: 1");
  add_numbers(r, "context_tokens", &Item::context_tokens, 0, kMostElements,
              "attention: tokens of each sequence before the new ones")
      .fallback("0");
  r.custom(
      "contexts_tokens", "attention: context_tokens of each sequence if they differ; replaces batch and context_tokens",
      "list of integers",
      [] {
        return list_schema({{"type", "integer"}, {"minimum", 0}, {"maximum", kMostElements}});
      },
      [](Item& item, const Node& node, const std::string& path) {
        Field tokens;
        tokens.range(0, kMostElements);
        item.contexts_tokens = read_list<std::uint64_t>(
            node, path, [&](const Node& n, const std::string& p) { return read_integer(tokens, n, p); });
      });
  add_numbers(r, "width", &Item::width, 1, kMostElements, "elements of a row: hidden size, MLP width, vocabulary");
  add_numbers(r, "bytes", &Item::bytes, 1, kMostCopy, "copy: bytes, read once and written once");
  r.add("residual", of_each(&KernelSpec::residual), "norm: also adds and writes back the residual stream");
  r.add("gated", of_each(&KernelSpec::gated), "activation: two inputs per result (SwiGLU, GeGLU)");
  r.add("dynamic", of_each(&KernelSpec::dynamic), "quantize: first finds the scale of the tensor");
  r.add("kv_cache", of_each(&KernelSpec::kv_cache), "rotary: also writes keys and values to the cache");
  r.add("load_bytes", of_each(&KernelSpec::load_bytes),
        "norm, activation, softmax, rotary: bytes per load of a thread; 2 in scalar 16-bit kernels")
      .range(1, 64);
  r.add("cold", of_each(&KernelSpec::cold),
        "all except gemm and attention: operands and results are in HBM; false: L2 may hold them");
  r.add("host_us", of_each(&KernelSpec::host_us), "launch host, synchronous: time of a framework call").range(0, 1e6);
  return r;
}

Record<KernelSection> kernel_record() {
  Record<KernelSection> r;
  r.list("kernels", &KernelSection::kernels, item_record(),
         "kernels on the first GPU of every group, one after the other; keys with several values give all combinations")
      .required();
  return r;
}

/// A set of operations.
using Ops = std::uint32_t;
constexpr Ops of(KernelOp op) { return Ops{1} << static_cast<unsigned>(op); }
constexpr Ops kGemm = of(KernelOp::gemm), kDecode = of(KernelOp::attention_decode), kRotary = of(KernelOp::rotary),
              kNorm = of(KernelOp::norm), kActivation = of(KernelOp::activation), kQuantize = of(KernelOp::quantize),
              kCopy = of(KernelOp::copy);
constexpr Ops kChunk = of(KernelOp::attention_prefill) | of(KernelOp::attention_backward);
constexpr Ops kAttention = kChunk | kDecode;
constexpr Ops kRows = kNorm | kActivation | kQuantize | of(KernelOp::dequantize) | of(KernelOp::residual_add) |
                      of(KernelOp::softmax) | of(KernelOp::embedding) | of(KernelOp::sampling);

/// A key, the operations that require it, and further operations that accept it.
struct Key {
  const char* name;
  Ops required, accepted;
};

constexpr Key kKeys[] = {
    {"m", kGemm, 0},
    {"n", kGemm, 0},
    {"k", kGemm, 0},
    {"groups", 0, kGemm},
    {"result_dtype", 0, kGemm},
    {"weight_copies", 0, kGemm},
    {"dtype", 0, kGemm | kAttention | kRotary | kRows},
    {"heads", kAttention | kRotary, 0},
    {"kv_heads", 0, kAttention | kRotary},
    {"head_dim", kAttention | kRotary, 0},
    {"value_dim", 0, kAttention},
    {"latent", 0, kAttention},
    {"kv_dtype", 0, kAttention | kRotary},
    {"causal", 0, kChunk},
    {"batch", 0, kAttention},
    {"context_tokens", 0, kAttention},
    {"contexts_tokens", 0, kAttention},
    {"tokens", kChunk | kRotary | kRows, kDecode},
    {"width", kRows, 0},
    {"bytes", kCopy, 0},
    {"residual", 0, kNorm},
    {"gated", 0, kActivation},
    {"dynamic", 0, kQuantize},
    {"kv_cache", 0, kRotary},
    {"cold", 0, kRows | kRotary | kCopy},
    {"split_k", 0, kGemm},
    {"steady", 0, kGemm},
    {"split_context", 0, kDecode},
    {"load_bytes", 0, kNorm | kActivation | kRotary | of(KernelOp::softmax)},
};

void check_keys(const KernelItem& item, const std::string& path, const Source& source) {
  const std::string op = std::string(" op: ") + name_of(item.each.op);
  for (const Key& key : kKeys) {
    const bool is_written = value_at(source.root, "workload." + path + "." + key.name) != nullptr;
    if (is_written && ((key.required | key.accepted) & of(item.each.op)) == 0)
      refuse_workload(source, path + "." + key.name, "is not accepted with" + op);
    if (!is_written && (key.required & of(item.each.op)) != 0)
      refuse_workload(source, path, std::string(key.name) + " is required by" + op);
  }
  if (item.contexts_tokens.empty()) return;
  for (const auto& [name, is_written] :
       {std::pair{".batch", !item.batch.empty()}, {".context_tokens", !item.context_tokens.empty()}})
    if (is_written)
      refuse_workload(source, path + name, "cannot be combined with contexts_tokens; set only one of them");
}

/// Every GPU must have a tensor rate for the data types of a GEMM.
void check_types(const KernelItem& item, const std::string& path, const platforms::MachineSpec& machine,
                 const Source& source) {
  if (item.each.op != KernelOp::gemm) return;
  const std::vector<DataType> types = item.dtype.empty() ? std::vector<DataType>{item.each.dtype} : item.dtype;
  for (const DataType type : types) {
    for (const platforms::GroupSpec& group : machine.groups) {
      if (group.gpu.sm.flop_per_clock[static_cast<std::size_t>(type)] > 0) continue;
      std::vector<std::string> accepted;
      for (std::size_t t = 0; t < kDataTypes; ++t)
        if (group.gpu.sm.flop_per_clock[t] > 0) accepted.emplace_back(kDataTypeNames[t]);
      refuse_workload(
          source, path + ".dtype",
          group.gpu.name + " has no tensor rate for " + std::string(name_of(type)) + "; accepted: " + joined(accepted));
    }
  }
}

/// Operands and results, which are in memory at the same time.
double operand_bytes(const KernelSpec& k) {
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  const double narrow = bytes_of(k.dtype), wide = std::max(narrow, bytes_of(DataType::bf16));
  if (of(k.op) & kGemm)
    return k.groups * ((number(k.m) + number(k.n)) * number(k.k) * narrow + number(k.m) * number(k.n) * wide);
  if (of(k.op) & kCopy) return 2 * number(k.bytes);
  if (of(k.op) & kRows) return 2 * number(k.tokens) * number(k.width) * wide;
  if (of(k.op) & kRotary) return number(k.tokens) * (k.heads.query + 2.0 * k.heads.kv) * k.heads.dim * wide;
  double bytes = 0;
  for (const gpu::AttentionSequence& s : k.sequences)
    bytes += 2.0 * k.heads.dim *
             (number(s.tokens) * k.heads.query * wide +
              number(s.tokens + s.kv_start) * k.heads.kv * bytes_of(k.heads.kv_dtype));
  return bytes;
}

void check_kernel(const KernelSpec& k, const std::string& path, const platforms::MachineSpec& machine,
                  const Source& source) {
  if (k.heads.kv != 0 && k.heads.query % k.heads.kv != 0)
    refuse_workload(
        source, path + ".kv_heads",
        std::to_string(k.heads.kv) + " does not divide the " + std::to_string(k.heads.query) + " query heads");
  if (k.heads.latent && k.heads.value_dim > k.heads.dim)
    refuse_workload(source, path + ".value_dim",
                    std::to_string(k.heads.value_dim) + " is more than head_dim, " + std::to_string(k.heads.dim));
  for (const platforms::GroupSpec& group : machine.groups) {
    const double gb = operand_bytes(k) * 1e-9;
    if (gb > group.gpu.hbm.capacity_gb)
      refuse_workload(source, path,
                      "operands of " + number_text(gb) + " GB do not fit in the " +
                          number_text(group.gpu.hbm.capacity_gb) + " GB of " + group.gpu.name);
  }
}

/// Takes a combination's values key by key; the digits of its number are the indices in the lists.
class Digits {
 public:
  explicit Digits(std::uint64_t number) : number_(number) {}
  template <class Value, class Otherwise>
  Value take(const std::vector<Value>& values, Otherwise otherwise) {
    if (values.empty()) return static_cast<Value>(otherwise);
    const std::uint64_t place = number_ % values.size();
    number_ /= values.size();
    return values[place];
  }
  std::uint32_t take32(const std::vector<std::uint64_t>& values, std::uint64_t otherwise) {
    return static_cast<std::uint32_t>(take(values, otherwise));
  }

 private:
  std::uint64_t number_;
};

KernelSpec combination(const KernelItem& item, std::uint64_t number) {
  Digits digits(number);
  KernelSpec spec = item.each;
  spec.bytes = digits.take(item.bytes, 0);
  spec.width = digits.take(item.width, 0);
  const std::uint64_t context = digits.take(item.context_tokens, 0);
  const std::uint64_t tokens = digits.take(item.tokens, 1);
  const std::uint64_t batch = digits.take(item.batch, 1);
  const auto kv_type = item.kv_dtype.empty() ? std::nullopt : std::optional(digits.take(item.kv_dtype, DataType::bf16));
  spec.heads.value_dim = digits.take32(item.value_dim, 0);
  spec.heads.dim = digits.take32(item.head_dim, 0);
  const std::uint32_t kv_heads = digits.take32(item.kv_heads, 0);
  spec.heads.query = digits.take32(item.heads, 0);
  spec.heads.kv = kv_heads != 0 ? kv_heads : spec.heads.query;
  spec.weight_copies = digits.take32(item.weight_copies, spec.weight_copies);
  if (!item.result_dtype.empty()) spec.result_dtype = digits.take(item.result_dtype, DataType::bf16);
  spec.groups = digits.take32(item.groups, spec.groups);
  spec.k = digits.take(item.k, 0);
  spec.n = digits.take(item.n, 0);
  spec.m = digits.take(item.m, 0);
  spec.dtype = digits.take(item.dtype, spec.dtype);
  spec.heads.kv_dtype = kv_type.value_or(spec.dtype);
  spec.launch = digits.take(item.launch, spec.launch);
  spec.tokens = tokens;
  if (of(item.each.op) & kAttention) {
    spec.sequences.assign(batch, {tokens, context});
    if (!item.contexts_tokens.empty()) spec.sequences.clear();
    for (const std::uint64_t each : item.contexts_tokens) spec.sequences.push_back({tokens, each});
  }
  return spec;
}

/// The number of combinations, limited to kMostKernels + 1.
std::uint64_t combinations(const KernelItem& item) {
  std::uint64_t count = 1;
  for (const std::size_t values :
       {item.launch.size(), item.dtype.size(), item.result_dtype.size(), item.kv_dtype.size(), item.m.size(),
        item.n.size(), item.k.size(), item.groups.size(), item.weight_copies.size(), item.heads.size(),
        item.kv_heads.size(), item.head_dim.size(), item.value_dim.size(), item.batch.size(), item.tokens.size(),
        item.context_tokens.size(), item.width.size(), item.bytes.size()})
    count = std::min<std::uint64_t>(kMostKernels + 1, count * std::max<std::size_t>(1, values));
  return count;
}

KernelBenchSpec resolve(const KernelSection& written, const Setting& setting) {
  const platforms::MachineSpec& machine = setting.machine;
  const Source& source = setting.source;
  if (written.kernels.empty()) refuse_workload(source, "kernels", "is empty; accepted: at least one kernel");
  KernelBenchSpec spec;
  std::uint64_t sequences = 0;
  for (std::uint32_t i = 0; i < written.kernels.size(); ++i) {
    const KernelItem& item = written.kernels[i];
    const std::string path = "kernels." + std::to_string(i);
    check_keys(item, path, source);
    check_types(item, path, machine, source);
    const std::uint64_t count = combinations(item);
    if (spec.kernels.size() + count > kMostKernels)
      refuse_workload(source, path, "brings the scenario to more than " + std::to_string(kMostKernels) + " kernels");
    for (std::uint64_t c = 0; c < count; ++c) {
      spec.kernels.push_back(combination(item, c));
      check_kernel(spec.kernels.back(), path, machine, source);
      sequences += spec.kernels.back().sequences.size();
      if (sequences > kMostSequences)
        refuse_workload(source, path,
                        "brings the scenario to more than " + std::to_string(kMostSequences) + " sequences");
      spec.items.push_back(i);
    }
  }
  return spec;
}

}  // namespace

Kind kernel_kind() { return kind_of("kernel", kernel_record(), resolve); }

}  // namespace railyard::scenario
