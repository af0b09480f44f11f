#include "frn/data/idx.h"

#include <algorithm>
#include <array>
#include <utility>

namespace frn::data {
namespace {

constexpr std::string_view kIdxOperation = "idx";
constexpr uint8_t kUnsignedBytes = 8;
constexpr size_t header_size(size_t dimensions) { return 4 + 4 * dimensions; }
constexpr size_t kLongestHeader = header_size(3);

[[noreturn]] void fail(std::string_view source, const std::string& sentence) {
  fail_file(kIdxOperation, source, sentence);
}

// The shape, after the header was found to be that of unsigned bytes with so many dimensions.
std::vector<int64_t> shape_of(std::span<const uint8_t> header, size_t dimensions, std::string_view source) {
  if (header.size() < header_size(dimensions)) {
    fail(source, "it must be an IDX file but ends within the header, after " + std::to_string(header.size()) +
                     " bytes; fetch it again");
  }
  if (header[0] != 0 || header[1] != 0 || header[2] != kUnsignedBytes || header[3] != dimensions) {
    std::string found;
    for (size_t i = 0; i < 4; ++i) found += (i > 0 ? " " : "") + std::to_string(header[i]);
    fail(source, "it must start with the bytes 0 0 8 " + std::to_string(dimensions) + " (IDX, unsigned bytes, " +
                     std::to_string(dimensions) + " dimensions) but starts with " + found);
  }
  std::vector<int64_t> shape;
  for (size_t i = 4; i < header_size(dimensions); i += 4) {
    shape.push_back((int64_t{header[i]} << 24) | (header[i + 1] << 16) | (header[i + 2] << 8) | header[i + 3]);
  }
  return shape;
}

// At most `most`, which is checked before anything is allocated.
size_t value_count(std::span<const int64_t> shape, uint64_t most, std::string_view source) {
  uint64_t count = 1;
  for (const auto size : shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(size), &count) || count > most) {
      fail(source, "its header promises more values than a file of its length can hold; fetch it again");
    }
  }
  return count;
}

[[noreturn]] void fail_count(size_t told, const std::string& held, std::string_view source) {
  fail(source, "its header promises " + std::to_string(told) + " values but it holds " + held + "; fetch it again");
}

IdxArray unpack(const Bytes& packed, size_t dimensions, std::string_view source) {
  std::array<uint8_t, kLongestHeader> header{};
  const auto wanted = std::span(header).first(header_size(dimensions));
  const auto start = gunzip(packed.span(), wanted, source);
  auto shape = shape_of(wanted.first(start.count), dimensions, source);
  const size_t count = value_count(shape, packed.size() * kMostGzipRatio, source);
  // One byte more: a buffer that is just full would not show that the data end there, with the right checksum.
  Bytes file(wanted.size() + count + 1);
  const auto all = gunzip(packed.span(), file.span(), source);
  if (all.count == file.size()) fail_count(count, "more", source);
  if (all.count < wanted.size() + count) fail_count(count, std::to_string(all.count - wanted.size()), source);
  return {std::move(shape), std::move(file), wanted.size(), count};
}

}  // namespace

IdxArray parse_idx(Bytes file, size_t dimensions, std::string_view source) {
  if (is_gzip(file.span())) return unpack(file, dimensions, source);
  const size_t begin = header_size(dimensions);
  auto shape = shape_of(file.span().first(std::min(file.size(), begin)), dimensions, source);
  const size_t held = file.size() - begin;
  const size_t count = value_count(shape, held, source);
  if (count != held) fail_count(count, std::to_string(held), source);
  return {std::move(shape), std::move(file), begin, count};
}

}  // namespace frn::data
