// The text of a value change dump, and how it is written to disk.
//
// If a process is killed during a write, the file contains the whole pages that the kernel had accepted. Therefore no
// line crosses the end of a page; a line of blanks fills the rest of a page. So the file ends with a complete line,
// however the run ends. (Lines longer than a page are the exception.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace railyard::probe {

/// The end of a signal's lines: a blank (not for scalars), its identifier code, a line feed.
class VcdCode {
 public:
  VcdCode() = default;
  explicit VcdCode(std::uint32_t number);
  std::string_view text() const { return {text_ + 1, size_ - 2u}; }

 private:
  friend class VcdText;
  char text_[7] = {};
  std::uint8_t size_ = 0;
};

class VcdText {
 public:
  /// @throws std::system_error when the file cannot be created
  explicit VcdText(const std::string& path);
  /// Writes what is left; errors are only reported by close().
  ~VcdText();
  VcdText(const VcdText&) = delete;
  VcdText& operator=(const VcdText&) = delete;

  void raw(std::string_view text);  ///< whole lines
  void stamp(Time when) { end(stamp(begin(1), when)); }

  // To add lines, call begin() with their largest number, then the functions below, each of which returns the position
  // of the next line, and then end().
  char* begin(std::size_t lines) {
    begun_bytes_ = lines * kMostOfLine;
    return room(begun_bytes_);
  }
  char* stamp(char* out, Time when);
  static char* scalar(char* out, bool value, const VcdCode& code);
  static char* vector(char* out, std::uint64_t value, const VcdCode& code);
  char* real(char* out, double value, const VcdCode& code);
  /// White space and unprintable characters are escaped in GTKWave's way.
  char* string(char* out, std::string_view text, const VcdCode& code);
  void end(char* out) { end_ = out; }

  /// Writes the buffer if it holds at least kEnough bytes.
  void may_write() {
    if (kEnough <= static_cast<std::size_t>(end_ - buffer_.data())) write();
  }
  void write(bool more_follows = true);  ///< the next write begins with a stamp
  /// @throws std::system_error when any part of the file could not be written
  void close();

 private:
  static constexpr std::size_t kEnough = 256 * 1024;
  static constexpr std::size_t kMostOfLine = 128;           // except strings
  static const std::array<std::array<char, 8>, 256> kBits;  ///< bits of a byte as text, highest first

  /// A position with room for `bytes` more bytes.
  char* room(std::size_t bytes) {
    if (static_cast<std::size_t>(limit_ - end_) < bytes) grow(bytes);
    return end_;
  }
  void grow(std::size_t bytes);
  static char* add_code(char* out, const VcdCode& code) {
    std::memcpy(out, &code, sizeof code);  // all at once; the next line overwrites the surplus
    return out + code.size_;
  }

  const std::string path_;
  int file_ = -1;
  int error_ = 0;
  std::uint64_t written_ = 0;  ///< bytes of the file
  std::vector<char> buffer_;
  char *end_ = nullptr, *limit_ = nullptr;  ///< end of the text, end of the buffer
  std::size_t begun_bytes_ = 0;             ///< room made by begin()
  /// The last stamp without its low digits, and as text of up to 8 characters.
  std::uint64_t stamp_high_ = 0, stamp_text_ = 0;
  std::size_t stamp_size_ = 0;
  /// Cache of numbers and their texts, by hash: many signals have equal values.
  struct Real {
    double value = 0;
    char text[31] = "r0 ";
    std::uint8_t size = 2;
  };
  std::array<Real, 64> reals_;
};

inline char* VcdText::scalar(char* out, bool value, const VcdCode& code) {
  char* const next = add_code(out, code);
  *out = value ? '1' : '0';  // in place of the blank
  return next;
}

inline char* VcdText::vector(char* out, std::uint64_t value, const VcdCode& code) {
  *out++ = 'b';
  const unsigned digits = 64 - static_cast<unsigned>(__builtin_clzll(value | 1));
  if (digits <= 24) {  // the most frequent case
    value <<= 24 - digits;
    std::memcpy(out, kBits[value >> 16].data(), 8);
    std::memcpy(out + 8, kBits[value >> 8 & 0xff].data(), 8);
    std::memcpy(out + 16, kBits[value & 0xff].data(), 8);
  } else {
    value <<= 64 - digits;
    for (unsigned done = 0; done < digits; done += 8, value <<= 8)
      std::memcpy(out + done, kBits[value >> 56].data(), 8);
  }
  return add_code(out + digits, code);
}

}  // namespace railyard::probe
