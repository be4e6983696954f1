// All errors in a user's input are reported the same way: one line "file:line:column: error: what is wrong, what is
// accepted".
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "base/printable.h"

namespace railyard {

/// Where a value came from. Lines and columns count from 1; 1:1 if the place is unknown.
/// For a value given on the command line, `file` names the option ("--set workload.prefill.tp=3") and line is 0.
struct Origin {
  std::string file;
  int line = 1;
  int column = 1;

  std::string str() const {
    return line == 0 ? file : file + ":" + std::to_string(line) + ":" + std::to_string(column);
  }
};

/// Invalid input. The executables print what() on one line and exit with status 2.
class InputError : public std::runtime_error {
 public:
  InputError(const Origin& origin, const std::string& message)
      : std::runtime_error(printable(origin.str() + ": error: " + message, kLongest, kLongestWord)) {}

 private:
  static constexpr std::size_t kLongest = 8192,
                               kLongestWord = 1024;  // longer than any likely path or list of keys
};

}  // namespace railyard
