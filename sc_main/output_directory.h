// The outputs of a run: the directory of --out, and files outside it. All are written under temporary names, and get
// their names when the run is over. So a reader never sees half of a run, and a failed run keeps the old files.
#pragma once

#include <string>
#include <vector>

namespace railyard {

class OutputDirectory {
 public:
  /// @throws InputError if `target` cannot be created, or contains files that are not the output of a run
  explicit OutputDirectory(const std::string& target);
  /// Removes the temporary directory, and folders above it that were created for it, unless commit() was called.
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  std::string file(const std::string& name) const { return working_ + "/" + name; }
  /// Replaces the old directory with the new one.
  void commit();

 private:
  void remove() const;

  std::string target_, working_;
  std::vector<std::string> created_;  ///< folders above, the innermost first
  bool committed_ = false;
};

/// Files that belong together.
class OutputFiles {
 public:
  OutputFiles() = default;
  /// Removes the files that have no name yet.
  ~OutputFiles();
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;

  /// @throws std::system_error
  void write(const std::string& path, const std::string& content);
  /// Gives all files their names. @throws std::system_error
  void commit();

 private:
  struct File {
    std::string path, working;
  };
  std::vector<File> files_;
};

}  // namespace railyard
