#include "frn/data/image.h"

#include <string>

#include "frn/core/error.h"

namespace frn::data {

void check_region(const Region& region, const Size& size) {
  const bool inside = region.top >= 0 && region.left >= 0 && region.height >= 1 && region.width >= 1 &&
                      region.top <= size.height - region.height && region.left <= size.width - region.width;
  if (inside) return;
  throw Error("image", "a region must lie within " + std::to_string(size.height) + "x" + std::to_string(size.width) +
                           " (height x width) but is " + std::to_string(region.height) + "x" +
                           std::to_string(region.width) + " from row " + std::to_string(region.top) + ", column " +
                           std::to_string(region.left));
}

}  // namespace frn::data
