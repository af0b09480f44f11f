#include "frn/data/resize.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>

namespace frn::data {
namespace {

// [1, channels, height, width] over [height, width, channels] in memory.
at::Tensor view_of(Image& image) {
  const auto [height, width] = image.size;
  const int64_t channels = image.channels;
  return at::from_blob(image.pixels.data(), {1, channels, height, width},
                       {height * width * channels, 1, width * channels, channels}, at::kByte);
}

}  // namespace

Image resized(Image image, const Size& size) {
  if (image.size == size) return image;
  Image result{size, image.channels, {}};
  result.pixels.resize(static_cast<size_t>(size.height * size.width * image.channels));
  auto out = view_of(result);
  at::_upsample_bilinear2d_aa_out(out, view_of(image), {size.height, size.width}, /*align_corners=*/false);
  return result;
}

}  // namespace frn::data
