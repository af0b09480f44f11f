#include "frn/data/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "frn/core/error.h"
#include "frn/data/augment.h"
#include "frn/data/decode.h"
#include "frn/data/pixel_loops.h"
#include "frn/data/pixels.h"
#include "frn/data/resize.h"

namespace frn::data {
namespace {

constexpr int64_t kPadShare = 8;  // 4 pixels of 32, as training on CIFAR does
constexpr double kByte = 1.0 / 255;
constexpr double kLeastTrainedSide = 1;  // of boxes, in pixels of the result

// An image of the wanted size and channels, to be mirrored while it is written.
struct PreparedImage {
  Image image;
  Geometry geometry;
};

double ratio(int64_t to, int64_t from) { return static_cast<double>(to) / static_cast<double>(from); }

// Of a region that fills the result.
Geometry geometry_of(const Size& source, const Region& region, const Size& result) {
  return {.source = source,
          .result = result,
          .left = static_cast<double>(region.left),
          .top = static_cast<double>(region.top),
          .x_scale = ratio(result.width, region.width),
          .y_scale = ratio(result.height, region.height)};
}

Image read_resized(const ImageSource& source, const Region& region, const Size& enough, const Pipeline& pipeline) {
  auto image = with_channels(source.read(region, enough), pipeline.channels);
  return resized(std::move(image), {pipeline.size, pipeline.size});
}

// Nothing is scaled down while it is decoded: an evaluation has to see what other libraries see.
PreparedImage whole_image(const ImageSource& source, const Pipeline& pipeline) {
  const Size size = source.size();
  const Region whole{0, 0, size.height, size.width};
  return {read_resized(source, whole, size, pipeline), geometry_of(size, whole, {pipeline.size, pipeline.size})};
}

// With the roundings of torchvision's Resize and CenterCrop.
PreparedImage middle_of(const ImageSource& source, const Pipeline& pipeline) {
  const Size size = source.size();
  const auto shorter = static_cast<int64_t>(std::floor(static_cast<double>(pipeline.size) / pipeline.crop));
  const auto longer = [&](int64_t side) {
    return std::max(shorter, shorter * side / std::min(size.height, size.width));
  };
  const Size wanted{longer(size.height), longer(size.width)};
  if (wanted.height > kMostPixels / wanted.width) {
    throw Error("image",
                fmt::format("{} x {} pixels, {} x {} with the shorter side resized for evaluation_crop, are more "
                            "than {}",
                            size.width, size.height, wanted.width, wanted.height, kMostPixels));
  }
  const auto begin = [&](int64_t side) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(side - pipeline.size) / 2));
  };
  const Region whole{0, 0, size.height, size.width};
  const auto image = resized(with_channels(source.read(whole, size), pipeline.channels), wanted);
  auto geometry = geometry_of(size, whole, wanted);
  geometry.result = {pipeline.size, pipeline.size};
  geometry.left = static_cast<double>(begin(wanted.width)) / geometry.x_scale;
  geometry.top = static_cast<double>(begin(wanted.height)) / geometry.y_scale;
  return {part(image, {begin(wanted.height), begin(wanted.width), pipeline.size, pipeline.size}), geometry};
}

PreparedImage shifted_image(PreparedImage prepared, int64_t down, int64_t right) {
  prepared.image = shifted(prepared.image, down, right);
  auto& geometry = prepared.geometry;
  geometry.left = -static_cast<double>(right) / geometry.x_scale;
  geometry.top = -static_cast<double>(down) / geometry.y_scale;
  return prepared;
}

// A region of a training image, stretched to the wanted size.
PreparedImage stretched(const ImageSource& source, const Region& region, const Pipeline& pipeline) {
  const Size result{pipeline.size, pipeline.size};
  return {read_resized(source, region, result, pipeline), geometry_of(source.size(), region, result)};
}

PreparedImage prepare(const ImageSource& source, Random& random, const Pipeline& pipeline) {
  switch (pipeline.augmentation) {
    case Augmentation::kPadCropFlip: {
      const int64_t pad = pipeline.size / kPadShare;
      const int64_t down = random.below(2 * pad + 1) - pad;
      const int64_t right = random.below(2 * pad + 1) - pad;
      const bool flip = random.coin();
      auto prepared = shifted_image(whole_image(source, pipeline), down, right);
      prepared.geometry.flip = flip;
      return prepared;
    }
    case Augmentation::kInception: {
      auto prepared = stretched(source, draw_inception_crop(source.size(), random), pipeline);
      prepared.geometry.flip = random.coin();
      return prepared;
    }
    case Augmentation::kDetection: {
      auto prepared = stretched(source, draw_detection_crop(source.size(), random), pipeline);
      prepared.geometry.flip = random.coin();
      prepared.geometry.least_side = kLeastTrainedSide;
      return prepared;
    }
    case Augmentation::kNone:
      break;
  }
  return pipeline.crop > 0 ? middle_of(source, pipeline) : whole_image(source, pipeline);
}

void write_distorted(const PreparedImage& prepared, Random& random, const Pipeline& pipeline, std::span<float> out,
                     PixelLayout layout) {
  const auto& size = prepared.image.size;
  const auto plane = static_cast<size_t>(size.height * size.width);
  std::vector<float> scratch(layout == PixelLayout::kPlanes ? 0 : out.size());
  const auto values = layout == PixelLayout::kPlanes ? out : std::span(scratch);
  write_normalised(prepared.image.pixels.data(), size, 3, prepared.geometry.flip,
                   make_normalisation({}, {1, 1, 1}, kByte), PixelLayout::kPlanes, values);
  change_colours(draw_colour_change(random), values.first(plane), values.subspan(plane, plane), values.last(plane));
  const auto normalisation = make_normalisation(pipeline.mean, pipeline.deviation, 1);
  for (size_t channel = 0; channel < 3; ++channel) {
    const float scale = normalisation.scale[channel];
    const float offset = normalisation.offset[channel];
    float* from = values.data() + channel * plane;
    loops::scale_and_add(scale, offset, from, static_cast<int64_t>(plane));
    if (layout == PixelLayout::kPlanes) continue;
    float* to = out.data() + channel;
    for (size_t i = 0; i < plane; ++i) to[3 * i] = from[i];
  }
}

}  // namespace

Geometry Pipeline::run(const ImageSource& source, RandomKey key, std::span<float> out, PixelLayout layout) const {
  if (channels != 1 && channels != 3) {
    throw Error("pipeline",
                fmt::format("channels must be 1 or 3 but are {}; a set of other images prepares its samples "
                            "itself (Dataset::sample)",
                            channels));
  }
  Random random(key);
  const auto prepared = prepare(source, random, *this);
  if (colour && channels == 3) {
    write_distorted(prepared, random, *this, out, layout);
    return prepared.geometry;
  }
  write_normalised(prepared.image.pixels.data(), prepared.image.size, channels, prepared.geometry.flip,
                   make_normalisation(mean, deviation, kByte), layout, out);
  return prepared.geometry;
}

}  // namespace frn::data
