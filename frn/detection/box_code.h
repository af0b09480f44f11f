// A box as four numbers relative to an anchor, which a network can learn: x, y of the middle in sides of the anchor,
// and the logarithms of width and height in them, each times a weight (Girshick et al. 2014, appendix C).
#pragma once

#include <array>

#include "frn/detection/anchors.h"

namespace frn::detection {

using BoxCode = std::array<float, 4>;  // x, y, width, height

struct CodeWeights {
  float middle = 10;
  float sides = 5;
};

// Paper: 10 and 5; torchvision: 1 and 1.
CodeWeights weights_of(Style style);

// Both boxes must have an area.
BoxCode encode(const Corners& box, const Corners& anchor, const CodeWeights& weights);
// Sides are at most 1000/16 times the anchor's, so that a wild code does not overflow.
Corners decode(const BoxCode& code, const Corners& anchor, const CodeWeights& weights);

}  // namespace frn::detection
