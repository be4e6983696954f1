// The text of a value change dump and its way to the disk.
//
// A process that is killed in the middle of a write leaves as many whole pages of it as the kernel had taken by then.
// Therefore no line crosses the end of a page: where one would, a line of blanks fills the page before it. However a run
// ends, its file ends with a whole line. (A line longer than a page cannot be helped.)
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

/// How a signal's lines end: a blank, its identifier code, a new line; of scalars without the blank.
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
  /// @throws std::runtime_error when the file cannot be created
  explicit VcdText(const std::string& path);
  /// Writes what is left; errors are only reported by close().
  ~VcdText();
  VcdText(const VcdText&) = delete;
  VcdText& operator=(const VcdText&) = delete;

  void raw(std::string_view text);  ///< whole lines
  void stamp(Time when) { end(stamp(begin(1), when)); }

  // Lines are put one behind the other: begin() with how many there may be, then each returns where the next goes, and end().
  char* begin(std::size_t lines) {
    begun_bytes_ = lines * kMostOfLine;
    return room(begun_bytes_);
  }
  char* stamp(char* out, Time when);
  static char* scalar(char* out, bool value, const VcdCode& code);
  static char* vector(char* out, std::uint64_t value, const VcdCode& code);
  char* real(char* out, double value, const VcdCode& code);
  /// With escapes for white space and what a terminal would not print, as GTKWave reads them.
  char* string(char* out, std::string_view text, const VcdCode& code);
  void end(char* out) { end_ = out; }

  /// Writes what there is once that is much.
  void may_write() {
    if (kEnough <= static_cast<std::size_t>(end_ - buffer_.data())) write();
  }
  void write(bool more_follows = true);  ///< what follows begins with a stamp
  /// @throws std::runtime_error when any part of the file could not be written
  void close();

 private:
  static constexpr std::size_t kEnough = 256 * 1024;
  static constexpr std::size_t kMostOfLine = 128;           // but for strings
  static const std::array<std::array<char, 8>, 256> kBits;  ///< of a byte, the highest first

  /// Where that many bytes more can be written.
  char* room(std::size_t bytes) {
    if (static_cast<std::size_t>(limit_ - end_) < bytes) grow(bytes);
    return end_;
  }
  void grow(std::size_t bytes);
  static char* add_code(char* out, const VcdCode& code) {
    std::memcpy(out, &code, sizeof code);  // in one piece, and what follows it goes over its size
    return out + code.size_;
  }

  const std::string path_;
  int file_ = -1;
  int error_ = 0;
  std::uint64_t written_ = 0;  ///< bytes of the file
  std::vector<char> buffer_;
  char *end_ = nullptr, *limit_ = nullptr;  ///< of what is in it, and of itself
  std::size_t begun_bytes_ = 0;             ///< what begin() made room for
  /// The last stamp without its low digits, and as text of up to 8 characters.
  std::uint64_t stamp_high_ = 0, stamp_text_ = 0;
  std::size_t stamp_size_ = 0;
  /// Numbers and their texts, by hash: many signals have the same.
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
  if (digits <= 24) {  // most of them
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
