#include "sc_main/output_file.h"

#include "base/output.h"

namespace railyard {

OutputFile::OutputFile(const std::string& path) : path_(path), file_(open_output(path)) {}

OutputFile::~OutputFile() {
  flush();
  if (::close(file_) != 0 && error_ == 0) OutputFailure::note(path_, errno);
}

void OutputFile::flush() {
  if (error_ == 0 && (error_ = write_all(file_, {buffer_.data(), buffer_.size()})) != 0)
    OutputFailure::note(path_, error_);
  buffer_.clear();
}

}  // namespace railyard
