#include "workload/training/schedule/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/input_error.h"
#include "workload/training/schedule/check.h"
#include "workload/training/schedule/slots.h"

namespace railyard::workload::training {

namespace {

/// Virtual stages by rank that holds them, in the order of the model.
std::vector<std::vector<std::uint32_t>> stages_by_rank(std::uint32_t ranks, const std::vector<std::uint32_t>& rank_of) {
  std::vector<std::vector<std::uint32_t>> stages(ranks);
  for (std::uint32_t stage = 0; stage < rank_of.size(); ++stage) stages[rank_of[stage]].push_back(stage);
  return stages;
}

std::vector<std::uint32_t> dealt_out(std::uint32_t ranks, std::uint32_t stages) {
  std::vector<std::uint32_t> rank_of(stages);
  for (std::uint32_t stage = 0; stage < stages; ++stage) rank_of[stage] = stage % ranks;
  return rank_of;
}

}  // namespace

std::string table_of(const Schedule& schedule, const std::string& comment) {
  const auto held = stages_by_rank(schedule.ranks(), schedule.rank_of);
  std::vector<std::vector<std::string>> lines(schedule.ranks());
  std::size_t width = 0;
  for (std::uint32_t rank = 0; rank < schedule.ranks(); ++rank) {
    for (const Slot& slot : schedule.slots[rank]) {
      std::string token = fmt::format("{}{}", letter_of(slot.kind), slot.micro_batch);
      if (held[rank].size() > 1)
        token += fmt::format("v{}", std::find(held[rank].begin(), held[rank].end(), slot.stage) - held[rank].begin());
      width = std::max(width, token.size());
      lines[rank].push_back(std::move(token));
    }
  }

  std::string text = "# " + comment + "\n";
  if (schedule.rank_of != dealt_out(schedule.ranks(), schedule.stages()))
    text += fmt::format("holders: {}\n", fmt::join(schedule.rank_of, " "));
  const std::size_t digits = std::to_string(schedule.ranks() - 1).size();
  for (std::uint32_t rank = 0; rank < schedule.ranks(); ++rank) {
    text += fmt::format("{:<{}}", fmt::format("rank {}:", rank), digits + 6);
    for (const std::string& token : lines[rank]) text += fmt::format(" {:<{}}", token, width);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

namespace {

class Reader {
 public:
  Reader(const std::string& file, std::uint32_t ranks, std::uint32_t micro_batches)
      : file_(file), ranks_(ranks), micro_batches_(micro_batches), lines_(ranks) {}

  Schedule read(const std::string& text) {
    std::istringstream stream(text);
    std::string line;
    for (number_ = 1; std::getline(stream, line); ++number_) {
      line.erase(std::min(line.find('#'), line.size()));
      read_line(line);
    }
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      if (!lines_[rank].line)
        throw InputError({file_},
                         fmt::format("the line 'rank {}:' is missing; the pipeline has {} ranks", rank, ranks_));
    return schedule();
  }

 private:
  struct Token {
    SlotKind kind = SlotKind::forward;
    std::uint32_t micro_batch = 0;
    std::optional<std::uint32_t> chunk;  ///< which of the rank's virtual stages
    Origin origin;
  };
  struct Line {
    std::optional<int> line;
    std::vector<Token> tokens;
    Origin end;
  };

  Origin at(std::size_t column) const { return {file_, number_, static_cast<int>(column) + 1}; }

  /// @return the next word from `column` on, and moves the column behind it; empty at the end
  static std::string word(const std::string& line, std::size_t& column) {
    constexpr const char* kBlanks = " \t\r";
    column = std::min(line.find_first_not_of(kBlanks, column), line.size());
    const std::size_t end = std::min(line.find_first_of(kBlanks, column), line.size());
    const std::string found = line.substr(column, end - column);
    column = end;
    return found;
  }

  void read_line(const std::string& line) {
    std::size_t column = 0;
    const std::string first = word(line, column);
    if (first.empty()) return;
    const Origin start = at(column - first.size());
    if (first == "holders:") return read_holders(line, column, start);
    const std::string second = first == "rank" ? word(line, column) : "";
    std::uint32_t rank = 0;
    if (second.empty() || second.back() != ':' || !read_number(second.data(), second.data() + second.size() - 1, rank))
      throw InputError(start, fmt::format("'{}' begins no line of a schedule; accepted: 'rank N: ...', 'holders: ...', "
                                          "'# comment'",
                                          first));
    if (rank >= ranks_)
      throw InputError(start, fmt::format("there is no rank {}; the pipeline has ranks 0 to {}", rank, ranks_ - 1));
    Line& target = lines_[rank];
    if (target.line) throw InputError(start, fmt::format("rank {} is in line {} already", rank, *target.line));
    target.line = number_;
    for (std::string text = word(line, column); !text.empty(); text = word(line, column))
      target.tokens.push_back(token(text, at(column - text.size())));
    target.end = at(column);
  }

  void read_holders(const std::string& line, std::size_t column, const Origin& start) {
    if (holders_) throw InputError(start, "holders are given twice");
    holders_.emplace();
    for (std::string text = word(line, column); !text.empty(); text = word(line, column)) {
      std::uint32_t rank = 0;
      if (!read_number(text.data(), text.data() + text.size(), rank) || rank >= ranks_)
        throw InputError(at(column - text.size()),
                         fmt::format("'{}' is not a rank; accepted: 0 to {}", text, ranks_ - 1));
      holders_->push_back(rank);
    }
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      if (std::find(holders_->begin(), holders_->end(), rank) == holders_->end())
        throw InputError(start, fmt::format("rank {} holds no virtual stage; the pipeline has {} ranks", rank, ranks_));
  }

  /// Reads all characters as a number.
  static bool read_number(const char* begin, const char* end, std::uint32_t& number) {
    const auto [stop, error] = std::from_chars(begin, end, number);
    return error == std::errc() && stop == end;
  }

  static Token token(const std::string& text, const Origin& origin) {
    Token token;
    token.origin = origin;
    const std::size_t v = std::min(text.find('v'), text.size());
    bool is_good = read_kind(text[0], token.kind) && read_number(text.data() + 1, text.data() + v, token.micro_batch);
    if (is_good && v < text.size())
      is_good = read_number(text.data() + v + 1, text.data() + text.size(), token.chunk.emplace());
    if (is_good) return token;
    throw InputError(origin,
                     fmt::format("'{}' is not a slot; accepted: F, B, I or W, the micro-batch, and on ranks with "
                                 "several virtual stages v and which of them: F3, W12v1",
                                 text));
  }
  static bool read_kind(char letter, SlotKind& kind) {
    for (const SlotKind k :
         {SlotKind::forward, SlotKind::backward, SlotKind::backward_inputs, SlotKind::backward_weights}) {
      if (letter_of(k) != letter) continue;
      kind = k;
      return true;
    }
    return false;
  }

  Schedule schedule() const {
    Schedule schedule;
    schedule.micro_batches = micro_batches_;
    schedule.rank_of = holders_ ? *holders_ : dealt_out(ranks_, ranks_ * chunks());
    schedule.slots.resize(ranks_);
    const auto held = stages_by_rank(ranks_, schedule.rank_of);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      for (const Token& token : lines_[rank].tokens)
        schedule.slots[rank].push_back({token.kind, stage_of(token, rank, held[rank]), token.micro_batch});
    if (const auto fault = fault_of(schedule)) {
      const Line& line = lines_[fault->rank];
      throw InputError(fault->position < line.tokens.size() ? line.tokens[fault->position].origin : line.end,
                       fault->text);
    }
    return schedule;
  }
  /// Virtual stages of each rank if there are no holders.
  std::uint32_t chunks() const {
    std::uint32_t chunks = 1;
    for (const Line& line : lines_) {
      for (const Token& token : line.tokens) {
        const std::uint32_t chunk = token.chunk.value_or(0);
        if (chunk >= line.tokens.size())
          throw InputError(token.origin,
                           fmt::format("v{} is too large: the rank has {} slots", chunk, line.tokens.size()));
        chunks = std::max(chunks, chunk + 1);
      }
    }
    return chunks;
  }
  static std::uint32_t stage_of(const Token& token, std::uint32_t rank, const std::vector<std::uint32_t>& held) {
    if (!token.chunk && held.size() > 1)
      throw InputError(token.origin,
                       fmt::format("rank {} holds {} virtual stages, so the slot must name one: v0 to v{}", rank,
                                   held.size(), held.size() - 1));
    const std::uint32_t chunk = token.chunk.value_or(0);
    if (chunk >= held.size())
      throw InputError(token.origin, fmt::format("rank {} holds no virtual stage v{}; accepted: v0 to v{}", rank, chunk,
                                                 held.size() - 1));
    return held[chunk];
  }

  const std::string& file_;
  std::uint32_t ranks_, micro_batches_;
  int number_ = 1;  ///< of the line
  std::optional<std::vector<std::uint32_t>> holders_;
  std::vector<Line> lines_;  ///< by rank
};

}  // namespace

Schedule read_table(const std::string& text, const std::string& file, std::uint32_t ranks,
                    std::uint32_t micro_batches) {
  return Reader(file, ranks, micro_batches).read(text);
}

}  // namespace railyard::workload::training
