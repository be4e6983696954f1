// The parameter tables of workload.kind: kernel and layer.
#include "sc_main/scenario/parameters.h"
#include "sc_main/scenario/table/lists.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using nlohmann::json;

namespace {

constexpr double kMostElements = 1 << 30, kMostCopy = 1099511627776, kMostStep = 1 << 20, kMostTokens = 1 << 24;

/// From one value up to another.
struct RangeSection {
  std::uint64_t min = 0, max = 0;
  std::optional<std::uint64_t> factor, step;
};

std::vector<std::uint64_t> read_range(const Field& number, const Node& node, const std::string& path) {
  Record<RangeSection> record;
  record.add("min", &RangeSection::min, "first value").range(number.least, number.most).required();
  record.add("max", &RangeSection::max, "values go up to this").range(number.least, number.most).required();
  record.add("factor", &RangeSection::factor, "from one value to the next; 2 unless there is a step")
      .range(2, kMostStep);
  record.add("step", &RangeSection::step, "from one value to the next").range(1, kMostStep);
  RangeSection range;
  record.read(range, node, path);
  if (range.factor && range.step) throw InputError(node.origin, path + ": has a factor and a step; one of the two");
  if (range.max < range.min)
    throw InputError(node.origin,
                     path + ": max " + std::to_string(range.max) + " is less than min, " + std::to_string(range.min));
  if (range.min == 0 && !range.step)
    throw InputError(node.origin, path + ": no factor leads from 0 to more; give a step");
  std::vector<std::uint64_t> values;
  for (std::uint64_t v = range.min; v <= range.max; v = range.step ? v + *range.step : v * range.factor.value_or(2)) {
    values.push_back(v);
    if (static_cast<double>(values.size()) > kMostListed)
      throw InputError(node.origin, path + ": more than " + number_text(kMostListed) + " values");
  }
  return values;
}

json numbers_schema(double least, double most) {
  const json number = {{"type", "integer"}, {"minimum", least}, {"maximum", most}};
  const json range = {{"type", "object"},
                      {"additionalProperties", false},
                      {"required", {"min", "max"}},
                      {"properties",
                       {{"min", number},
                        {"max", number},
                        {"factor", {{"type", "integer"}, {"minimum", 2}}},
                        {"step", {{"type", "integer"}, {"minimum", 1}}}}}};
  return {{"anyOf", {number, list_schema(number), range}}};
}

Field& add_numbers(Record<KernelItem>& r, const char* key, KernelItem::Numbers KernelItem::*member, double least,
                   double most, const char* doc) {
  Field field;
  field.range(least, most);
  return r.custom(
      key, doc, "integer, list, or {min, max, factor or step}", [least, most] { return numbers_schema(least, most); },
      [member, field](KernelItem& item, const Node& node, const std::string& path) {
        const auto one = [&](const Node& n, const std::string& p) { return read_integer(field, n, p); };
        switch (node.kind) {
          case Node::Kind::sequence: item.*member = read_list<std::uint64_t>(node, path, one); break;
          case Node::Kind::mapping: item.*member = read_range(field, node, path); break;
          default: item.*member = {one(node, path)};
        }
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
  const std::vector<std::string> types(kDataTypeNames.begin(), kDataTypeNames.end());
  Record<Item> r;
  r.choice("op", &Item::op, {kKernelOpNames.begin(), kKernelOpNames.end()}, "the operation").required();
  add_words(r, "launch", &Item::launch, {kKernelLaunchNames.begin(), kKernelLaunchNames.end()},
            "who starts it: a CUDA graph, a stream that the host keeps filled, a framework call after call, or one "
            "that is waited for")
      .fallback("graph");
  add_words(r, "dtype", &Item::dtype, types, "of operands and elements; quantize: to it, dequantize: from it")
      .fallback("bf16");
  add_numbers(r, "m", &Item::m, 1, kMostElements, "gemm: rows of the result, the tokens");
  add_numbers(r, "n", &Item::n, 1, kMostElements, "gemm: columns of the result");
  add_numbers(r, "k", &Item::k, 1, kMostElements, "gemm: what is summed over");
  add_numbers(r, "groups", &Item::groups, 1, 1 << 20, "gemm: equal products in one launch, experts or a batch")
      .fallback("1");
  add_words(r, "result_dtype", &Item::result_dtype, types, "gemm: of the result")
      .fallback("dtype, but not below 16 bits");
  add_numbers(
      r, "weight_copies", &Item::weight_copies, 0, 1 << 20,
      "gemm: weights that take turns, kernel after kernel, and stay in L2 as far as they fit; 0: always gone from it")
      .fallback("0");
  r.add("split_k", &Item::split_k, "gemm: K may be cut into parts for SMs that would idle").fallback("true");
  r.add("steady", &Item::steady, "gemm: on a GPU that has long been at its power limit, not a burst").fallback("false");
  add_numbers(r, "heads", &Item::heads, 1, 65536, "attention, rotary: query heads");
  add_numbers(r, "kv_heads", &Item::kv_heads, 1, 65536, "attention, rotary: KV heads").fallback("as heads");
  add_numbers(r, "head_dim", &Item::head_dim, 1, 65536, "attention, rotary: of a head");
  add_numbers(r, "value_dim", &Item::value_dim, 1, 65536, "attention: of a value vector").fallback("head_dim");
  r.add("latent", &Item::latent, "attention: values are the first value_dim numbers of the keys (MLA)")
      .fallback("false");
  add_words(r, "kv_dtype", &Item::kv_dtype, types, "attention, rotary: of the KV cache").fallback("dtype");
  r.add("causal", &Item::causal, "attention_prefill, attention_backward: no token sees later ones").fallback("true");
  r.add("split_context", &Item::split_context, "attention_decode: several thread blocks share a long context")
      .fallback("true");
  add_numbers(r, "batch", &Item::batch, 1, 65536, "attention: sequences").fallback("1");
  add_numbers(r, "tokens", &Item::tokens, 1, kMostElements, "rows; attention: new tokens of each sequence")
      .fallback("attention_decode: 1");
  add_numbers(r, "context_tokens", &Item::context_tokens, 0, kMostElements,
              "attention: tokens of each sequence before the new ones")
      .fallback("0");
  r.custom(
      "contexts_tokens",
      "attention: the same where sequences differ, one for each; instead of batch and context_tokens",
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
  add_numbers(r, "bytes", &Item::bytes, 1, kMostCopy, "copy: read once and written once");
  r.add("residual", &Item::residual, "norm: also adds and writes back the residual stream").fallback("false");
  r.add("gated", &Item::gated, "activation: of two inputs each (SwiGLU, GeGLU)").fallback("false");
  r.add("dynamic", &Item::dynamic, "quantize: finds the scale first").fallback("false");
  r.add("kv_cache", &Item::kv_cache, "rotary: also writes keys and values to the cache").fallback("false");
  r.add("load_bytes", &Item::load_bytes,
        "norm, activation, softmax, rotary: that a thread asks for at once; 2 in scalar kernels of 16 bits")
      .range(1, 64)
      .fallback("16");
  r.add("cold", &Item::cold,
        "all but gemm and attention: operands come from HBM and results go there; else L2 may hold them")
      .fallback("false");
  r.add("host_us", &Item::host_us, "launch host, synchronous: what the framework takes for a call")
      .range(0, 1e6)
      .fallback("20");
  return r;
}

}  // namespace

Record<LayerSection> layer_record() {
  using Section = LayerSection;
  Record<Section> r;
  r.choice("phase", &Section::phase, {workload::layer::kPhaseNames.begin(), workload::layer::kPhaseNames.end()},
           "prefill of new tokens, decode of one for each sequence, or training: forward and backward")
      .required();
  r.add("tp", &Section::tp, "tensor-parallel ranks, the first GPUs of the first group; must divide the attention heads")
      .range(1, 1024);
  r.add("batch", &Section::batch, "sequences").range(1, 65536);
  r.add("tokens", &Section::tokens, "prefill, training: new tokens of each sequence").range(1, kMostTokens);
  r.add("context_tokens", &Section::context_tokens, "prefill, decode: tokens of each sequence before the new ones")
      .range(0, kMostTokens);
  r.add("sequence_parallel", &Section::sequence_parallel,
        "prefill, training: norms on tokens / tp, between a gather and a scatter");
  r.choice("library", &Section::library, {"nccl", "vllm", "sglang", "trtllm"}, "whose collectives: as of a collective")
      .fallback("training: nccl, launched from a stream; else vllm, in a CUDA graph");
  return r;
}

Record<KernelSection> kernel_record() {
  Record<KernelSection> r;
  r.list("kernels", &KernelSection::kernels, item_record(),
         "kernels on the first GPU of every group, one after another; keys with several values make every combination")
      .required();
  return r;
}

}  // namespace railyard::scenario
