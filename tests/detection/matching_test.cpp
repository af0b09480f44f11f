#include "frn/detection/matching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "frn/core/random.h"

namespace frn::detection {
namespace {

Corners random_box(Random& random) {
  // Few values, so that equal overlaps happen.
  const auto x = static_cast<float>(8 * random.below(20));
  const auto y = static_cast<float>(8 * random.below(20));
  return {x, y, x + static_cast<float>(8 * (1 + random.below(10))), y + static_cast<float>(8 * (1 + random.below(10)))};
}

// The definition, with a matrix of all overlaps.
std::vector<int32_t> slow_match(const std::vector<Corners>& anchors, const std::vector<Corners>& boxes,
                                const MatchRule& rule) {
  std::vector<int32_t> out(anchors.size(), kBackground);
  std::vector<int32_t> best(anchors.size(), 0);
  for (size_t a = 0; a < anchors.size(); ++a) {
    for (size_t b = 0; b < boxes.size(); ++b) {
      if (iou(boxes[b], anchors[a]) > iou(boxes[static_cast<size_t>(best[a])], anchors[a]))
        best[a] = static_cast<int32_t>(b);
    }
    const float most = iou(boxes[static_cast<size_t>(best[a])], anchors[a]);
    out[a] = most >= rule.positive ? best[a] : most < rule.background ? kBackground : kIgnored;
  }
  for (size_t b = boxes.size(); b-- > 0;) {  // the first box has the last word
    float most = 0;
    for (const auto& anchor : anchors) most = std::max(most, iou(boxes[b], anchor));
    if (most == 0) continue;
    for (size_t a = 0; a < anchors.size(); ++a) {
      if (iou(boxes[b], anchors[a]) != most) continue;
      out[a] = rule.best == MatchRule::Best::kFirst ? static_cast<int32_t>(b) : best[a];
      if (rule.best == MatchRule::Best::kFirst) break;
    }
  }
  return out;
}

TEST(Matching, EqualsItsDefinitionWithAllOverlapsAtHand) {
  Random random(RandomKey(7));
  for (int round = 0; round < 200; ++round) {
    std::vector<Corners> anchors;
    std::vector<Corners> boxes;
    for (int i = 0; i < 60; ++i) anchors.push_back(random_box(random));
    for (int64_t i = 0, count = 1 + random.below(6); i < count; ++i) boxes.push_back(random_box(random));
    for (const auto style : {Style::kPaper, Style::kTorchvision}) {
      ASSERT_EQ(match(anchors, boxes, rule_of(style)), slow_match(anchors, boxes, rule_of(style))) << round;
    }
  }
}

TEST(Matching, WithoutBoxesAllIsBackground) {
  const std::vector<Corners> anchors{{0, 0, 8, 8}, {8, 8, 16, 16}};
  EXPECT_EQ(match(anchors, {}, rule_of(Style::kPaper)), (std::vector<int32_t>{kBackground, kBackground}));
}

TEST(Matching, GivesEveryBoxAnAnchorHoweverSmallItIs) {
  const auto anchors = make_anchors(Style::kPaper, 256, 256);
  const std::vector<Corners> boxes{{100, 100, 102, 101}, {3, 3, 250, 255}};
  const auto matches = match(anchors.boxes, boxes, rule_of(Style::kPaper));
  EXPECT_EQ(std::count(matches.begin(), matches.end(), 0), 1);
  EXPECT_GE(std::count(matches.begin(), matches.end(), 1), 1);
}

TEST(Matching, ABoxThatNoAnchorTouchesHasNone) {
  const std::vector<Corners> anchors{{0, 0, 8, 8}};
  const std::vector<Corners> boxes{{100, 100, 108, 108}};
  for (const auto style : {Style::kPaper, Style::kTorchvision}) {
    EXPECT_EQ(match(anchors, boxes, rule_of(style)), std::vector<int32_t>{kBackground});
  }
}

TEST(Matching, IgnoresWhatIsBetweenTheThresholdsInTorchvisionsStyleAlone) {
  const std::vector<Corners> anchors{{0, 0, 10, 10}, {0, 0, 10, 22}};
  const std::vector<Corners> boxes{{0, 0, 10, 10}};  // overlaps 1 and 10/22
  EXPECT_EQ(match(anchors, boxes, rule_of(Style::kTorchvision)), (std::vector<int32_t>{0, kIgnored}));
  EXPECT_EQ(match(anchors, boxes, rule_of(Style::kPaper)), (std::vector<int32_t>{0, kBackground}));
}

TEST(Matching, OverlapOfBoxesWithoutAreaIsZero) {
  EXPECT_EQ(iou({1, 1, 1, 1}, {1, 1, 1, 1}), 0);
  EXPECT_EQ(iou({0, 0, 4, 4}, {2, 2, 2, 3}), 0);
}

}  // namespace
}  // namespace frn::detection
