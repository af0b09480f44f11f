// Which anchors stand for which box of an image.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "frn/detection/anchors.h"

namespace frn::detection {

// What an anchor stands for, when it is not the number of a box.
inline constexpr int32_t kBackground = -1;
inline constexpr int32_t kIgnored = -2;  // too near to a box for background, too far for the box

struct MatchRule {
  float positive = 0.5F;    // an anchor stands for the box of its highest IoU when that is at least so much
  float background = 0.5F;  // and for background below this
  // Whether every box gets its best anchor, however low their IoU. Paper: the first of equals, and of two boxes that
  // ask for one anchor the first. Torchvision: all equals, each for the box that is its own best.
  enum class Best { kFirst, kAllEquals } best = Best::kFirst;
};

MatchRule rule_of(Style style);

// Intersection over union, in float32, with torchvision's order of operations; 0 when both have no area.
float iou(const Corners& a, const Corners& b);

// For each anchor the number of a box, kBackground or kIgnored. One box after the other: memory for the anchors, not
// for anchors times boxes. A box that no anchor touches has no anchor.
std::vector<int32_t> match(std::span<const Corners> anchors, std::span<const Corners> boxes, const MatchRule& rule);

}  // namespace frn::detection
