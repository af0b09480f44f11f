// detection/ holds what lies between a detector's maps and boxes in an image: anchors, which of them stand for which
// object, codes of boxes, and the choice of final detections. Numbers alone: no torch, no models, no data.
//
// Here: the boxes at fixed places that a detector's outputs are relative to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace frn::detection {

// In pixels, from the left and upper edge of the image; right and bottom are outside. As torchvision's "xyxy".
struct Corners {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
  bool operator==(const Corners&) const = default;
};

// Which of two families of constants: the paper's detector (TensorFlow's Object Detection API), or torchvision's
// retinanet_resnet50_fpn, to compare with it and to load its weights.
enum class Style { kPaper, kTorchvision };

// The maps P3 to P7, of stride 8 to 128.
inline constexpr int kFirstLevel = 3;
inline constexpr int kLevels = 5;
inline constexpr int64_t kCoarsestStride = int64_t{1} << (kFirstLevel + kLevels - 1);

// The height or width of level 0 to 4 (P3 to P7) for an image side: every halving rounds up.
int64_t level_side(int64_t image_side, int level);

int64_t anchors_per_cell(Style style);

struct Anchors {
  // Level after level, row after row, cell after cell; within a cell as the network's channels are ordered.
  std::vector<Corners> boxes;
  std::array<int64_t, kLevels> per_level{};
};

// Paper: sides 4*stride*{1, sqrt 2}, width to height 1, 2 and 1/2, around the middle of a cell. Torchvision: sides
// 4*stride*{1, 2^(1/3), 2^(2/3)} cut to whole numbers, height to width 1/2, 1 and 2, around the cell's upper left
// corner, rounded.
Anchors make_anchors(Style style, int64_t height, int64_t width);

}  // namespace frn::detection
