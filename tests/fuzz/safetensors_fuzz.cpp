// Whatever the bytes, a safetensors file is read, or refused with a frn::Error; what was read is written and read again
// as the same.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/safetensors.h"

namespace {

using frn::safetensors::Header;
using frn::safetensors::TensorViews;

constexpr size_t kLongestMessage = 4096;

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

// Even first byte: the rest is a file. Odd: the second byte is the length of the data and the rest a header, whose
// length is put before it, since mutations seldom keep that right.
std::string file_of(std::span<const uint8_t> input) {
  if (input.empty()) return "";
  if (input[0] % 2 == 0 || input.size() < 2) return {input.begin() + 1, input.end()};
  const auto header = input.subspan(2);
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file.append(header.begin(), header.end());
  return file.append(input[1], '\0');
}

void check_places(const Header& header, uint64_t data_size) {
  uint64_t sum = 0;
  for (const auto& [name, entry] : header.entries) {
    require(entry.begin <= entry.end && entry.end <= data_size);
    // In floating point, which does not wrap around; exact up to 2^53, more than any input here.
    auto bytes = static_cast<double>(frn::safetensors::dtype_size(entry.dtype));
    for (const auto size : entry.shape) bytes *= static_cast<double>(size);
    require(bytes == static_cast<double>(entry.byte_count()));
    sum += entry.byte_count();
  }
  require(sum == data_size);
}

void check_round_trip(const Header& header, std::span<const std::byte> data) {
  TensorViews views;
  for (const auto& [name, entry] : header.entries) {
    views[name] = {entry.dtype, entry.shape, data.subspan(entry.begin, entry.byte_count())};
  }
  const std::string again = to_bytes(views, header.metadata);
  const auto bytes = std::as_bytes(std::span(again));
  const Header second = frn::safetensors::parse(bytes);
  require(second.metadata == header.metadata && second.entries.size() == header.entries.size());
  for (const auto& [name, entry] : second.entries) {
    const auto& first = header.entries.at(name);
    const auto part = bytes.subspan(second.data_begin + entry.begin, entry.byte_count());
    require(entry.dtype == first.dtype && entry.shape == first.shape);
    require(std::equal(part.begin(), part.end(), data.begin() + static_cast<std::ptrdiff_t>(first.begin)));
  }
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text = file_of({bytes, size});
  const auto file = std::as_bytes(std::span(text));
  Header header;
  try {
    header = frn::safetensors::parse(file);
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage);
    return 0;
  }
  const auto data = file.subspan(header.data_begin);
  check_places(header, data.size());
  check_round_trip(header, data);
  return 0;
}
