// Files of lines, such as CSV tables, read line by line with line numbers.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/input_error.h"

namespace railyard::scenario {

class Lines {
 public:
  /// @param key  key in the scenario that names the file; `where` is its position
  /// @throws InputError if the file cannot be read
  Lines(const std::string& path, const std::string& key, const Origin& where);

  /// The next line that is not blank, without its line end; false at the end of the file.
  bool next(std::string& line);
  /// An error at the latest line.
  InputError error(const std::string& message, int column = 1) const;

  struct Place {
    std::uint64_t offset = 0;  ///< of the first byte in the file
    int line = 0;
  };
  /// Place of the latest line.
  Place place() const { return place_; }
  /// The next line will be the one at this place.
  void go_to(const Place& place);

 private:
  static constexpr std::size_t kLongestLine = 1u << 20;

  std::string path_;
  std::ifstream stream_;
  std::vector<char> buffer_ = std::vector<char>(kLongestLine);
  Place place_;
  std::uint64_t end_ = 0;  ///< offset of the byte after the latest line
};

/// Named columns of a CSV table without quotes. Other columns are ignored.
class CsvColumns {
 public:
  /// Reads the header. @throws InputError: no header ("the `what` is empty"), or a missing column
  CsvColumns(Lines& lines, const std::vector<std::string>& names, const std::string& what);
  /// The cells of the next row, in the order of the names; false at the end.
  /// @throws InputError: more or fewer cells than the header
  bool next(std::vector<std::string>& cells);

 private:
  Lines& lines_;
  std::vector<std::size_t> places_;
  std::size_t width_ = 0;
};

}  // namespace railyard::scenario
