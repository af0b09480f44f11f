// Whatever the bytes, an annotation file of Pascal VOC is read, with names and sides that can be, or refused with a
// frn::Error.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "frn/core/error.h"
#include "frn/data/voc_file.h"

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
  try {
    const auto file = frn::data::parse_voc({bytes, size}, "fuzzed");
    require(file.size.height >= 0 && file.size.width >= 0);
    for (const auto& object : file.objects) require(!object.name.empty());
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage);
  }
  return 0;
}
