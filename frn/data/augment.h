// Random changes of training images: Inception's crop and its distortion of colours (Szegedy et al. 2015; TF-slim's
// inception_preprocessing), and the crop of detectors in TensorFlow's Object Detection API. Each draws its numbers from
// the generator it is given, always in the same order.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "frn/core/random.h"
#include "frn/data/image.h"

namespace frn::data {

// How images are changed in training.
enum class Augmentation { kNone, kPadCropFlip, kInception, kDetection };

// 8% to 100% of the area, sides 3:4 to 4:3, anywhere. Ten tries; then the largest part in the middle with such sides.
// As torchvision's RandomResizedCrop.
Region draw_inception_crop(const Size& size, Random& random);

// 75% to 100% of the area, width to height 3:4 to 3:1, anywhere. A hundred tries; then the whole image. As TensorFlow's
// sample_distorted_bounding_box draws it where no object has to stay within the crop: first the shape, then the height
// among those that fit. With the areas of RetinaNet's configuration in the Object Detection API.
Region draw_detection_crop(const Size& size, Random& random);

enum class ColourStep : uint8_t { kBrightness, kSaturation, kHue, kContrast };

struct ColourChange {
  std::array<ColourStep, 4> order{};
  float brightness = 0;  // is added
  float saturation = 1;  // factor of HSV's S, which stays up to 1
  float hue = 0;         // is added to HSV's H, of which 1 is a full turn
  float contrast = 1;    // factor of the distance from the channel's mean
};

ColourChange draw_colour_change(Random& random);

// On planes of values from 0 to 1, in place; at the end they are cut to 0 .. 1.
void change_colours(const ColourChange& change, std::span<float> red, std::span<float> green, std::span<float> blue);

}  // namespace frn::data
