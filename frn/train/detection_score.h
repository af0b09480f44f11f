// Private to train/: what a detector found in a set, and COCO's numbers of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frn/train/detection.h"

namespace frn::train {

std::vector<Metric> coco_metrics(const std::vector<int64_t>& max_detections);

std::unique_ptr<Score> make_detection_score(const Detection& task, const DetectionOptions& options);
// Of training: how many anchors of an image stand for a box.
std::unique_ptr<Score> make_positives_score(const Detection& task);

}  // namespace frn::train
