// workload.kind: kernel. All combinations of each entry's lists; the last key of the table varies fastest.
#include <algorithm>
#include <functional>
#include <map>

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

/// A set of operations.
using Ops = std::uint32_t;
constexpr Ops of(KernelOp op) { return Ops{1} << static_cast<unsigned>(op); }
constexpr Ops kNone = 0, kGemm = of(KernelOp::gemm), kDecode = of(KernelOp::attention_decode),
              kRotary = of(KernelOp::rotary), kNorm = of(KernelOp::norm), kActivation = of(KernelOp::activation),
              kQuantize = of(KernelOp::quantize), kCopy = of(KernelOp::copy);
constexpr Ops kChunk = of(KernelOp::attention_prefill) | of(KernelOp::attention_backward);
constexpr Ops kAttention = kChunk | kDecode;
constexpr Ops kRows = kNorm | kActivation | kQuantize | of(KernelOp::dequantize) | of(KernelOp::residual_add) |
                      of(KernelOp::softmax) | of(KernelOp::embedding) | of(KernelOp::sampling);
constexpr Ops kAll = kGemm | kAttention | kRotary | kRows | kCopy;

/// One combination of the values of an entry.
struct KernelValues {
  KernelSpec kernel;
  std::optional<DataType> kv_dtype;
  std::uint64_t batch = 1, context_tokens = 0;
};

/// The values of a key that takes one value or a list.
struct Axis {
  std::vector<std::uint64_t> values;
  std::function<void(KernelValues&, std::uint64_t)> set;
};

/// Kernels of one operation: every combination of the values of its axes.
struct KernelItem {
  KernelItem() { each.kernel.tokens = 1; }
  KernelValues each;                           ///< values of keys that take no list, and defaults
  std::map<std::size_t, Axis> axes;            ///< the written ones, by their place in the table of keys
  std::vector<std::uint64_t> contexts_tokens;  ///< one value for each sequence of one batch
};

struct KernelSection {
  std::vector<KernelItem> kernels;
};

/// The keys of an entry: each with its field, the operations that require it, and those that accept it.
class KernelKeys {
 public:
  KernelKeys();
  const Record<KernelItem>& record() const { return record_; }
  /// @throws InputError for a key that the operation requires or does not accept
  void check(const KernelItem& item, const std::string& path, const Source& source) const;

 private:
  struct Key {
    const char* name;
    Ops required, accepted;
  };

  /// Members that take one value for all combinations.
  template <class Member>
  Field& one(const char* key, Ops accepted, Member member, const char* doc) {
    keys_.push_back({key, kNone, accepted});
    return record_.add(key, within(&KernelItem::each, member), doc);
  }
  template <class Member>
  Field& numbers(const char* key, Ops required, Ops accepted, Member member, double least, double most,
                 const char* doc) {
    const std::size_t place = keys_.size();
    keys_.push_back({key, required, accepted});
    Field field;
    field.range(least, most);
    Field& added = record_.custom(
        key, doc, "integer, list, or {min, max, factor or step}", [least, most] { return numbers_schema(least, most); },
        [place, member, field](KernelItem& item, const Node& node, const std::string& path) {
          using Number = std::decay_t<std::invoke_result_t<Member, KernelValues&>>;
          item.axes[place] = {read_numbers(field, node, path), setter<Number>(member)};
        });
    KernelItem defaults;
    const std::uint64_t otherwise = std::invoke(member, defaults.each);
    return otherwise == 0 ? added : added.fallback(std::to_string(otherwise));
  }
  template <class Word, class Member>
  Field& words(const char* key, Ops accepted, Member member, const std::vector<std::string>& names, const char* doc) {
    const std::size_t place = keys_.size();
    keys_.push_back({key, kNone, accepted});
    Field field;
    field.choices = names;
    return record_.custom(
        key, doc, ("one or a list of " + joined(names)).c_str(),
        [names] {
          const json word = {{"enum", names}};
          return json{{"anyOf", {word, list_schema(word)}}};
        },
        [place, member, field](KernelItem& item, const Node& node, const std::string& path) {
          const auto read = [&](const Node& n, const std::string& p) -> std::uint64_t {
            return read_choice(field, n, p);
          };
          item.axes[place] = {node.kind == Node::Kind::sequence ? read_list<std::uint64_t>(node, path, read)
                                                                : std::vector<std::uint64_t>{read(node, path)},
                              setter<Word>(member)};
        });
  }
  template <class Value, class Member>
  static std::function<void(KernelValues&, std::uint64_t)> setter(Member member) {
    return [member](KernelValues& values, std::uint64_t value) {
      std::invoke(member, values) = static_cast<Value>(value);
    };
  }

  Record<KernelItem> record_;
  std::vector<Key> keys_;
};

KernelKeys::KernelKeys() {
  using namespace gpu;
  const std::vector<std::string> types = words_of(kDataTypeNames);
  const auto of_kernel = [](auto member) { return within(&KernelValues::kernel, member); };
  const auto of_heads = [of_kernel](auto member) { return within(of_kernel(&KernelSpec::heads), member); };
  const KernelSpec otherwise;
  record_.choice("op", within(&KernelItem::each, of_kernel(&KernelSpec::op)), words_of(kKernelOpNames), "the operation")
      .required();
  words<KernelLaunch>(
      "launch", kAll, of_kernel(&KernelSpec::launch), words_of(kKernelLaunchNames),
      "how the kernel is started. graph: a CUDA graph; stream: a stream that the host keeps filled; host: a framework "
      "call per kernel; synchronous: a framework that waits for each kernel")
      .fallback(name_of(otherwise.launch));
  words<DataType>("dtype", kGemm | kAttention | kRotary | kRows, of_kernel(&KernelSpec::dtype), types,
                  "number format of operands and elements; quantize: of the result, dequantize: of the operand")
      .fallback(std::string(name_of(otherwise.dtype)));
  numbers("m", kGemm, kNone, of_kernel(&KernelSpec::m), 1, kMostElements, "gemm: rows of the result (tokens)");
  numbers("n", kGemm, kNone, of_kernel(&KernelSpec::n), 1, kMostElements, "gemm: columns of the result");
  numbers("k", kGemm, kNone, of_kernel(&KernelSpec::k), 1, kMostElements, "gemm: inner dimension");
  numbers("groups", kNone, kGemm, of_kernel(&KernelSpec::groups), 1, 1 << 20,
          "gemm: number of equal products in one launch (experts, or a batch)");
  words<DataType>("result_dtype", kGemm, of_kernel(&KernelSpec::result_dtype), types,
                  "gemm: number format of the result")
      .fallback("dtype, but not below 16 bits");
  numbers("weight_copies", kNone, kGemm, of_kernel(&KernelSpec::weight_copies), 0, 1 << 20,
          "gemm: number of weight matrices that kernels use in turn; they stay in L2 if they fit; 0: weights are never "
          "in L2")
      .fallback("0");
  one("accumulate", kGemm, of_kernel(&KernelSpec::accumulate), "gemm: the product is added to what the result holds");
  words<GemmLibrary>(
      "gemm_library", kGemm, of_kernel(&KernelSpec::gemm_library), words_of(kGemmLibraryNames),
      "gemm: whose kernel runs. cublas: the fastest tile and split of K; deepgemm: DeepGEMM's choice, "
      "for fp8 on Hopper; groups differ in size, m is their mean; rowwise: fp8 with a scale for each row, "
      "in tiles of 128 x 128")
      .fallback(name_of(otherwise.gemm_library));
  one("l2_flushed", kGemm, of_kernel(&KernelSpec::l2_flushed),
      "gemm: a benchmark wrote over all of L2 before the kernel, so part of what the kernel displaces goes to HBM");
  one("steady", kGemm, of_kernel(&KernelSpec::steady),
      "gemm: the GPU has been at its power limit for long; false: a burst");
  numbers("heads", kAttention | kRotary, kNone, of_heads(&AttentionHeads::query), 1, 65536,
          "attention, rotary: query heads");
  numbers("kv_heads", kNone, kAttention | kRotary, of_heads(&AttentionHeads::kv), 1, 65536,
          "attention, rotary: KV heads")
      .fallback("as heads");
  numbers("head_dim", kAttention | kRotary, kNone, of_heads(&AttentionHeads::dim), 1, 65536,
          "attention, rotary: size of a head");
  numbers("value_dim", kNone, kAttention, of_heads(&AttentionHeads::value_dim), 1, 65536,
          "attention: size of a value vector")
      .fallback("head_dim");
  one("latent", kAttention, of_heads(&AttentionHeads::latent),
      "attention: values are the first value_dim numbers of the keys (MLA)");
  words<DataType>("kv_dtype", kAttention | kRotary, &KernelValues::kv_dtype, types,
                  "attention, rotary: number format of the KV cache")
      .fallback("dtype");
  words<AttentionLibrary>("library", kAttention, of_heads(&AttentionHeads::library), words_of(kAttentionLibraryNames),
                          "attention: whose kernel runs. flash: FlashAttention; trtllm: TensorRT-LLM; cudnn: cuDNN on "
                          "Hopper, FlashAttention elsewhere")
      .fallback(name_of(otherwise.heads.library));
  one("causal", kChunk, of_kernel(&KernelSpec::causal),
      "attention_prefill, attention_backward: a token sees only earlier tokens and itself");
  one("split_context", kDecode, of_kernel(&KernelSpec::split_context),
      "attention_decode: several thread blocks share a long context");
  one("kv_in_l2", kDecode, of_kernel(&KernelSpec::kv_in_l2),
      "attention_decode: the kernel before it read the same KV cache, which is still in L2 as far as it fits");
  numbers("batch", kNone, kAttention, &KernelValues::batch, 1, 65536, "attention: number of sequences");
  numbers("tokens", kChunk | kRotary | kRows, kDecode, of_kernel(&KernelSpec::tokens), 1, kMostElements,
          "number of rows; attention: new tokens of each sequence")
      .fallback("attention_decode: 1");
  numbers("context_tokens", kNone, kAttention, &KernelValues::context_tokens, 0, kMostElements,
          "attention: tokens of each sequence before the new ones")
      .fallback("0");
  keys_.push_back({"contexts_tokens", kNone, kAttention});
  record_.custom(
      "contexts_tokens", "attention: context_tokens of each sequence if they differ; replaces batch and context_tokens",
      "list of integers",
      [] {
        return list_schema({{"type", "integer"}, {"minimum", 0}, {"maximum", kMostElements}});
      },
      [](KernelItem& item, const Node& node, const std::string& path) {
        Field tokens;
        tokens.range(0, kMostElements);
        item.contexts_tokens = read_list<std::uint64_t>(
            node, path, [&](const Node& n, const std::string& p) { return read_integer(tokens, n, p); });
      });
  numbers("width", kRows, kNone, of_kernel(&KernelSpec::width), 1, kMostElements,
          "elements of a row: hidden size, MLP width, vocabulary");
  numbers("bytes", kCopy, kNone, of_kernel(&KernelSpec::bytes), 1, kMostCopy,
          "copy: bytes, read once and written once");
  numbers("threads", kNone, kCopy, of_kernel(&KernelSpec::threads), 0, kMostElements,
          "copy: threads on the whole GPU, each with one load in flight; 0: enough to hide the memory's latency")
      .fallback("0");
  one("residual", kNorm, of_kernel(&KernelSpec::residual), "norm: also adds and writes back the residual stream");
  one("gated", kActivation, of_kernel(&KernelSpec::gated), "activation: two inputs per result (SwiGLU, GeGLU)");
  one("dynamic", kQuantize, of_kernel(&KernelSpec::dynamic), "quantize: first finds the scale of the tensor");
  one("kv_cache", kRotary, of_kernel(&KernelSpec::kv_cache), "rotary: also writes keys and values to the cache");
  one("load_bytes", kNorm | kActivation | kRotary | kCopy | of(KernelOp::softmax), of_kernel(&KernelSpec::load_bytes),
      "norm, activation, softmax, rotary, copy: bytes per load of a thread; 2 in scalar 16-bit kernels")
      .range(1, 64);
  one("cold", kRows | kRotary | kCopy, of_kernel(&KernelSpec::cold),
      "all except gemm and attention: operands and results are in HBM; false: L2 may hold them");
  one("host_us", kAll, of_kernel(&KernelSpec::host_us), "launch host, synchronous: time of a framework call")
      .range(0, 1e6);
}

void KernelKeys::check(const KernelItem& item, const std::string& path, const Source& source) const {
  const KernelOp operation = item.each.kernel.op;
  const std::string op = std::string(" op: ") + name_of(operation);
  const auto is_written = [&](const char* key) {
    return value_at(source.root, "workload." + path + "." + key) != nullptr;
  };
  for (const Key& key : keys_) {
    if (is_written(key.name) && ((key.required | key.accepted) & of(operation)) == 0)
      refuse_workload(source, path + "." + key.name, "is not accepted with" + op);
    if (!is_written(key.name) && (key.required & of(operation)) != 0)
      refuse_workload(source, path, std::string(key.name) + " is required by" + op);
  }
  if (item.contexts_tokens.empty()) return;
  for (const char* key : {"batch", "context_tokens"})
    if (is_written(key))
      refuse_workload(source, path + "." + key, "cannot be combined with contexts_tokens; set only one of them");
}

const KernelKeys& kernel_keys() {
  static const KernelKeys keys;
  return keys;
}

Record<KernelSection> kernel_record() {
  Record<KernelSection> r;
  r.list("kernels", &KernelSection::kernels, kernel_keys().record(),
         "kernels on the first GPU of every group, one after the other; keys with several values give all combinations")
      .required();
  return r;
}

/// Every GPU must have a tensor rate for the data type of a GEMM, and the library a kernel.
void check_type(const KernelSpec& k, const std::string& path, const platforms::MachineSpec& machine,
                const Source& source) {
  if (k.op != KernelOp::gemm) return;
  for (const platforms::GroupSpec& group : machine.groups) {
    if (group.gpu.sm.flop_per_clock[static_cast<std::size_t>(k.dtype)] <= 0)
      refuse_workload(source, path + ".dtype", no_tensor_rate(group.gpu, k.dtype));
    if (!gpu::library_runs(group.gpu, k))
      refuse_workload(source, path + ".gemm_library",
                      std::string(name_of(k.gemm_library)) + " is known for fp8" +
                          (k.gemm_library == gpu::GemmLibrary::deepgemm ? " on Hopper" : "") + "; this is " +
                          std::string(name_of(k.dtype)) + " on " + name_of(group.gpu.architecture) + " (" +
                          group.gpu.name + "); accepted here: cublas");
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

/// The combination with this number. The last key of the table varies fastest.
KernelSpec combination(const KernelItem& item, std::uint64_t number) {
  KernelValues values = item.each;
  for (auto axis = item.axes.rbegin(); axis != item.axes.rend(); ++axis) {
    const Axis& a = axis->second;
    a.set(values, a.values[number % a.values.size()]);
    number /= a.values.size();
  }
  KernelSpec& kernel = values.kernel;
  if (kernel.heads.kv == 0) kernel.heads.kv = kernel.heads.query;
  kernel.heads.kv_dtype = values.kv_dtype.value_or(kernel.dtype);
  if (of(kernel.op) & kAttention) {
    kernel.sequences.assign(values.batch, {kernel.tokens, values.context_tokens});
    if (!item.contexts_tokens.empty()) kernel.sequences.clear();
    for (const std::uint64_t each : item.contexts_tokens) kernel.sequences.push_back({kernel.tokens, each});
  }
  return kernel;
}

/// The number of combinations, limited to kMostKernels + 1.
std::uint64_t combinations(const KernelItem& item) {
  std::uint64_t count = 1;
  for (const auto& [place, axis] : item.axes)
    count = std::min<std::uint64_t>(kMostKernels + 1, count * axis.values.size());
  return count;
}

KernelBenchSpec resolve_kernel(const KernelSection& written, const Setting& setting) {
  const platforms::MachineSpec& machine = setting.machine;
  const Source& source = setting.source;
  if (written.kernels.empty()) refuse_workload(source, "kernels", "is empty; accepted: at least one kernel");
  KernelBenchSpec spec;
  std::uint64_t sequences = 0;
  for (std::uint32_t i = 0; i < written.kernels.size(); ++i) {
    const KernelItem& item = written.kernels[i];
    const std::string path = "kernels." + std::to_string(i);
    kernel_keys().check(item, path, source);
    const std::uint64_t count = combinations(item);
    if (spec.kernels.size() + count > kMostKernels)
      refuse_workload(source, path, "brings the scenario to more than " + std::to_string(kMostKernels) + " kernels");
    for (std::uint64_t c = 0; c < count; ++c) {
      spec.kernels.push_back(combination(item, c));
      check_type(spec.kernels.back(), path, machine, source);
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

Kind kernel_kind() {
  Kind kind = kind_of("kernel", kernel_record(), resolve_kernel);
  kind.gpus_alone = true;
  return kind;
}

}  // namespace railyard::scenario
