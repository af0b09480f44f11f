#include "frn/data/target.h"

#include <algorithm>
#include <utility>

namespace frn::data {

Target moved(Target target, const Geometry& geometry) {
  const auto width = static_cast<double>(geometry.result.width);
  const auto height = static_cast<double>(geometry.result.height);
  for (auto& box : target.boxes) {
    box.left = (box.left - geometry.left) * geometry.x_scale;
    box.right = (box.right - geometry.left) * geometry.x_scale;
    box.top = (box.top - geometry.top) * geometry.y_scale;
    box.bottom = (box.bottom - geometry.top) * geometry.y_scale;
    if (geometry.flip) {
      box.left = width - box.left;
      box.right = width - box.right;
      std::swap(box.left, box.right);
    }
    box.left = std::clamp(box.left, 0.0, width);
    box.right = std::clamp(box.right, 0.0, width);
    box.top = std::clamp(box.top, 0.0, height);
    box.bottom = std::clamp(box.bottom, 0.0, height);
  }
  std::erase_if(target.boxes, [least = geometry.least_side](const Box& box) {
    const bool something = box.left < box.right && box.top < box.bottom;
    return !something || box.right - box.left < least || box.bottom - box.top < least;
  });
  return target;
}

Box moved_back(const Box& box, const Geometry& geometry) {
  auto out = box;
  if (geometry.flip) {
    const auto width = static_cast<double>(geometry.result.width);
    out.left = width - box.right;
    out.right = width - box.left;
  }
  out.left = out.left / geometry.x_scale + geometry.left;
  out.right = out.right / geometry.x_scale + geometry.left;
  out.top = out.top / geometry.y_scale + geometry.top;
  out.bottom = out.bottom / geometry.y_scale + geometry.top;
  return out;
}

}  // namespace frn::data
