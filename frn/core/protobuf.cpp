#include "frn/core/protobuf.h"

#include <bit>

namespace frn::protobuf {
namespace {

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7FU) | 0x80U);
  return out + static_cast<char>(value);
}

std::string key(uint32_t number, Wire wire) { return varint((number << 3) | static_cast<uint32_t>(wire)); }

std::string key_and_length(uint32_t number, uint64_t length) { return key(number, Wire::kBytes) + varint(length); }

}  // namespace

void Message::add(std::string_view bytes) {
  if (pieces_.empty() || !pieces_.back().borrowed.empty()) pieces_.emplace_back();
  pieces_.back().own += bytes;
  size_ += bytes.size();
}

Message& Message::integer(uint32_t number, int64_t value) {
  add(key(number, Wire::kVarint) + varint(static_cast<uint64_t>(value)));
  return *this;
}

Message& Message::real(uint32_t number, double value) {
  add(key(number, Wire::kFixed64) + little_endian(std::bit_cast<uint64_t>(value)));
  return *this;
}

Message& Message::real(uint32_t number, float value) {
  add(key(number, Wire::kFixed32) + little_endian(std::bit_cast<uint32_t>(value)));
  return *this;
}

Message& Message::bytes(uint32_t number, std::string_view value) {
  add(key_and_length(number, value.size()));
  add(value);
  return *this;
}

Message& Message::message(uint32_t number, const Message& value) {
  add(key_and_length(number, value.size_));
  for (const auto& piece : value.pieces_) {
    add(piece.own);
    pieces_.back().borrowed = piece.borrowed;
    size_ += piece.borrowed.size();
  }
  return *this;
}

Message& Message::borrowed(uint32_t number, std::span<const std::byte> value) {
  add(key_and_length(number, value.size()));
  pieces_.back().borrowed = value;
  size_ += value.size();
  return *this;
}

std::vector<std::span<const std::byte>> Message::pieces() const {
  std::vector<std::span<const std::byte>> out;
  for (const auto& piece : pieces_) {
    out.push_back(std::as_bytes(std::span(piece.own)));
    if (!piece.borrowed.empty()) out.push_back(piece.borrowed);
  }
  return out;
}

std::string Message::to_string() const {
  std::string out;
  for (const auto& piece : pieces()) out.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return out;
}

}  // namespace frn::protobuf
