// The last step of a detector: from the network's numbers for one image to a short list of boxes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "frn/detection/anchors.h"

namespace frn::detection {

struct Detection {
  Corners box;
  int32_t label = 0;
  float score = 0;
  bool operator==(const Detection&) const = default;
};

struct DetectOptions {
  Style style = Style::kPaper;              // of anchors and codes
  double least_score = 1e-8;                // a detection's score is above this
  double overlap = 0.6;                     // of two boxes of a class whose IoU is above this, the lower one goes
  int64_t most = 100;                       // detections of an image
  std::optional<int64_t> most_per_level{};  // candidates that a level may give, the best ones; none: all
  bool cut_first = false;                   // boxes are cut at the edges before they are compared; else at the end
};

// Paper: as above. Torchvision: score 0.05, IoU 0.5, 300 detections, 1,000 per level, cut first.
DetectOptions detect_options_of(Style style);

// Of one image of this size: logits [anchors, classes] and codes [anchors, 4], row after row. By falling score; of
// equal ones the lower anchor, then the lower class comes first. Boxes without an area after the cut are left out.
// Throws frn::Error for a logit or code that is not a number.
// (best_detections of metrics/nms.h, on the boxes that the codes stand for.)
std::vector<Detection> detect(std::span<const float> logits, std::span<const float> codes, const Anchors& anchors,
                              int64_t height, int64_t width, const DetectOptions& options);

}  // namespace frn::detection
