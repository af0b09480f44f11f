#include "frn/data/orientation.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace frn::data {
namespace {

constexpr uint16_t kTag = 0x0112;
constexpr uint16_t kShort = 3;
constexpr size_t kEntryBytes = 12;

// Numbers of a TIFF structure in its own byte order; none beyond its end.
struct Tiff {
  std::span<const uint8_t> bytes;
  bool little = false;

  std::optional<uint32_t> number(size_t position, size_t length) const {
    if (position > bytes.size() || length > bytes.size() - position) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < length; ++i) value = (value << 8) | bytes[position + (little ? length - 1 - i : i)];
    return value;
  }
};

}  // namespace

Region Orientation::stored(const Region& viewed, const Size& stored_size) const {
  Region region = swap ? Region{viewed.left, viewed.top, viewed.width, viewed.height} : viewed;
  if (from_bottom) region.top = stored_size.height - region.top - region.height;
  if (from_right) region.left = stored_size.width - region.left - region.width;
  return region;
}

Image Orientation::apply(Image image) const {
  if (is_plain()) return image;
  const auto [height, width] = image.size;
  const int64_t channels = image.channels;
  Image result{viewed(image.size), channels, {}};
  result.pixels.resize(image.pixels.size());
  uint8_t* to = result.pixels.data();
  for (int64_t row = 0; row < result.size.height; ++row) {
    for (int64_t column = 0; column < result.size.width; ++column) {
      int64_t stored_row = swap ? column : row;
      int64_t stored_column = swap ? row : column;
      if (from_bottom) stored_row = height - 1 - stored_row;
      if (from_right) stored_column = width - 1 - stored_column;
      const uint8_t* from = image.pixels.data() + (stored_row * width + stored_column) * channels;
      to = std::copy_n(from, channels, to);
    }
  }
  return result;
}

Orientation orientation_of(int exif) {
  switch (exif) {
    case 2:
      return {false, false, true};
    case 3:
      return {false, true, true};
    case 4:
      return {false, true, false};
    case 5:
      return {true, false, false};
    case 6:
      return {true, true, false};
    case 7:
      return {true, true, true};
    case 8:
      return {true, false, true};
    default:
      return {};
  }
}

Orientation read_orientation(std::span<const uint8_t> tiff) {
  if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) return {};
  const Tiff file{tiff, tiff[0] == 'I'};
  const size_t directory = *file.number(4, 4);
  const auto entries = file.number(directory, 2);
  if (!entries) return {};
  for (size_t i = 0; i < *entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    const auto value = file.number(entry + 8, 2);
    if (!value) return {};
    if (*file.number(entry, 2) == kTag && *file.number(entry + 2, 2) == kShort) {
      return orientation_of(static_cast<int>(*value));
    }
  }
  return {};
}

}  // namespace frn::data
