#include "frn/detection/matching.h"

#include <algorithm>

namespace frn::detection {
namespace {

float area(const Corners& box) { return (box.right - box.left) * (box.bottom - box.top); }

float overlap(const Corners& a, const Corners& b) {
  const float width = std::max(std::min(a.right, b.right) - std::max(a.left, b.left), 0.0F);
  const float height = std::max(std::min(a.bottom, b.bottom) - std::max(a.top, b.top), 0.0F);
  return width * height;
}

// Without a branch in its loop, so that the compiler uses vectors. An anchor always has an area, so nothing is divided
// by 0.
void all_ious(std::span<const Corners> anchors, const Corners& box, std::span<float> out) {
  const float box_area = area(box);
  for (size_t i = 0; i < anchors.size(); ++i) {
    const float common = overlap(anchors[i], box);
    out[i] = common / (box_area + area(anchors[i]) - common);
  }
}

class Matcher {
 public:
  Matcher(std::span<const Corners> anchors, const MatchRule& rule)
      : anchors_(anchors),
        rule_(rule),
        ious_(anchors.size()),
        highest_(anchors.size()),
        box_(anchors.size(), 0),
        forced_(anchors.size(), kNotForced) {}

  void add(const Corners& box, int32_t number) {
    all_ious(anchors_, box, ious_);
    float most = 0;
    for (size_t i = 0; i < ious_.size(); ++i) {
      most = std::max(most, ious_[i]);
      if (ious_[i] > highest_[i]) {
        highest_[i] = ious_[i];
        box_[i] = number;
      }
    }
    if (most > 0) force(most, number);
  }

  std::vector<int32_t> result() const {
    std::vector<int32_t> out(anchors_.size());
    const bool first = rule_.best == MatchRule::Best::kFirst;
    for (size_t i = 0; i < out.size(); ++i) {
      if (forced_[i] != kNotForced) {
        out[i] = first ? forced_[i] : box_[i];
      } else {
        out[i] = highest_[i] >= rule_.positive ? box_[i] : highest_[i] < rule_.background ? kBackground : kIgnored;
      }
    }
    return out;
  }

 private:
  static constexpr int32_t kNotForced = -1;

  void force(float most, int32_t number) {
    for (size_t i = 0; i < ious_.size(); ++i) {
      if (ious_[i] != most) continue;
      if (forced_[i] == kNotForced) forced_[i] = number;
      if (rule_.best == MatchRule::Best::kFirst) return;
    }
  }

  std::span<const Corners> anchors_;
  MatchRule rule_;
  std::vector<float> ious_;     // with the box at hand
  std::vector<float> highest_;  // of all boxes so far
  std::vector<int32_t> box_;    // whose it is
  std::vector<int32_t> forced_;
};

}  // namespace

MatchRule rule_of(Style style) {
  if (style == Style::kPaper) return {};
  return {.positive = 0.5F, .background = 0.4F, .best = MatchRule::Best::kAllEquals};
}

float iou(const Corners& a, const Corners& b) {
  const float common = overlap(a, b);
  const float together = area(a) + area(b) - common;
  return together > 0 ? common / together : 0;
}

std::vector<int32_t> match(std::span<const Corners> anchors, std::span<const Corners> boxes, const MatchRule& rule) {
  if (boxes.empty()) return std::vector<int32_t>(anchors.size(), kBackground);
  Matcher matcher(anchors, rule);
  for (size_t i = 0; i < boxes.size(); ++i) matcher.add(boxes[i], static_cast<int32_t>(i));
  return matcher.result();
}

}  // namespace frn::detection
