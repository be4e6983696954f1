#include "sc_main/output_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <stdio.h>
#include <unistd.h>
#include <filesystem>

#include "base/input_error.h"

namespace railyard {

namespace fs = std::filesystem;

namespace {

Origin option(const std::string& target) { return Origin{"--out " + target, 0, 0}; }

}  // namespace

OutputDirectory::OutputDirectory(const std::string& target) {
  fs::path path = fs::absolute(target).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  target_ = path.string();
  if (fs::exists(target_)) {
    if (!fs::is_directory(target_)) throw InputError(option(target), "exists and is not a directory");
    if (!fs::is_empty(target_) && !fs::exists(path / "machine.json"))
      throw InputError(option(target),
                       "contains files that are not the output of a run; accepted: a new or an empty directory");
  }
  working_ = fmt::format("{}.partial-{}", target_, getpid());
  std::error_code error;
  fs::create_directories(working_, error);
  if (error) throw InputError(option(target), "cannot create the directory: " + error.message());
}

OutputDirectory::~OutputDirectory() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(working_, ignored);
}

void OutputDirectory::commit() {
  if (!fs::exists(target_)) {
    fs::rename(working_, target_);
  } else if (renameat2(AT_FDCWD, working_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(working_);  // the old directory
  } else {                     // no atomic exchange on this file system: move the old one away first
    const std::string old = working_ + ".old";
    fs::rename(target_, old);
    fs::rename(working_, target_);
    fs::remove_all(old);
  }
  committed_ = true;
}

}  // namespace railyard
