#include "frn/detection/box_code.h"

#include <algorithm>
#include <cmath>

namespace frn::detection {
namespace {

const float kLargestLogarithm = static_cast<float>(std::log(1000.0 / 16));

struct Middle {
  float x, y, width, height;
};

// With torchvision's order of operations, so that results can be compared to the last bit but for exp and log.
Middle middle_of(const Corners& box) {
  const float width = box.right - box.left;
  const float height = box.bottom - box.top;
  return {box.left + 0.5F * width, box.top + 0.5F * height, width, height};
}

}  // namespace

CodeWeights weights_of(Style style) {
  return style == Style::kPaper ? CodeWeights{} : CodeWeights{.middle = 1, .sides = 1};
}

BoxCode encode(const Corners& box, const Corners& anchor, const CodeWeights& weights) {
  const auto from = middle_of(anchor);
  const auto to = middle_of(box);
  return {weights.middle * (to.x - from.x) / from.width, weights.middle * (to.y - from.y) / from.height,
          weights.sides * std::log(to.width / from.width), weights.sides * std::log(to.height / from.height)};
}

Corners decode(const BoxCode& code, const Corners& anchor, const CodeWeights& weights) {
  const auto from = middle_of(anchor);
  const float x = code[0] / weights.middle * from.width + from.x;
  const float y = code[1] / weights.middle * from.height + from.y;
  const float half_width = 0.5F * (std::exp(std::min(code[2] / weights.sides, kLargestLogarithm)) * from.width);
  const float half_height = 0.5F * (std::exp(std::min(code[3] / weights.sides, kLargestLogarithm)) * from.height);
  return {x - half_width, y - half_height, x + half_width, y + half_height};
}

}  // namespace frn::detection
