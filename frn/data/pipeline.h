// From one sample to the numbers a network takes: region, augmentation, resize, normalisation.
#pragma once

#include <array>
#include <span>

#include "frn/core/random.h"
#include "frn/data/dataset.h"
#include "frn/data/pixels.h"

namespace frn::data {

// A pure function of the image and the key.
struct Pipeline {
  // kNone: the whole image, resized to size x size (antialiased bilinear). kDetection also leaves out what is narrower
  // or lower than 1 pixel of the result, in which no detector can see anything: Geometry::least_side.
  Augmentation augmentation = Augmentation::kNone;
  bool colour = false;  // distort colours as Inception does (3 channels; grey stays)
  int64_t size = 224;
  // Without augmentation: 0 takes the whole image, squashed to a square; a share c the square in the middle of the
  // image resized to size/c at its shorter side, as torchvision's and timm's evaluation does.
  double crop = 0;
  int64_t channels = 3;  // grey images become 3 equal channels and the other way round
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{1, 1, 1};

  // Writes size x size x channels floats, (value/255 - mean)/deviation: [channels, size, size], or [size, size,
  // channels] when interleaved. Gives what it did to the image, so that the sample's target can follow (moved()).
  Geometry run(const ImageSource& source, RandomKey key, std::span<float> out,
               PixelLayout layout = PixelLayout::kPlanes) const;
};

}  // namespace frn::data
