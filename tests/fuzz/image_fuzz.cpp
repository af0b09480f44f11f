// Whatever the bytes, an image is read or refused with a frn::Error; a region of it is the same as that part of the
// whole; what is scaled down stays as large as was asked for.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/decode.h"

namespace {

using frn::data::Image;
using frn::data::ImageSource;
using frn::data::Region;
using frn::data::Size;

constexpr size_t kLongestMessage = 4096;
constexpr int64_t kMostPixels = 1 << 18;  // so that a run of the fuzzer is short and small

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

std::optional<Image> read(const ImageSource& source, const Region& region, const Size& enough) {
  try {
    auto image = source.read(region, enough);
    const auto count = image.size.height * image.size.width * image.channels;
    require(image.channels == 1 || image.channels == 3);
    require(static_cast<int64_t>(image.pixels.size()) == count);
    require(image.size.height >= enough.height && image.size.width >= enough.width);
    return image;
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage);
    return std::nullopt;
  }
}

void require_part(const Image& whole, const Region& region, const Image& part) {
  require(part.size == Size{region.height, region.width} && part.channels == whole.channels);
  for (int64_t row = 0; row < region.height; ++row) {
    const auto* from = whole.pixels.data() + ((region.top + row) * whole.size.width + region.left) * whole.channels;
    const auto length = region.width * whole.channels;
    require(std::equal(from, from + length, part.pixels.data() + row * length));
  }
}

void use(const ImageSource& source) {
  const Size size = source.size();
  require(size.height >= 1 && size.width >= 1 && size.height <= frn::data::kMostPixels / size.width);
  if (size.height * size.width > kMostPixels) return;
  const Region all{0, 0, size.height, size.width};
  const Region middle{size.height / 3, size.width / 3, (size.height + 2) / 3, (size.width + 2) / 3};
  const auto whole = read(source, all, size);
  const auto part = read(source, middle, {middle.height, middle.width});
  read(source, middle, {middle.height / 3, middle.width / 3});
  if (whole && part) require_part(*whole, middle, *part);
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  frn::data::Bytes file(size);
  std::copy_n(bytes, size, file.span().begin());
  try {
    use(*frn::data::open_image(std::move(file), "fuzzed"));
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage);
  }
  return 0;
}
