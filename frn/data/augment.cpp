#include "frn/data/augment.h"

#include <algorithm>
#include <cmath>

namespace frn::data {
namespace {

constexpr int kTries = 10;
constexpr double kSmallestArea = 0.08;
constexpr double kNarrowest = 3.0 / 4;
constexpr double kWidest = 4.0 / 3;

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

// The loops below have no branches, so that compilers make vector instructions of them.

void add(float value, std::span<float> plane) {
  for (float& x : plane) x += value;
}

// With hue and value kept, v - channel is proportional to the saturation.
void scale_saturation(float factor, std::span<float> red, std::span<float> green, std::span<float> blue) {
  for (size_t i = 0; i < red.size(); ++i) {
    const float r = red[i];
    const float g = green[i];
    const float b = blue[i];
    const float value = std::max(r, std::max(g, b));
    const float range = value - std::min(r, std::min(g, b));
    // The saturation is range/value: its factor is cut so that it does not exceed 1. Black has none.
    const float most = value / std::max(range, 1e-30F);
    const float by = value > 0 ? std::min(factor, most) : 0.0F;
    red[i] = value - (value - r) * by;
    green[i] = value - (value - g) * by;
    blue[i] = value - (value - b) * by;
  }
}

// Hue in sixths of a turn: a channel is the smallest value plus the range times how near the hue is to that channel.
void turn_hue(float turn, std::span<float> red, std::span<float> green, std::span<float> blue) {
  const float sixths = 6 * turn;
  for (size_t i = 0; i < red.size(); ++i) {
    const float r = red[i];
    const float g = green[i];
    const float b = blue[i];
    const float value = std::max(r, std::max(g, b));
    const float least = std::min(r, std::min(g, b));
    const float range = value - least;
    const float one_by_range = 1 / std::max(range, 1e-30F);
    const float of_red = (g - b) * one_by_range;
    const float of_green = 2 + (b - r) * one_by_range;
    const float of_blue = 4 + (r - g) * one_by_range;
    float hue = value == g ? of_green : of_blue;
    hue = (value == r ? of_red : hue) + sixths;  // -1 .. 5, and up to 1.2 more or less
    hue = hue < 0 ? hue + 6 : hue;
    hue = hue >= 6 ? hue - 6 : hue;
    const auto near = [](float x) { return std::min(std::max(x, 0.0F), 1.0F); };
    red[i] = least + range * near(std::abs(hue - 3) - 1);
    green[i] = least + range * near(2 - std::abs(hue - 2));
    blue[i] = least + range * near(2 - std::abs(hue - 4));
  }
}

double mean_of(std::span<const float> plane) {
  constexpr size_t kLanes = 16;  // sums side by side, added in the same order on every machine
  std::array<double, kLanes> sums{};
  const size_t whole = plane.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += double{plane[i + lane]};
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  for (size_t i = whole; i < plane.size(); ++i) sum += double{plane[i]};
  return sum / static_cast<double>(plane.size());
}

void scale_contrast(float factor, std::span<float> plane) {
  const auto mean = static_cast<float>(mean_of(plane));
  for (float& x : plane) x = (x - mean) * factor + mean;
}

void cut(std::span<float> plane) {
  for (float& x : plane) x = std::min(std::max(x, 0.0F), 1.0F);
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
  for (const auto step : change.order) {
    switch (step) {
      case ColourStep::kBrightness:
        for (const auto plane : planes) add(change.brightness, plane);
        break;
      case ColourStep::kSaturation:
        scale_saturation(change.saturation, red, green, blue);
        break;
      case ColourStep::kHue:
        turn_hue(change.hue, red, green, blue);
        break;
      case ColourStep::kContrast:
        for (const auto plane : planes) scale_contrast(change.contrast, plane);
        break;
    }
  }
  for (const auto plane : planes) cut(plane);
}

}  // namespace frn::data
