// Rows of a trace that belong together: which rows wait for the answers of which others, and whose prompts begin with which history.
//
// A row's history is the row before it in its session; without a session, the first row for which it waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sc_main/scenario/kinds/trace_rows.h"

namespace railyard::scenario {

class TraceSessions {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  /// @param file  for errors
  explicit TraceSessions(std::string file) : file_(std::move(file)) {}

  /// The next row of the file, which `reader` has read. @throws InputError
  void add(const TraceLink& link, const TraceRow& row, const TraceRows& reader);
  /// All rows have been read, in the order of the file. Those without an arrival get the earliest possible one.
  /// @throws InputError: a row waits for one that is not there, or for itself
  void close(std::vector<TraceRow*> rows, TraceRows::LinkKeys keys);
  /// Rows get other numbers. @param now  by the number so far
  void renumber(const std::vector<std::uint32_t>& now);

  /// No row belongs to another one.
  bool empty() const { return links_.empty(); }
  /// The first row that belongs to another one. @pre not empty()
  Origin place() const;
  /// From 1; 0: the row belongs to no other one.
  std::uint32_t session(std::uint32_t row) const { return links_[row].session; }
  std::uint32_t history(std::uint32_t row) const { return links_[row].history; }
  std::int64_t delay_ns(std::uint32_t row) const { return links_[row].delay_ns; }
  /// Rows for whose answers it waits.
  std::uint32_t awaited(std::uint32_t row) const { return static_cast<std::uint32_t>(links_[row].awaits.size()); }
  /// Rows that wait for its answer, in the order of their numbers.
  const std::vector<std::uint32_t>& followers(std::uint32_t row) const { return links_[row].followers; }

 private:
  struct Link {
    std::uint32_t session = 0, history = kNone;
    std::int32_t line = 0;
    std::int64_t delay_ns = 0;
    std::vector<std::uint32_t> awaits, followers;
  };
  Origin at(std::uint32_t row) const { return {file_, links_[row].line, 1}; }
  void resolve_names(const TraceRows::LinkKeys& keys);
  /// Rows in an order in which each comes after those for which it waits. @throws InputError: there is none
  std::vector<std::uint32_t> order(const TraceRows::LinkKeys& keys) const;

  std::string file_;
  std::uint32_t rows_ = 0;
  std::vector<Link> links_;  ///< by row; none before the first one
  // While rows are read:
  std::map<std::string, std::uint32_t> row_of_name_;
  std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> sessions_;  ///< number, and latest row
  std::vector<std::pair<std::uint32_t, std::vector<std::string>>> named_;  ///< rows, and the names for which they wait
};

}  // namespace railyard::scenario
