// From 8-bit pixels to a network's numbers: channels, borders, mirror image, normalisation.
#pragma once

#include <array>
#include <span>

#include "frn/data/image.h"

namespace frn::data {

// Grey as three equal channels; colours as their luma (ITU-R 601-2, with PIL's rounding).
Image with_channels(Image image, int64_t channels);

// Throws frn::Error when the region does not lie within the image.
Image part(const Image& image, const Region& region);

// The image moved by (down, right) pixels inside a frame of its own size; what comes in from outside is 0.
Image shifted(const Image& image, int64_t down, int64_t right);

// value*scale + offset, per channel.
struct Normalisation {
  std::array<float, 3> scale{};
  std::array<float, 3> offset{};
};
// (value*unit - mean)/deviation: unit is 1/255 for bytes.
Normalisation make_normalisation(const std::array<float, 3>& mean, const std::array<float, 3>& deviation, double unit);

enum class PixelLayout { kPlanes, kInterleaved };  // [channels, height, width] or [height, width, channels]

// Writes height*width*channels floats, mirrored left to right when `flip`. `pixels` is [height, width, channels].
void write_normalised(const uint8_t* pixels, const Size& size, int64_t channels, bool flip,
                      const Normalisation& normalisation, PixelLayout layout, std::span<float> out);
}  // namespace frn::data
