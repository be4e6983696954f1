// A text file that grows during a run. A failure to write is kept in OutputFailure.
#pragma once

#include <fmt/format.h>
#include <iterator>
#include <string>
#include <utility>

namespace railyard {

class OutputFile {
 public:
  /// @throws std::system_error if the file cannot be created
  explicit OutputFile(const std::string& path);
  /// Writes what is left.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Values>(values)...);
    if (buffer_.size() >= kEnough) flush();
  }

 private:
  static constexpr std::size_t kEnough = 1 << 16;  ///< bytes of a write

  void flush();

  const std::string path_;
  const int file_;
  int error_ = 0;
  fmt::memory_buffer buffer_;
};

}  // namespace railyard
