// Non-maximum suppression: of boxes that overlap, the one with the best score stays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace frn {

// The boxes that stay, best score first: a box goes when its IoU with a better one that stays is above the threshold.
// Of equal scores the lower index is the better. Bit for bit what torchvision.ops.nms gives for float32 on the CPU.
// boxes [N, 4]: left, top, right, bottom. Throws frn::Error for a score that is not a number.
std::vector<int64_t> nms(std::span<const float> boxes, std::span<const float> scores, double iou_threshold);

struct DetectionOptions {
  float score_threshold = 0.05F;  // only scores above it count
  double iou_threshold = 0.5;
  int64_t most = 100;
};

struct Detected {
  int64_t box = 0;
  int64_t category = 0;
  float score = 0;
  bool operator==(const Detected&) const = default;
};

// What a detector found, best first: NMS within each category, then the best `most` of all categories. Of equal scores
// the lower box*categories + category is the better. boxes [N, 4] as above, scores [N, categories].
//
// It takes pairs of box and category by their score until `most` stay, and sorts no more of them than it looks at: a
// few thousand of ten million. Throws frn::Error for a score that is not a number.
std::vector<Detected> best_detections(std::span<const float> boxes, std::span<const float> scores, int64_t categories,
                                      const DetectionOptions& options = {});

}  // namespace frn
