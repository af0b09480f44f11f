#include "frn/data/pixels.h"

#include <algorithm>
#include <string>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/pixel_loops.h"

namespace frn::data {
namespace {

Image to_colours(const Image& grey) {
  Image image{grey.size, 3, {}};
  image.pixels.resize(grey.pixels.size() * 3);
  for (size_t i = 0; i < grey.pixels.size(); ++i) {
    for (size_t channel = 0; channel < 3; ++channel) image.pixels[3 * i + channel] = grey.pixels[i];
  }
  return image;
}

Image to_grey(const Image& colours) {
  Image image{colours.size, 1, {}};
  image.pixels.resize(colours.pixels.size() / 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const uint8_t* rgb = colours.pixels.data() + 3 * i;
    image.pixels[i] = static_cast<uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 0x8000U) >> 16);
  }
  return image;
}

}  // namespace

Image with_channels(Image image, int64_t channels) {
  if (image.channels == channels) return image;
  if (channels != 1 && channels != 3) {
    throw Error("image", "an image becomes one of 1 or 3 channels, not of " + std::to_string(channels));
  }
  return channels == 3 ? to_colours(image) : to_grey(image);
}

Image part(const Image& image, const Region& region) {
  check_region(region, image.size);
  Image out{{region.height, region.width}, image.channels, {}};
  out.pixels.reserve(static_cast<size_t>(region.height * region.width * image.channels));
  for (int64_t row = region.top; row < region.top + region.height; ++row) {
    const auto* from = image.pixels.data() + (row * image.size.width + region.left) * image.channels;
    out.pixels.insert(out.pixels.end(), from, from + region.width * image.channels);
  }
  return out;
}

Image shifted(const Image& image, int64_t down, int64_t right) {
  const auto [height, width] = image.size;
  Image result{image.size, image.channels, {}};
  result.pixels.resize(image.pixels.size());
  const int64_t first = std::clamp<int64_t>(right, 0, width);
  const int64_t last = std::clamp<int64_t>(width + right, 0, width);
  for (int64_t row = std::max<int64_t>(down, 0); row < std::min(height + down, height) && first < last; ++row) {
    const auto* from = image.pixels.data() + ((row - down) * width + first - right) * image.channels;
    std::copy_n(from, (last - first) * image.channels, result.pixels.data() + (row * width + first) * image.channels);
  }
  return result;
}

Normalisation make_normalisation(const std::array<float, 3>& mean, const std::array<float, 3>& deviation, double unit) {
  Normalisation result;
  for (size_t i = 0; i < 3; ++i) {
    result.scale[i] = static_cast<float>(unit / deviation[i]);
    result.offset[i] = static_cast<float>(-double{mean[i]} / deviation[i]);
  }
  return result;
}

void write_normalised(const uint8_t* pixels, const Size& size, int64_t channels, bool flip,
                      const Normalisation& normalisation, PixelLayout layout, std::span<float> out) {
  const int64_t plane = size.height * size.width;
  if (static_cast<int64_t>(out.size()) != plane * channels) {
    throw Error("image", "the result must have room for " + std::to_string(plane * channels) + " values but has for " +
                             std::to_string(out.size()));
  }
  const float* scale = normalisation.scale.data();
  const float* offset = normalisation.offset.data();
  float* to = out.data();
  for (int64_t row = 0; row < size.height; ++row) {
    const uint8_t* from = pixels + row * size.width * channels;
    if (channels == 1) {
      loops::grey_row(from, size.width, scale[0], offset[0], flip, to + row * size.width);
    } else if (layout == PixelLayout::kPlanes) {
      loops::row_to_planes(from, size.width, scale, offset, flip, to + row * size.width, plane);
    } else {
      loops::row_to_interleaved(from, size.width, scale, offset, flip, to + row * size.width * 3);
    }
  }
}

}  // namespace frn::data
