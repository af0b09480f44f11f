// data/ turns files into batches: indexes of sets (dataset), pixels (decode), random changes (augment), their order
// (order) and their delivery (loader). It knows nothing of models.
#pragma once

#include <cstdint>
#include <vector>

namespace frn::data {

struct Size {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const Size&) const = default;
};

struct Region {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const Region&) const = default;
};

// Throws frn::Error unless the region holds a pixel and lies within an image of that size.
void check_region(const Region& region, const Size& size);

// 8 bits a channel, [height, width, channels], channels 1 (grey) or 3 (red, green, blue).
struct Image {
  Size size;
  int64_t channels = 3;
  std::vector<uint8_t> pixels;
};

}  // namespace frn::data
