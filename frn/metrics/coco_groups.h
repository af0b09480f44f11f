// Truths and detections by category, as the evaluator walks over them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "frn/metrics/boxes.h"
#include "frn/metrics/coco_ap.h"
#include "frn/metrics/id_index.h"

namespace frn::coco {

// A bit for each range of areas and threshold of IoU: range*kCocoThresholds + threshold. What is decided for each of
// them is decided for all at once.
using Bits = uint64_t;
constexpr size_t kRanges = 4;  // all, small, medium, large
constexpr size_t kAll = 0;
constexpr size_t kBits = kRanges * kCocoThresholds;
static_assert(kBits <= 64);

// Every bit of the ranges that hold an area. Their limits belong to them: 32*32 is small and medium.
Bits ranges_of(double area);

struct Place {
  Rectangle box;
  double box_area;
};

Place place_of(const CocoBox& box);

struct Truth {
  Place place;
  uint32_t image;
  bool crowd;
  Bits real;   // where it is to be found; in other ranges it is ignored
  Bits taken;  // where a detection has it
};

// A detection, and the order in which COCO takes them: by score, then by image, then as they came.
struct Entry {
  double score;
  uint32_t image;
  uint32_t position;  // among the boxes

  bool operator<(const Entry& other) const {
    if (score != other.score) return score > other.score;
    return image != other.image ? image < other.image : position < other.position;
  }
};

template <typename T>
struct Grouped {
  std::vector<T> all;
  std::vector<size_t> begin;  // of each category, and the end

  std::span<const T> of(size_t category) const {
    return std::span(all).subspan(begin[category], begin[category + 1] - begin[category]);
  }
};

struct Detections {
  Grouped<Entry> entries;
  std::vector<CocoBox> boxes;  // those of a category stand together, so that they stay in the cache
};

// Each truth's `image` and each entry's is its place among `images`; so it is with categories.
Grouped<Truth> group_truths(std::span<const CocoTruth> truths, const IdIndex& images, const IdIndex& categories);
Detections group_detections(std::span<const CocoDetection> detections, const IdIndex& images,
                            const IdIndex& categories);

}  // namespace frn::coco
