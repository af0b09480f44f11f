#include "frn/metrics/coco_groups.h"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "frn/core/error.h"

namespace frn::coco {
namespace {

struct AreaRange {
  double least;
  double most;
};
constexpr std::array<AreaRange, kRanges> kAreaRanges{
    {{0, 1e10}, {0, 32.0 * 32}, {32.0 * 32, 96.0 * 96}, {96.0 * 96, 1e10}}};

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

bool is_finite(const CocoBox& box) {
  return std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.width) && std::isfinite(box.height);
}

void check(const CocoTruth& truth) {
  if (is_finite(truth.box) && std::isfinite(truth.area)) return;
  throw Error("coco", "the box and area of every annotation must be finite but those of annotation " +
                          std::to_string(truth.id) + " are not; mend or delete it");
}

void check(const CocoDetection& detection) {
  const bool box = is_finite(detection.box);
  if (box && std::isfinite(detection.score)) return;
  throw Error("coco", std::string("the ") + (box ? "score" : "box") +
                          " of every detection must be finite but one of image " + std::to_string(detection.image_id) +
                          " is not; look at what the model computes");
}

// Brings values into the order of their categories (kNone: left out), else as they came. value_of takes the place that
// a value has and the one that it gets.
template <typename T, typename ValueOf>
Grouped<T> grouped(std::span<const uint32_t> category_of, size_t categories, ValueOf value_of) {
  Grouped<T> out;
  out.begin.assign(categories + 1, 0);
  for (const uint32_t category : category_of) {
    if (category != kNone) ++out.begin[category + 1];
  }
  std::partial_sum(out.begin.begin(), out.begin.end(), out.begin.begin());
  out.all.resize(out.begin.back());
  auto next = out.begin;
  for (size_t i = 0; i < category_of.size(); ++i) {
    if (category_of[i] == kNone) continue;
    const size_t position = next[category_of[i]]++;
    out.all[position] = value_of(i, position);
  }
  return out;
}

}  // namespace

Bits ranges_of(double area) {
  constexpr Bits kOneRange = (Bits{1} << kCocoThresholds) - 1;
  Bits out = 0;
  for (size_t i = 0; i < kRanges; ++i) {
    const bool inside = area >= kAreaRanges[i].least && area <= kAreaRanges[i].most;
    out |= (inside ? kOneRange : 0) << (i * kCocoThresholds);
  }
  return out;
}

// The area is width*height, as pycocotools has it: right - left would be rounded twice.
Place place_of(const CocoBox& box) {
  return {{box.x, box.y, box.x + box.width, box.y + box.height}, box.width * box.height};
}

Grouped<Truth> group_truths(std::span<const CocoTruth> truths, const IdIndex& images, const IdIndex& categories) {
  std::vector<uint32_t> category_of(truths.size());
  std::vector<uint32_t> image_of(truths.size());
  for (size_t i = 0; i < truths.size(); ++i) {
    check(truths[i]);
    const auto image = images.find(truths[i].image_id);
    image_of[i] = image.value_or(kNone);
    category_of[i] = image ? categories.find(truths[i].category_id).value_or(kNone) : kNone;
  }
  return grouped<Truth>(category_of, categories.size(), [&](size_t i, size_t) {
    const auto& truth = truths[i];
    return Truth{place_of(truth.box), image_of[i], truth.crowd, truth.crowd ? 0 : ranges_of(truth.area), 0};
  });
}

Detections group_detections(std::span<const CocoDetection> detections, const IdIndex& images,
                            const IdIndex& categories) {
  if (detections.size() >= kNone) throw Error("coco", "there must be fewer than 4 billion detections");
  std::vector<uint32_t> category_of(detections.size());
  std::vector<uint32_t> image_of(detections.size());
  for (size_t i = 0; i < detections.size(); ++i) {
    check(detections[i]);
    const auto image = images.find(detections[i].image_id);
    if (!image) {
      throw Error("coco", "every detection must be of an image that the truth lists but one is of image " +
                              std::to_string(detections[i].image_id) + "; are both of the same set?");
    }
    image_of[i] = *image;
    category_of[i] = categories.find(detections[i].category_id).value_or(kNone);
  }
  Detections out;
  out.entries = grouped<Entry>(category_of, categories.size(), [&](size_t i, size_t position) {
    return Entry{detections[i].score, image_of[i], static_cast<uint32_t>(position)};
  });
  out.boxes = grouped<CocoBox>(category_of, categories.size(), [&](size_t i, size_t) { return detections[i].box; }).all;
  return out;
}

}  // namespace frn::coco
