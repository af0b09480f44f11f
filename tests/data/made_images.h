// Image files made in memory for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frn/data/bytes.h"
#include "frn/data/image.h"

namespace frn::data {

// Waves, edges and noise: neighbours differ everywhere.
Image made_image(const Size& size, int64_t channels);

struct JpegSettings {
  int luma_h = 2;  // sampling of the first channel against the others
  int luma_v = 2;
  bool progressive = false;
  int quality = 90;
};
std::string to_jpeg(const Image& image, const JpegSettings& settings);
std::string to_png(const Image& image, bool interlaced);

Bytes bytes_of(const std::string& text);

}  // namespace frn::data
