#include "probe/vcd_text.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>

#include "base/output.h"

namespace railyard::probe {
namespace {

// Identifier codes are written in the printable characters from '!' to '~'.
constexpr char kFirstCodeCharacter = '!';
constexpr unsigned kCodeCharacters = 94;

constexpr std::size_t kPage = 4096;  // ends of larger pages are also ends of these pages
constexpr std::size_t kMostOfStamp = 22;
constexpr std::uint64_t kLow = 100'000'000;  // the eight low digits of a stamp; the high digits often stay the same

/// The digits of a number below 10^8, in memory order.
std::uint64_t eight_digits(std::uint64_t value) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  // Each step halves the number of digits per lane. A division is a multiplication and a shift.
  const std::uint64_t fours = value / 10'000 | value % 10'000 << 32;
  const std::uint64_t hundreds = fours * 5243 >> 19 & 0x0000'007f'0000'007f;
  const std::uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
  const std::uint64_t tens = twos * 103 >> 10 & 0x000f'000f'000f'000f;
  return (tens | (twos - 10 * tens) << 8) + 0x3030'3030'3030'3030;
}

/// A line of blanks with the size of a page; its end fills the rest of a page.
const std::array<char, kPage>& blanks() {
  static const std::array<char, kPage> text = [] {
    std::array<char, kPage> t{};
    t.fill(' ');
    t.back() = '\n';
    return t;
  }();
  return text;
}

/// Pieces of one write.
class Pieces {
 public:
  void add(const char* from, std::size_t size) { pieces_.push_back({const_cast<char*>(from), size}); }
  /// A line of blanks with `size` bytes.
  void add_blanks(std::size_t size) { add(blanks().data() + blanks().size() - size, size); }

  /// @return 0, or the error number if not everything could be written
  int write(int file) {
    std::size_t next = 0;
    while (next < pieces_.size()) {
      const std::size_t count = std::min<std::size_t>(pieces_.size() - next, kMost);
      const ssize_t written = ::writev(file, &pieces_[next], static_cast<int>(count));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      auto left = static_cast<std::size_t>(written);
      for (; next < pieces_.size() && pieces_[next].iov_len <= left; ++next) left -= pieces_[next].iov_len;
      if (left == 0) continue;
      pieces_[next].iov_base = static_cast<char*>(pieces_[next].iov_base) + left;
      pieces_[next].iov_len -= left;
    }
    return 0;
  }

 private:
  static constexpr std::size_t kMost = 1024;  // IOV_MAX
  std::vector<iovec> pieces_;
};

}  // namespace

const std::array<std::array<char, 8>, 256> VcdText::kBits = [] {
  std::array<std::array<char, 8>, 256> bits{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned bit = 0; bit < 8; ++bit) bits[byte][bit] = (byte >> (7 - bit) & 1) != 0 ? '1' : '0';
  return bits;
}();

VcdCode::VcdCode(std::uint32_t number) {
  text_[size_++] = ' ';
  do {
    text_[size_++] = static_cast<char>(kFirstCodeCharacter + number % kCodeCharacters);
    number /= kCodeCharacters;
  } while (number > 0);
  text_[size_++] = '\n';
}

VcdText::VcdText(const std::string& path) : path_(path), file_(open_output(path)), buffer_(2 * kEnough) {
  end_ = buffer_.data();
  limit_ = end_ + buffer_.size();
}

VcdText::~VcdText() {
  if (file_ < 0) return;
  write(false);
  ::close(file_);
}

void VcdText::raw(std::string_view text) {
  std::memcpy(room(text.size()), text.data(), text.size());
  end_ += text.size();
}

void VcdText::grow(std::size_t bytes) {
  const auto size = static_cast<std::size_t>(end_ - buffer_.data());
  buffer_.resize(2 * (size + bytes));
  end_ = buffer_.data() + size;
  limit_ = buffer_.data() + buffer_.size();
}

char* VcdText::stamp(char* out, Time when) {
  *out++ = '#';
  const std::uint64_t high = when.fs() / kLow, low = when.fs() % kLow;
  if (high == 0 || kLow <= high) {
    out = std::to_chars(out, out + kMostOfStamp, when.fs()).ptr;
  } else {
    if (high != stamp_high_) {
      const std::uint64_t text = eight_digits(high);
      const unsigned zeros = static_cast<unsigned>(__builtin_ctzll(text & 0x0f0f'0f0f'0f0f'0f0f)) / 8;
      stamp_high_ = high;
      stamp_text_ = text >> (8 * zeros);
      stamp_size_ = 8 - zeros;
    }
    std::memcpy(out, &stamp_text_, sizeof stamp_text_);
    out += stamp_size_;
    const std::uint64_t text = eight_digits(low);
    std::memcpy(out, &text, sizeof text);
    out += sizeof text;
  }
  *out++ = '\n';
  return out;
}

char* VcdText::real(char* out, double value, const VcdCode& code) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  Real& known = reals_[bits * 0x9e37'79b9'7f4a'7c15 >> 58];
  if (std::memcmp(&known.value, &value, sizeof value) != 0) {
    known.value = value;
    const char* end =
        std::to_chars(known.text + 1, std::end(known.text), value).ptr;  // the shortest text that reads back exactly
    known.size = static_cast<std::uint8_t>(end - known.text);
  }
  std::memcpy(out, known.text, sizeof known.text);
  return add_code(out + known.size, code);
}

char* VcdText::string(char* out, std::string_view text, const VcdCode& code) {
  end_ = out;
  out = room(4 * text.size() + begun_bytes_);
  *out++ = 's';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7f && c != '\\') {
      *out++ = c;
    } else {
      *out++ = '\\';
      for (int shift = 6; shift >= 0; shift -= 3) *out++ = static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return add_code(out, code);
}

void VcdText::write(bool more_follows) {
  if (error_ != 0) return;
  Pieces pieces;
  const char* from = buffer_.data();
  auto left = static_cast<std::size_t>(end_ - from);
  while (left > 0) {
    const std::size_t page_left = kPage - written_ % kPage;
    const auto* last = left < page_left ? from + left - 1 : static_cast<const char*>(::memrchr(from, '\n', page_left));
    if (last == nullptr) last = static_cast<const char*>(std::memchr(from, '\n', left));  // longer than a page
    const auto size = static_cast<std::size_t>(last + 1 - from);
    const std::size_t more = size > page_left ? 0 : page_left - size;
    const bool pads = size < left || (more_follows && more < kMostOfStamp);  // the next write begins with a stamp
    pieces.add(from, size);
    if (pads && more > 0) pieces.add_blanks(more);
    written_ += size + (pads ? more : 0);
    from += size;
    left -= size;
  }
  error_ = pieces.write(file_);
  if (error_ != 0) OutputFailure::note(path_, error_);
  end_ = buffer_.data();
}

void VcdText::close() {
  write(false);
  if (::close(file_) != 0 && error_ == 0) error_ = errno;
  file_ = -1;
  if (error_ != 0) cannot_write(path_, error_);
}

}  // namespace railyard::probe
