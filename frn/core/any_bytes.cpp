#include "frn/core/any_bytes.h"

#include <cstdint>

namespace frn {
namespace {

// U+10FF80 to U+10FFFF in UTF-8: F4 8F BE 80 to F4 8F BF BF.
constexpr std::string_view kStrayStart = "\xF4\x8F";
constexpr size_t kStrayLength = 4;

uint8_t byte(char c) { return static_cast<uint8_t>(c); }

bool is_stray(std::string_view character) {
  return character.size() == kStrayLength && character.starts_with(kStrayStart) && byte(character[2]) >= 0xBE;
}

std::string stray(uint8_t value) {
  std::string out(kStrayStart);
  out += static_cast<char>(0xBC | (value >> 6));
  out += static_cast<char>(0x80 | (value & 0x3F));
  return out;
}

uint8_t value_of(std::string_view stray) {
  return static_cast<uint8_t>(((byte(stray[2]) & 0x03) << 6) | (byte(stray[3]) & 0x3F));
}

}  // namespace

// By the table of well-formed sequences in the Unicode standard (3-7): no surrogates, nothing longer than it need be.
size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t first = byte(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  const uint8_t lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(text[1]) < lowest || byte(text[1]) > highest) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string to_unicode(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = character_length(bytes);
    const auto character = bytes.substr(0, length);
    // The private characters themselves count as stray bytes, so that they too come back as they were.
    if (length == 0 || is_stray(character)) {
      for (const char c : length == 0 ? bytes.substr(0, 1) : character) out += stray(byte(c));
    } else {
      out += character;
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string from_unicode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto character = text.substr(0, kStrayLength);
    if (is_stray(character)) {
      out += static_cast<char>(value_of(character));
      text.remove_prefix(kStrayLength);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace frn
