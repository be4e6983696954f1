// The directory of --out. All files are written to a temporary directory, which replaces the old one in one step. So a
// reader never sees half of a run, and a failed run keeps the old directory.
#pragma once

#include <string>

namespace railyard {

class OutputDirectory {
 public:
  /// @throws InputError if `target` cannot be created, or contains files that are not the output of a run
  explicit OutputDirectory(const std::string& target);
  /// Removes the temporary directory, unless commit() was called.
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  std::string file(const std::string& name) const { return working_ + "/" + name; }
  /// Replaces the old directory with the new one.
  void commit();

 private:
  std::string target_, working_;
  bool committed_ = false;
};

}  // namespace railyard
