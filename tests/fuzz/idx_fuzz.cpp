// Whatever the bytes, an IDX file is read, with as many values as its shape says, or refused with a frn::Error. The
// first byte is one less than the number of dimensions, modulo 3.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/idx.h"

namespace {

constexpr size_t kLongestMessage = 4096;

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const size_t dimensions = 1 + bytes[0] % 3;
  frn::data::Bytes file(size - 1);
  std::copy_n(bytes + 1, size - 1, file.span().begin());
  try {
    const auto array = frn::data::parse_idx(std::move(file), dimensions, "fuzzed");
    require(array.shape.size() == dimensions);
    // In floating point, which does not wrap around; exact up to 2^53, more than any input here.
    double count = 1;
    for (const auto length : array.shape) count *= static_cast<double>(length);
    require(count == static_cast<double>(array.values().size()));
    uint64_t sum = 0;
    for (const uint8_t value : array.values()) sum += value;
    require(sum <= 255 * array.values().size());
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage);
  }
  return 0;
}
