#include "sc_main/scenario/execution_traces/simai_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "sc_main/scenario/table/lines.h"
#include "sc_main/scenario/table/words.h"
#include "workload/execution_trace/order.h"

namespace railyard::scenario {

using collective::Operation;

namespace {

constexpr std::uint32_t kMostRows = 10'000'000;
constexpr double kMostBytes = 1ull << 50, kLongestNs = 1.8e13;  // 5 hours, the limit of a run

using Split = SimaiPolicy::Split;
const std::vector<SimaiPolicy>& policies() {
  static const std::vector<SimaiPolicy> all{
      {"HYBRID_TRANSFORMER_FWD_IN_BCKWD", true, true, true, true, false, false, Split::by_head},
      {"HYBRID_TRANSFORMER", true, true, true, true, false, false, Split::by_head},
      {"DATA", true, false, true, false, true, false, Split::all},
      {"MODEL", true, true, false, false, false, false, Split::all},
      {"HYBRID_DATA_MODEL", true, true, true, false, false, false, Split::first_dimension},
      {"HYBRID_MODEL_DATA", true, true, true, false, false, false, Split::other_dimensions},
      {"DISTRIBUTED_INFERENCE", false, true, false, false, false, false, Split::all},
      {"MICRO", true, false, true, false, true, true, Split::all}};
  return all;
}

struct Token {
  std::string text;
  int column = 1;
};

std::vector<Token> tokens_of(const std::string& line) {
  std::vector<Token> tokens;
  bool is_inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool is_space = line[i] == ' ' || line[i] == '\t';
    if (!is_space && !is_inside) tokens.push_back({"", static_cast<int>(i) + 1});
    if (!is_space) tokens.back().text += line[i];
    is_inside = !is_space;
  }
  return tokens;
}

class Reader {
 public:
  Reader(const std::string& path, const Origin& where) : lines_(path, "workload.file", where) { file_.path = path; }

  SimaiFile read() {
    std::string line;
    if (!lines_.next(line)) throw lines_.error("the file is empty");
    read_head(tokens_of(line));
    if (!lines_.next(line)) throw lines_.error("ends after its first line; expected the number of rows");
    const std::vector<Token> count = tokens_of(line);
    if (count.size() != 1) throw lines_.error("expected the number of rows alone in its line");
    const auto rows = static_cast<std::size_t>(number(count[0], "the number of rows", 1, kMostRows));
    while (file_.rows.size() < rows) {
      if (!lines_.next(line)) throw lines_.error(fmt::format("ends after {} of {} rows", file_.rows.size(), rows));
      file_.rows.push_back(row(tokens_of(line)));
    }
    if (lines_.next(line)) throw lines_.error(fmt::format("more rows than the {} of line 2", rows));
    for (const auto* list : {&file_.checkpoints, &file_.initiates})
      for (const std::uint32_t r : *list)
        if (r >= rows)
          throw InputError({file_.path, 1, 1}, fmt::format("checkpoints: no row {}; rows are 0 to {}", r, rows - 1));
    for (const std::uint32_t r : file_.initiates)
      if (file_.checkpoints.empty() || *std::min_element(file_.checkpoints.begin(), file_.checkpoints.end()) > r)
        throw InputError({file_.path, 1, 1}, fmt::format("checkpoint_initiates: no checkpoint before row {}", r));
    return std::move(file_);
  }

 private:
  InputError error(const Token& at, const std::string& what) const { return lines_.error(what, at.column); }

  double number(const Token& token, const std::string& what, double least, double most) const {
    double value = 0;
    const char* const end = token.text.data() + token.text.size();
    const auto [stop, failed] = std::from_chars(token.text.data(), end, value);
    if (failed != std::errc() || stop != end || !std::isfinite(value))
      throw error(token, fmt::format("{}: expected a number, got {}", what, in_quotes(token.text)));
    if (value < least || value > most)
      throw error(token, fmt::format("{}: {} is out of range; accepted: {} to {}", what, token.text, least, most));
    return value;
  }

  void read_head(const std::vector<Token>& head) {
    for (const SimaiPolicy& policy : policies())
      if (head[0].text == policy.name) file_.policy = &policy;
    if (file_.policy == nullptr) {
      std::vector<std::string> names;
      for (const SimaiPolicy& policy : policies()) names.emplace_back(policy.name);
      throw error(head[0], fmt::format("kind {} is not accepted{}; accepted: {}", in_quotes(head[0].text),
                                       suggestion(head[0].text, names), joined(names)));
    }
    constexpr double kMost = 1 << 20;
    std::size_t i = 1;
    const auto value = [&](double least, double most) {
      const std::string what = head[i].text;
      if (++i >= head.size()) throw lines_.error(what + " has no value", head[i - 1].column);
      return number(head[i], what, least, most);
    };
    const auto whole = [&] { return static_cast<std::uint32_t>(value(1, kMost)); };
    const auto list = [&](std::vector<std::uint32_t>& rows) {
      const auto count = static_cast<std::size_t>(value(0, kMostRows));
      for (std::size_t n = 0; n < count; ++n) {
        if (++i >= head.size())
          throw lines_.error(fmt::format("ends after {} of {} rows", n, count), head[i - 1].column);
        rows.push_back(static_cast<std::uint32_t>(number(head[i], "a row", 0, kMostRows)));
      }
    };
    for (; i < head.size(); ++i) {
      std::string key = head[i].text;
      if (!key.empty() && key.back() == ':') key.pop_back();
      if (key == "model_parallel_NPU_group") {
        file_.tp = whole();
      } else if (key == "ep" || key == "expert_parallel_npu_group") {
        file_.ep = whole();
      } else if (key == "pp") {
        file_.pp = whole();
      } else if (key == "vpp") {
        file_.vpp = whole();
      } else if (key == "ga") {
        file_.ga = whole();
      } else if (key == "all_gpus") {
        file_.all_gpus = whole();
      } else if (key == "pp_comm") {
        file_.pp_bytes = static_cast<Bytes>(value(0, kMostBytes));
      } else if (key == "checkpoints") {
        list(file_.checkpoints);
      } else if (key == "checkpoint_initiates") {
        list(file_.initiates);
      } else {
        const std::vector<std::string> keys{
            "model_parallel_NPU_group", "ep", "pp", "vpp", "ga", "all_gpus", "pp_comm", "checkpoints",
            "checkpoint_initiates"};
        throw error(head[i],
                    fmt::format("unknown key {}{}; accepted: {}", in_quotes(key), suggestion(key, keys), joined(keys)));
      }
    }
    if (file_.pp > 1 && file_.pp_bytes == 0)
      throw lines_.error(fmt::format("pp is {}, so pp_comm must be above 0: bytes between stages", file_.pp));
  }

  SimaiWork work(const Token& compute, const Token& collective, const Token& bytes) const {
    SimaiWork work;
    work.compute = Time::nanoseconds(number(compute, "a compute time in ns", 0, kLongestNs));
    std::string word = collective.text;
    const auto ends = [&](const std::string& ending) {
      if (word.size() <= ending.size() || word.compare(word.size() - ending.size(), ending.size(), ending) != 0)
        return false;
      word.resize(word.size() - ending.size());
      return true;
    };
    work.group = ends("_DP_EP") ? SimaiGroup::dp_ep : ends("_EP") ? SimaiGroup::ep : SimaiGroup::usual;
    static const std::vector<std::string> words{"ALLREDUCE", "ALLGATHER", "REDUCESCATTER",
                                                "BROADCAST", "ALLTOALL",  "NONE"};
    constexpr std::array<Operation, 5> kOperations{Operation::all_reduce, Operation::all_gather,
                                                   Operation::reduce_scatter, Operation::broadcast,
                                                   Operation::all_to_all};
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end())
      throw error(collective, fmt::format("collective {} is not accepted{}; accepted: {}, with _EP or _DP_EP",
                                          in_quotes(collective.text), suggestion(word, words), joined(words)));
    work.bytes = static_cast<Bytes>(number(bytes, "a number of bytes", 0, kMostBytes));
    if (*found == "NONE" || work.bytes == 0) {
      work.bytes = 0;
      work.group = SimaiGroup::usual;
      return work;
    }
    work.operation = kOperations[static_cast<std::size_t>(found - words.begin())];
    return work;
  }

  SimaiRow row(const std::vector<Token>& tokens) const {
    constexpr std::size_t kColumns = 12;
    if (tokens.size() != kColumns)
      throw lines_.error(fmt::format("a row has {} columns, got {}", kColumns, tokens.size()));
    SimaiRow row;
    row.name = workload::execution_trace::plain_name(tokens[0].text);
    row.line = lines_.place().line;
    number(tokens[1], "a dependency", -1e9, 1e9);  // no simulator of this format reads it
    row.forward = work(tokens[2], tokens[3], tokens[4]);
    row.input_gradient = work(tokens[5], tokens[6], tokens[7]);
    row.weight_gradient = work(tokens[8], tokens[9], tokens[10]);
    row.update = Time::nanoseconds(number(tokens[11], "an update time in ns", 0, kLongestNs));
    return row;
  }

  Lines lines_;
  SimaiFile file_;
};

}  // namespace

SimaiFile read_simai(const std::string& path, const Origin& where) { return Reader(path, where).read(); }

}  // namespace railyard::scenario
