// Rows of a table, in the order of their instants, and by rank at one instant. In which order jobs of several ranks end at one instant
// depends on how much of a run is composed, so it is not shown.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "sc_main/output_file.h"

namespace railyard {

class OrderedRows {
 public:
  explicit OrderedRows(OutputFile& file) : file_(file) {}
  ~OrderedRows() { write(); }
  OrderedRows(const OrderedRows&) = delete;
  OrderedRows& operator=(const OrderedRows&) = delete;

  /// @param now  not before that of the last row
  void add(Time now, std::uint32_t rank, std::string row) {
    if (now != instant_) write();
    instant_ = now;
    rows_.emplace_back(rank, std::move(row));
  }

 private:
  void write() {
    std::stable_sort(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [rank, row] : rows_) file_.print("{}", row);
    rows_.clear();
  }

  OutputFile& file_;
  Time instant_;
  std::vector<std::pair<std::uint32_t, std::string>> rows_;
};

}  // namespace railyard
