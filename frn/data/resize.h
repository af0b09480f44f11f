// Antialiased bilinear resize of 8-bit images, as PIL's Image.resize(BILINEAR) does it.
#pragma once

#include "frn/data/image.h"

namespace frn::data {

// An image that has the size already comes back as it is.
Image resized(Image image, const Size& size);

}  // namespace frn::data
