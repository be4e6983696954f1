// Makes text from outside safe to print: one line of UTF-8 that every terminal and JSON reader accepts. Messages quote
// input only through printable().
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace railyard {

/// Length in bytes of the UTF-8 character at text[at], 1 to 4; 0 if the bytes there are not valid UTF-8 (overlong forms
/// and surrogates are not valid).
inline std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const unsigned least = first == 0xe0   ? 0xa0
                         : first == 0xf0 ? 0x90
                                         : 0x80,
                 most = first == 0xed   ? 0x9f
                        : first == 0xf4 ? 0x8f
                                        : 0xbf;
  if (second < least || second > most) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

/// Whether the character at text[at] moves the cursor, breaks the line or changes the direction of writing.
inline bool is_control(const std::string& text, std::size_t at, std::size_t length) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (length == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (length == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;  // U+0080 to U+009F
  if (length != 3) return false;
  if (byte(0) == 0xef) return byte(1) == 0xbb && byte(2) == 0xbf;  // byte order mark
  if (byte(0) != 0xe2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||  // line separators, directions of writing
         (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
}

/// Text as one line of UTF-8: control characters and invalid bytes appear as \xNN. The text is cut after `longest`
/// bytes and each word after `longest_word` bytes; "..." replaces the rest.
inline std::string printable(const std::string& text, std::size_t longest = std::string::npos,
                             std::size_t longest_word = std::string::npos) {
  static constexpr std::array<char, 17> kDigits{"0123456789abcdef"};
  std::string out;
  std::size_t word = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (out.size() >= longest) return out + "...";
    const std::size_t length = utf8_length(text, at), bytes = length == 0 ? 1 : length;
    word = text[at] == ' ' ? 0 : word + bytes;
    if (word <= longest_word) {
      if (length != 0 && !is_control(text, at, length)) {
        out.append(text, at, length);
      } else {
        for (std::size_t i = 0; i < bytes; ++i) {
          const auto c = static_cast<unsigned char>(text[at + i]);
          out += {'\\', 'x', kDigits[c >> 4], kDigits[c & 0xf]};
        }
      }
    } else if (word - bytes <= longest_word) {
      out += "...";
    }
    at += bytes;
  }
  return out;
}

}  // namespace railyard
