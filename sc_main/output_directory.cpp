#include "sc_main/output_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <stdio.h>
#include <unistd.h>
#include <filesystem>

#include "base/input_error.h"
#include "base/output.h"

namespace railyard {

namespace fs = std::filesystem;

namespace {

Origin option(const std::string& target) { return Origin{"--out " + target, 0, 0}; }

std::string partial(const std::string& name) { return fmt::format("{}.partial-{}", name, getpid()); }

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
  working_ = partial(target_);
  std::error_code error;
  for (path = path.parent_path(); !fs::exists(path, error) && path.has_filename(); path = path.parent_path())
    created_.push_back(path.string());
  fs::create_directories(working_, error);
  if (!error) return;
  remove();
  throw InputError(option(target), "cannot create the directory: " + error.message());
}

OutputDirectory::~OutputDirectory() {
  if (!committed_) remove();
}

void OutputDirectory::remove() const {
  std::error_code ignored;
  fs::remove_all(working_, ignored);
  for (const std::string& folder : created_) fs::remove(folder, ignored);  // unless others use it by now
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

OutputFiles::~OutputFiles() {
  std::error_code ignored;
  for (const File& file : files_) fs::remove(file.working, ignored);
}

void OutputFiles::write(const std::string& path, const std::string& content) {
  const std::string working = partial(path);
  write_file(working, content);
  files_.push_back({path, working});
}

void OutputFiles::commit() {
  for (; !files_.empty(); files_.pop_back()) fs::rename(files_.back().working, files_.back().path);
}

}  // namespace railyard
