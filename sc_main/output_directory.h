// The directory of --out: everything is written beside it and put in its place in one step, so that a reader never sees half
// of a run and a failed run leaves the old one.
#pragma once

#include <string>

namespace railyard {

class OutputDirectory {
 public:
  /// @throws InputError if `target` cannot be created, or contains files that are not the output of a run
  explicit OutputDirectory(const std::string& target);
  /// Removes what was written, unless commit() was called.
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  std::string file(const std::string& name) const { return working_ + "/" + name; }
  /// Puts the new directory in place of the old one.
  void commit();

 private:
  std::string target_, working_;
  bool committed_ = false;
};

}  // namespace railyard
