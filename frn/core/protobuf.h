// Protobuf's wire format, as far as files that others read need it: TensorBoard's events and ONNX models. A message is
// a row of fields, each a key (its number, and how its value is stored) and a value; a repeated field comes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace frn::protobuf {

// The longest message that readers take.
inline constexpr uint64_t kLongestMessage = (uint64_t{1} << 31) - 1;

template <typename T>
std::string little_endian(T bits) {
  std::string out;
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((bits >> (8 * i)) & 0xFFU);
  return out;
}

class Message {
 public:
  Message& integer(uint32_t number, int64_t value);
  Message& real(uint32_t number, double value);
  Message& real(uint32_t number, float value);
  Message& bytes(uint32_t number, std::string_view value);
  Message& message(uint32_t number, const Message& value);
  // Bytes that stay where they are: the caller keeps them until the message has been written.
  Message& borrowed(uint32_t number, std::span<const std::byte> value);

  uint64_t size() const { return size_; }
  // What to write, one after the other.
  std::vector<std::span<const std::byte>> pieces() const;
  std::string to_string() const;

 private:
  // Its own bytes, and borrowed ones after them.
  struct Piece {
    std::string own;
    std::span<const std::byte> borrowed;
  };
  void add(std::string_view bytes);

  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

}  // namespace frn::protobuf
