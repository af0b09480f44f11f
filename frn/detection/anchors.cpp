#include "frn/detection/anchors.h"

#include <cmath>

#include "frn/core/error.h"

namespace frn::detection {
namespace {

constexpr double kSideInStrides = 4;

// Anchors of one cell, around its point (0, 0).
using Cell = std::vector<Corners>;

Corners around_origin(double width, double height) {
  return {static_cast<float>(-width / 2), static_cast<float>(-height / 2), static_cast<float>(width / 2),
          static_cast<float>(height / 2)};
}

Cell paper_cell(int64_t stride) {
  Cell cell;
  for (const double ratio : {1.0, 2.0, 0.5}) {  // width to height
    for (const double scale : {1.0, std::sqrt(2.0)}) {
      const double side = kSideInStrides * static_cast<double>(stride) * scale;
      cell.push_back(around_origin(side * std::sqrt(ratio), side / std::sqrt(ratio)));
    }
  }
  return cell;
}

// In float32 and with torch's rounding of halves to even, as torchvision does it.
Cell torchvision_cell(int64_t stride) {
  Cell cell;
  for (const float ratio : {0.5F, 1.0F, 2.0F}) {  // height to width
    const float height_factor = std::sqrt(ratio);
    const float width_factor = 1 / height_factor;
    for (const double octave : {0.0, 1.0 / 3, 2.0 / 3}) {
      const auto side =
          static_cast<float>(std::floor(kSideInStrides * static_cast<double>(stride) * std::exp2(octave)));
      const float x = std::nearbyint(width_factor * side / 2);
      const float y = std::nearbyint(height_factor * side / 2);
      cell.push_back({-x, -y, x, y});
    }
  }
  return cell;
}

Corners moved(const Corners& box, float x, float y) {
  return {x + box.left, y + box.top, x + box.right, y + box.bottom};
}

}  // namespace

int64_t level_side(int64_t image_side, int level) {
  const int64_t stride = int64_t{1} << (kFirstLevel + level);
  return (image_side + stride - 1) / stride;
}

int64_t anchors_per_cell(Style style) { return style == Style::kPaper ? 6 : 9; }

Anchors make_anchors(Style style, int64_t height, int64_t width) {
  if (height < 1 || width < 1) {
    throw Error("anchors", "height and width must be at least 1 but are " + std::to_string(height) + " and " +
                               std::to_string(width));
  }
  const bool paper = style == Style::kPaper;
  Anchors out;
  for (int level = 0; level < kLevels; ++level) {
    const int64_t stride = int64_t{1} << (kFirstLevel + level);
    const int64_t rows = level_side(height, level);
    const int64_t columns = level_side(width, level);
    // Torchvision's distance between cells is a whole number of pixels, which differs from the stride for sizes that
    // the stride does not divide.
    const double down = static_cast<double>(paper ? stride : height / rows);
    const double right = static_cast<double>(paper ? stride : width / columns);
    const double middle = paper ? 0.5 : 0;
    const auto cell = paper ? paper_cell(stride) : torchvision_cell(stride);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const auto x = static_cast<float>((static_cast<double>(column) + middle) * right);
        const auto y = static_cast<float>((static_cast<double>(row) + middle) * down);
        for (const auto& box : cell) out.boxes.push_back(moved(box, x, y));
      }
    }
    out.per_level[static_cast<size_t>(level)] = rows * columns * static_cast<int64_t>(cell.size());
  }
  return out;
}

}  // namespace frn::detection
