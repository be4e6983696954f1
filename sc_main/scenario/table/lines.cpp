#include "sc_main/scenario/table/lines.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

Lines::Lines(const std::string& path, const std::string& key, const Origin& where) : path_(path) {
  std::error_code error;
  const std::string subject = key + ": cannot read " + in_quotes(path) + ": ";
  if (path.find('\0') != std::string::npos) throw InputError(where, subject + "a NUL byte in its name");
  if (std::filesystem::is_directory(path, error)) throw InputError(where, subject + "it is a directory");
  stream_.open(path, std::ios::binary);
  if (!stream_) throw InputError(where, subject + std::strerror(errno));
}

bool Lines::next(std::string& line) {
  while (stream_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size())) || stream_.gcount() > 0) {
    place_ = {end_, place_.line + 1};
    end_ += static_cast<std::uint64_t>(stream_.gcount());
    if (stream_.fail()) throw error("the line is longer than " + std::to_string(buffer_.size() - 1) + " bytes");
    line = buffer_.data();
    if (place_.line == 1 && line.compare(0, 3, "\xef\xbb\xbf") == 0) line.erase(0, 3);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) return true;
  }
  return false;
}

InputError Lines::error(const std::string& message, int column) const {
  return InputError({path_, std::max(place_.line, 1), column}, message);
}

void Lines::go_to(const Place& place) {
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(place.offset));
  place_.line = place.line - 1;
  end_ = place.offset;
}

namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',')
      cells.emplace_back();
    else
      cells.back() += c;
  }
  return cells;
}

}  // namespace

CsvColumns::CsvColumns(Lines& lines, const std::vector<std::string>& names, const std::string& what) : lines_(lines) {
  std::string line;
  if (!lines.next(line)) throw lines.error("the " + what + " is empty");
  const std::vector<std::string> header = split(line);
  width_ = header.size();
  for (const std::string& name : names) {
    places_.push_back(static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin()));
    if (places_.back() == width_) throw lines.error("no column " + name + "; the header is " + in_quotes(line));
  }
}

bool CsvColumns::next(std::vector<std::string>& cells) {
  std::string line;
  if (!lines_.next(line)) return false;
  std::vector<std::string> all = split(line);
  if (all.size() != width_) {
    throw lines_.error("expected " + std::to_string(width_) + " columns as in the header, got " +
                       std::to_string(all.size()));
  }
  cells.clear();
  for (const std::size_t place : places_) cells.push_back(std::move(all[place]));
  return true;
}

}  // namespace railyard::scenario
