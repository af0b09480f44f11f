// Bytes of files: read whole, and unpacked when gzipped. Without torch, so that fuzzers can build it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace frn::data {

// Memory that nobody fills with zeros first.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(size_t size) : memory_(std::make_unique_for_overwrite<uint8_t[]>(size)), size_(size) {}

  std::span<uint8_t> span() { return {memory_.get(), size_}; }
  std::span<const uint8_t> span() const { return {memory_.get(), size_}; }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  size_t size_ = 0;
};

// Throws frn::Error, as "[operation] path: ...".
[[noreturn]] void fail_file(std::string_view operation, const std::filesystem::path& path, std::string_view sentence);

// The whole file in one read. Throws frn::Error when it is not there, not a file, or longer than `limit`.
Bytes read_file(const std::filesystem::path& path, std::string_view operation, uint64_t limit);

// A text file's lines without their ends; empty ones are left out.
std::vector<std::string> read_lines(const std::filesystem::path& path, std::string_view operation,
                                    uint64_t limit = uint64_t{1} << 20);

bool is_gzip(std::span<const uint8_t> bytes);

struct Unpacked {
  size_t count = 0;    // bytes written
  bool ended = false;  // the packed data ended there, with the right checksum
};
// Unpacks until `out` is full or the data ends, and never needs more memory than that. Throws frn::Error for damage.
Unpacked gunzip(std::span<const uint8_t> packed, std::span<uint8_t> out, std::string_view source);

// No gzip file holds more than that many bytes per byte of its own (RFC 1951: 258 bytes for 2 bits).
inline constexpr uint64_t kMostGzipRatio = 1032;

}  // namespace frn::data
