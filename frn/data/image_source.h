// One image before it is decoded, so that a reader takes no more of it than it needs. Without torch.
#pragma once

#include "frn/data/image.h"

namespace frn::data {

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // As a person sees it: after the rotation that EXIF asks for.
  virtual Size size() const = 0;
  // The region's pixels. A reader may give fewer, scaled down evenly by a power of 2, as long as both sides stay at
  // least as large as `enough`. Throws frn::Error for a broken file.
  virtual Image read(const Region& region, const Size& enough) const = 0;
};

}  // namespace frn::data
