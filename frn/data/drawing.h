// Boxes with names on an image, for people to look at. Without torch.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "frn/data/image.h"

namespace frn::data {

using Colour = std::array<uint8_t, 3>;

// Colours that are told apart at a glance, one after the other, over and over.
Colour colour_of(int64_t number);

struct DrawnBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  std::string text{};  // on a bar at its upper edge; empty: no bar. ASCII; other characters are drawn as a frame
  Colour colour{};
};

// The image in colour with the boxes on it, in their order. Lines and letters grow with the image.
Image drawn(const Image& image, const std::vector<DrawnBox>& boxes);

// Two images of the same height in one, with a white line between them.
Image side_by_side(const Image& left, const Image& right);

// The image as a PNG file. Throws frn::Error for an image without pixels.
std::string to_png(const Image& image);

}  // namespace frn::data
