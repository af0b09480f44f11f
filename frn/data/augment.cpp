#include "frn/data/augment.h"

#include <algorithm>
#include <cmath>

#include "frn/data/pixel_loops.h"

namespace frn::data {
namespace {

constexpr int kTries = 10;
constexpr double kSmallestArea = 0.08;
constexpr double kNarrowest = 3.0 / 4;
constexpr double kWidest = 4.0 / 3;

constexpr int kDetectionTries = 100;
constexpr double kSmallestDetectionArea = 0.75;
constexpr double kNarrowestDetection = 0.75;
constexpr double kWidestDetection = 3;

constexpr double kMostBrightness = 32.0 / 255;
constexpr double kMostHue = 0.2;
constexpr double kLeastFactor = 0.5;  // of saturation and contrast
constexpr double kMostFactor = 1.5;

using Step = ColourStep;
constexpr std::array<std::array<Step, 4>, 4> kOrders{{
    {Step::kBrightness, Step::kSaturation, Step::kHue, Step::kContrast},
    {Step::kSaturation, Step::kBrightness, Step::kContrast, Step::kHue},
    {Step::kContrast, Step::kHue, Step::kBrightness, Step::kSaturation},
    {Step::kHue, Step::kSaturation, Step::kContrast, Step::kBrightness},
}};

Region middle(const Size& size) {
  const double shape = static_cast<double>(size.width) / static_cast<double>(size.height);
  int64_t height = size.height;
  int64_t width = size.width;
  if (shape < kNarrowest) height = std::llround(static_cast<double>(width) / kNarrowest);
  if (shape > kWidest) width = std::llround(static_cast<double>(height) * kWidest);
  return {(size.height - height) / 2, (size.width - width) / 2, height, width};
}

void scale_contrast(float factor, std::span<float> plane) {
  const auto count = static_cast<int64_t>(plane.size());
  const double mean = loops::sum(plane.data(), count) / static_cast<double>(count);
  loops::scale_and_add(factor, static_cast<float>(mean * (1 - double{factor})), plane.data(), count);
}

}  // namespace

Region draw_inception_crop(const Size& size, Random& random) {
  const double area = static_cast<double>(size.height) * static_cast<double>(size.width);
  for (int i = 0; i < kTries; ++i) {
    const double wanted = area * random.uniform(kSmallestArea, 1);
    const double shape = std::exp(random.uniform(std::log(kNarrowest), std::log(kWidest)));
    const int64_t width = std::llround(std::sqrt(wanted * shape));
    const int64_t height = std::llround(std::sqrt(wanted / shape));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    const int64_t top = random.below(size.height - height + 1);
    const int64_t left = random.below(size.width - width + 1);
    return {top, left, height, width};
  }
  return middle(size);
}

Region draw_detection_crop(const Size& size, Random& random) {
  const double area = static_cast<double>(size.height) * static_cast<double>(size.width);
  for (int i = 0; i < kDetectionTries; ++i) {
    const double shape = random.uniform(kNarrowestDetection, kWidestDetection);
    const auto least = static_cast<int64_t>(std::ceil(std::sqrt(kSmallestDetectionArea * area / shape)));
    const auto most = std::min(size.height, static_cast<int64_t>(static_cast<double>(size.width) / shape));
    if (least > most) continue;
    const int64_t height = least + random.below(most - least + 1);
    const int64_t width = std::llround(static_cast<double>(height) * shape);
    const double share = static_cast<double>(height) * static_cast<double>(width) / area;
    if (share < kSmallestDetectionArea) continue;  // by the rounding
    const int64_t top = random.below(size.height - height + 1);
    const int64_t left = random.below(size.width - width + 1);
    return {top, left, height, width};
  }
  return {0, 0, size.height, size.width};
}

ColourChange draw_colour_change(Random& random) {
  ColourChange change;
  change.order = kOrders[static_cast<size_t>(random.below(kOrders.size()))];
  change.brightness = static_cast<float>(random.uniform(-kMostBrightness, kMostBrightness));
  change.saturation = static_cast<float>(random.uniform(kLeastFactor, kMostFactor));
  change.hue = static_cast<float>(random.uniform(-kMostHue, kMostHue));
  change.contrast = static_cast<float>(random.uniform(kLeastFactor, kMostFactor));
  return change;
}

void change_colours(const ColourChange& change, std::span<float> red, std::span<float> green, std::span<float> blue) {
  const std::array planes{red, green, blue};
  const auto count = static_cast<int64_t>(red.size());
  for (const auto step : change.order) {
    switch (step) {
      case ColourStep::kBrightness:
        for (const auto plane : planes) loops::add(change.brightness, plane.data(), count);
        break;
      case ColourStep::kSaturation:
        loops::scale_saturation(change.saturation, red.data(), green.data(), blue.data(), count);
        break;
      case ColourStep::kHue:
        loops::turn_hue(change.hue, red.data(), green.data(), blue.data(), count);
        break;
      case ColourStep::kContrast:
        for (const auto plane : planes) scale_contrast(change.contrast, plane);
        break;
    }
  }
  for (const auto plane : planes) loops::cut_to_unit(plane.data(), count);
}

}  // namespace frn::data
