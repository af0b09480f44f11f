// Rectangles and how much of two of them is the same.
#pragma once

#include <algorithm>

namespace frn {

// From the left and upper edge of the image; right and bottom are outside.
struct Rectangle {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  bool operator==(const Rectangle&) const = default;
};

// 0 for one whose edges are swapped.
inline double area(const Rectangle& box) {
  return std::max(0.0, box.right - box.left) * std::max(0.0, box.bottom - box.top);
}

inline double intersection(const Rectangle& a, const Rectangle& b) {
  return area(
      {std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right), std::min(a.bottom, b.bottom)});
}

// a part of a whole as a share; 0, never "not a number", when there is nothing to share or it is beyond a double.
inline double share_of(double part, double whole) {
  const double share = part / whole;
  return share > 0 ? share : 0;
}

// Intersection over union, from 0 to 1; 0 when one of them has no area.
inline double iou(const Rectangle& a, const Rectangle& b) {
  const double common = intersection(a, b);
  return share_of(common, area(a) + area(b) - common);
}

}  // namespace frn
