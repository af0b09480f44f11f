#include "frn/metrics/nms.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "frn/core/error.h"

namespace frn {
namespace {

struct Corners {
  float left, top, right, bottom;

  float area() const { return (right - left) * (bottom - top); }
};

Corners corners_of(std::span<const float> boxes, size_t index) {
  const float* const box = boxes.data() + 4 * index;
  return {box[0], box[1], box[2], box[3]};
}

// In float, operation by operation as torchvision's kernel has it, so that both decide alike in the last bit. Two boxes
// without area give what is not a number, and that is not above.
bool overlaps(const Corners& better, const Corners& box, double iou_threshold) {
  const float width = std::max(0.0F, std::min(better.right, box.right) - std::max(better.left, box.left));
  const float height = std::max(0.0F, std::min(better.bottom, box.bottom) - std::max(better.top, box.top));
  const float common = width * height;
  return common / (better.area() + box.area() - common) > iou_threshold;
}

// Keeps the box unless it overlaps with one that was kept before.
bool keep(std::vector<Corners>& kept, const Corners& box, double iou_threshold) {
  for (const auto& better : kept) {
    if (overlaps(better, box, iou_threshold)) return false;
  }
  kept.push_back(box);
  return true;
}

void check_sizes(std::span<const float> boxes, std::span<const float> scores, int64_t categories) {
  const size_t count = boxes.size() / 4;
  if (boxes.size() % 4 == 0 && categories > 0 && scores.size() == count * static_cast<size_t>(categories)) return;
  throw Error("nms", "boxes and scores must have shapes [N, 4] and [N, " + std::to_string(categories) + "] but have " +
                         std::to_string(boxes.size()) + " and " + std::to_string(scores.size()) + " numbers");
}

void check_score(float score, size_t index) {
  if (!std::isnan(score)) return;
  throw Error("nms",
              "scores must be numbers but score " + std::to_string(index) + " is not; look at what the model computes");
}

struct Pair {
  float score = 0;
  size_t index = 0;  // box*categories + category

  bool operator<(const Pair& other) const { return score != other.score ? score > other.score : index < other.index; }
};

// Gives pairs by their score, some thousands at a time.
class ByScore {
 public:
  ByScore(std::span<const float> scores, float threshold, size_t wanted)
      : scores_(scores), threshold_(threshold), wanted_(wanted) {}

  // The best of those that were not given yet; empty at the end.
  std::span<const Pair> next() {
    if (at_end_) return {};
    best_.clear();
    float limit = threshold_;  // what a score must be above to be among the best
    for (size_t i = next_above(0, limit); i < scores_.size(); i = next_above(i + 1, limit)) {
      check_score(scores_[i], i);
      const Pair pair{scores_[i], i};
      if (given_ && !(last_ < pair)) continue;
      best_.push_back(pair);
      if (best_.size() == 2 * wanted_) limit = drop_worse_half();
    }
    at_end_ = best_.size() <= wanted_ && limit == threshold_;
    std::sort(best_.begin(), best_.end());
    best_.resize(std::min(best_.size(), wanted_));
    if (!best_.empty()) last_ = best_.back();
    given_ = true;
    wanted_ *= kGrowth;
    return best_;
  }

 private:
  static constexpr size_t kGrowth = 8;
  static constexpr size_t kBlock = 32;

  // The first from `begin` on that is above the limit, or not a number. Whole blocks are compared at once: nearly all
  // are passed over.
  size_t next_above(size_t begin, float limit) const {
    size_t i = begin;
    const auto is_above = [&](size_t at) { return !(scores_[at] <= limit); };
    for (; i < scores_.size() && i % kBlock != 0; ++i) {
      if (is_above(i)) return i;
    }
    for (; i + kBlock <= scores_.size(); i += kBlock) {
      int above = 0;
      for (size_t j = 0; j < kBlock; ++j) above |= is_above(i + j) ? 1 : 0;
      if (above != 0) break;
    }
    while (i < scores_.size() && !is_above(i)) ++i;
    return i;
  }

  // Those that come later have a higher index: with the limit's own score they are worse than all that are left.
  float drop_worse_half() {
    const auto middle = best_.begin() + static_cast<std::ptrdiff_t>(wanted_ - 1);
    std::nth_element(best_.begin(), middle, best_.end());
    best_.resize(wanted_);
    return best_.back().score;
  }

  std::span<const float> scores_;
  float threshold_;
  size_t wanted_;
  std::vector<Pair> best_;
  Pair last_;  // the worst that was given
  bool given_ = false;
  bool at_end_ = false;
};

}  // namespace

std::vector<int64_t> nms(std::span<const float> boxes, std::span<const float> scores, double iou_threshold) {
  check_sizes(boxes, scores, 1);
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) {
    check_score(scores[i], i);
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<Corners> kept;
  std::vector<int64_t> out;
  for (const size_t i : order) {
    if (keep(kept, corners_of(boxes, i), iou_threshold)) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}

std::vector<Detected> best_detections(std::span<const float> boxes, std::span<const float> scores, int64_t categories,
                                      const DetectionOptions& options) {
  check_sizes(boxes, scores, categories);
  const auto width = static_cast<size_t>(categories);
  const size_t most = std::min(static_cast<size_t>(std::max<int64_t>(0, options.most)), scores.size());
  std::vector<std::vector<Corners>> kept(width);
  std::vector<Detected> out;
  // Of a trained detector's pairs every tenth or so stays.
  ByScore by_score(scores, options.score_threshold, std::max<size_t>(4096, 8 * most));
  for (auto batch = by_score.next(); !batch.empty() && out.size() < most; batch = by_score.next()) {
    for (const auto& [score, index] : batch) {
      const size_t box = index / width;
      const size_t category = index % width;
      if (!keep(kept[category], corners_of(boxes, box), options.iou_threshold)) continue;
      out.push_back({static_cast<int64_t>(box), static_cast<int64_t>(category), score});
      if (out.size() == most) return out;
    }
  }
  return out;
}

}  // namespace frn
