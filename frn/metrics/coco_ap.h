// COCO's average precision and recall of boxes: what pycocotools' COCOeval computes for "bbox", to the last digits but
// for the order of its sums, and in a fraction of its time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "frn/core/metric.h"

namespace frn {

// As COCO's files have it: the left upper corner, in pixels.
struct CocoBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  bool operator==(const CocoBox&) const = default;
};

struct CocoTruth {
  int64_t id = 0;
  int64_t image_id = 0;
  int64_t category_id = 0;
  CocoBox box;
  double area = 0;     // of the object, not of its box: it decides who is small, medium or large
  bool crowd = false;  // stands for several objects that nobody counted: to find it is neither right nor wrong
};

struct CocoDetection {
  int64_t image_id = 0;
  int64_t category_id = 0;
  CocoBox box;
  double score = 0;
};

struct CocoOptions {
  std::vector<int64_t> max_detections{1, 10, 100};  // per image and category, best first; AP takes the largest
  int threads = 1;                                  // the result does not depend on it
  bool curves = false;                              // whether to fill CocoCategoryScores::precision
};

constexpr size_t kCocoThresholds = 10;  // of IoU: 0.5, 0.55 .. 0.95
constexpr size_t kCocoRecalls = 101;    // 0, 0.01 .. 1

// All from 0 to 1, or -1 where there is no truth to find.
struct CocoCategoryScores {
  int64_t id = 0;
  int64_t truths = 0;  // without crowds
  double ap = -1;
  double ap50 = -1;
  double ap75 = -1;
  double ar = -1;                   // at the largest of max_detections
  std::vector<double> precision{};  // with CocoOptions::curves: [kCocoThresholds, kCocoRecalls]
};

struct CocoScores {
  double ap = -1;  // mean over categories, IoU thresholds and recalls
  double ap50 = -1;
  double ap75 = -1;
  double ap_small = -1;   // area up to 32*32
  double ap_medium = -1;  // from there to 96*96
  double ap_large = -1;
  std::vector<int64_t> max_detections{};  // ascending
  std::vector<double> ar{};               // for each of them
  double ar_small = -1;
  double ar_medium = -1;
  double ar_large = -1;
  std::vector<CocoCategoryScores> categories{};  // by ascending id
};

// The images and categories are those that the truth lists, whether or not there is anything in them. What belongs to
// other categories does not count, nor do truths of other images. Throws frn::Error for a detection of another image,
// and for a box or score that is not finite.
CocoScores evaluate_coco(std::span<const int64_t> image_ids, std::span<const int64_t> category_ids,
                         std::span<const CocoTruth> truths, std::span<const CocoDetection> detections,
                         const CocoOptions& options = {});

// AP, AP50, AP75, APs, APm, APl, AR1, AR10, AR100 (as max_detections has it), ARs, ARm, ARl: the order in which
// everyone lists them.
NamedValues named_values(const CocoScores& scores);

}  // namespace frn
