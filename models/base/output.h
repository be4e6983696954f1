// How the files of a run are written, so that all failures end alike: "cannot write PATH: No space left on device".
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

namespace railyard {

/// @param error  an error number of the system, 0 if it gave none @throws std::system_error
[[noreturn]] inline void cannot_write(const std::string& path, int error) {
  throw std::system_error(error == 0 ? EIO : error, std::generic_category(), "cannot write " + path);
}

/// Files grow while jobs end, also on other threads, where nobody could handle an error. So the process keeps the first
/// failure: the run ends early, and reports it before its folder counts as complete.
class OutputFailure {
 public:
  /// @param error  an error number of the system, 0 if it gave none
  static void note(const std::string& path, int error) {
    const std::lock_guard lock(mutex_);
    if (noted_) return;
    path_ = path;
    error_ = error;
    noted_ = true;
  }
  static bool noted() { return noted_; }
  /// @throws std::system_error if a failure was noted
  static void check() {
    if (noted_) cannot_write(path_, error_);
  }

 private:
  static inline std::mutex mutex_;
  static inline std::atomic<bool> noted_ = false;
  static inline std::string path_;
  static inline int error_ = 0;
};

/// @return a descriptor of the emptied file @throws std::system_error
inline int open_output(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) cannot_write(path, errno);
  return file;
}

/// @return 0, or the error number if not everything could be written
inline int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Writes a whole file; a part of one does not stay. @throws std::system_error
inline void write_file(const std::string& path, std::string_view text) {
  const int file = open_output(path);
  struct stat status = {};
  const bool is_regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  int error = write_all(file, text);
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0) return;
  if (is_regular) ::unlink(path.c_str());
  cannot_write(path, error);
}

}  // namespace railyard
