// Suppression against its definition, written out; tests/parity/test_nms.py has torchvision's.
#include "frn/metrics/nms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/metrics/boxes.h"

namespace frn {
namespace {

struct Boxes {
  std::vector<float> corners;
  std::vector<float> scores;
};

// In a small field, so that many overlap. Scores have few values, so that many are equal.
Boxes random_boxes(Random& random, int64_t count, int64_t categories) {
  Boxes out;
  for (int64_t i = 0; i < count; ++i) {
    const auto left = static_cast<float>(random.uniform(0, 40));
    const auto top = static_cast<float>(random.uniform(0, 40));
    out.corners.insert(out.corners.end(), {left, top, left + static_cast<float>(random.uniform(0, 30)),
                                           top + static_cast<float>(random.uniform(0, 30))});
  }
  for (int64_t i = 0; i < count * categories; ++i) out.scores.push_back(static_cast<float>(random.below(50)) / 50);
  return out;
}

Rectangle rectangle(const Boxes& boxes, int64_t index) {
  const float* const box = boxes.corners.data() + 4 * index;
  return {box[0], box[1], box[2], box[3]};
}

// Everything sorted, everything compared.
std::vector<Detected> slow_detections(const Boxes& boxes, int64_t categories, const DetectionOptions& options) {
  std::vector<Detected> pairs;
  for (size_t i = 0; i < boxes.scores.size(); ++i) {
    if (boxes.scores[i] <= options.score_threshold) continue;
    const auto index = static_cast<int64_t>(i);
    pairs.push_back({index / categories, index % categories, boxes.scores[i]});
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Detected& a, const Detected& b) { return a.score > b.score; });
  std::vector<Detected> kept;
  for (const auto& pair : pairs) {
    const bool overlaps = std::any_of(kept.begin(), kept.end(), [&](const Detected& better) {
      return better.category == pair.category &&
             iou(rectangle(boxes, better.box), rectangle(boxes, pair.box)) > options.iou_threshold;
    });
    if (!overlaps) kept.push_back(pair);
  }
  if (static_cast<int64_t>(kept.size()) > options.most) kept.resize(static_cast<size_t>(options.most));
  return kept;
}

TEST(Nms, IsItsDefinition) {
  for (uint64_t round = 0; round < 200; ++round) {
    Random random(RandomKey(3).with(round));
    const auto boxes = random_boxes(random, random.below(80), 1);
    const double threshold = random.uniform(0.1, 0.9);
    const auto expected = slow_detections(boxes, 1, {-1, threshold, 1000});
    const auto kept = nms(boxes.corners, boxes.scores, threshold);
    ASSERT_EQ(kept.size(), expected.size()) << round;
    for (size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(kept[i], expected[i].box) << round;
  }
}

TEST(Nms, OfEqualScoresTheFirstStays) {
  const std::vector<float> boxes{0, 0, 10, 10, 0, 0, 10, 10, 20, 20, 30, 30};
  EXPECT_EQ(nms(boxes, std::vector<float>{0.5, 0.5, 0.5}, 0.5), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(nms(boxes, std::vector<float>{0.5, 0.6, 0.7}, 0.5), (std::vector<int64_t>{2, 1}));
}

TEST(Nms, AnOverlapOfTheThresholdItselfStays) {
  // The common part is 1/2 of all.
  const std::vector<float> boxes{0, 0, 2, 1, 0, 0, 1, 1};
  EXPECT_EQ(nms(boxes, std::vector<float>{1, 0.5}, 0.5).size(), 2);
  EXPECT_EQ(nms(boxes, std::vector<float>{1, 0.5}, 0.49).size(), 1);
}

TEST(Nms, BoxesWithoutAreaSuppressNothing) {
  const std::vector<float> boxes{5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 10, 10};
  EXPECT_EQ(nms(boxes, std::vector<float>{1, 0.9F, 0.8F}, 0).size(), 3);
  EXPECT_TRUE(nms({}, {}, 0.5).empty());
}

TEST(Nms, WhatIsNotANumberIsRefused) {
  const std::vector<float> boxes(4);
  EXPECT_THROW(nms(boxes, std::vector<float>{NAN}, 0.5), Error);
  EXPECT_THROW(best_detections(boxes, std::vector<float>{0, NAN, 1}, 3), Error);
}

TEST(Nms, SizesThatDoNotFitAreRefused) {
  EXPECT_THROW(nms(std::vector<float>(5), std::vector<float>(1), 0.5), Error);
  EXPECT_THROW(nms(std::vector<float>(8), std::vector<float>(1), 0.5), Error);
  EXPECT_THROW(best_detections(std::vector<float>(4), std::vector<float>(3), 2), Error);
  EXPECT_THROW(best_detections({}, {}, 0), Error);
}

TEST(BestDetections, AreThoseOfEverythingSorted) {
  for (uint64_t round = 0; round < 300; ++round) {
    Random random(RandomKey(4).with(round));
    const int64_t categories = 1 + random.below(5);
    const auto boxes = random_boxes(random, random.below(60), categories);
    const DetectionOptions options{static_cast<float>(random.uniform(-0.1, 0.9)), random.uniform(0.1, 0.9),
                                   random.below(40)};
    ASSERT_EQ(best_detections(boxes.corners, boxes.scores, categories, options),
              slow_detections(boxes, categories, options))
        << round;
  }
}

// More pairs than are taken at a time, and so many of them suppressed that several batches are needed.
TEST(BestDetections, GoOnUntilEnoughStay) {
  constexpr int64_t kCategories = 3;
  Random random(RandomKey(5));
  Boxes boxes;
  for (int64_t i = 0; i < 30'000; ++i) {
    const auto place = static_cast<float>(100 * (i % 7));
    boxes.corners.insert(boxes.corners.end(), {place, 0, place + 10, 10});
    for (int64_t c = 0; c < kCategories; ++c) boxes.scores.push_back(static_cast<float>(random.below(1000)) / 1000);
  }
  // Those of one more place are the last that are looked at.
  for (size_t i = 0; i < 4; ++i) boxes.corners[boxes.corners.size() - 4 + i] += 5000;
  for (size_t c = 0; c < kCategories; ++c) boxes.scores[boxes.scores.size() - 1 - c] = 1e-4F;
  const DetectionOptions options{0, 0.5, 100};
  const auto found = best_detections(boxes.corners, boxes.scores, kCategories, options);
  EXPECT_EQ(found, slow_detections(boxes, kCategories, options));
  EXPECT_EQ(found.size(), 8 * kCategories);
}

TEST(BestDetections, WithAllScoresEqualTakeTheFirst) {
  Boxes boxes;
  for (int64_t i = 0; i < 20'000; ++i) {
    const auto place = static_cast<float>(20 * i);
    boxes.corners.insert(boxes.corners.end(), {place, 0, place + 10, 10});
  }
  boxes.scores.assign(20'000, 0.01F);
  const auto found = best_detections(boxes.corners, boxes.scores, 1, {1e-8F, 0.6, 100});
  ASSERT_EQ(found.size(), 100);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(found[static_cast<size_t>(i)].box, i);
}

TEST(Boxes, IouIsNeverWhatIsNotANumber) {
  EXPECT_DOUBLE_EQ(iou({0, 0, 2, 2}, {1, 0, 3, 2}), 1.0 / 3);
  EXPECT_EQ(iou({0, 0, 2, 2}, {0, 0, 2, 2}), 1);
  EXPECT_EQ(iou({0, 0, 0, 0}, {0, 0, 0, 0}), 0);
  EXPECT_EQ(iou({0, 0, 1, 1}, {1, 0, 2, 1}), 0);
  EXPECT_EQ(iou({2, 2, 0, 0}, {0, 0, 2, 2}), 0);
  EXPECT_EQ(iou({0, 0, 1e300, 1e300}, {0, 0, 1e300, 1e300}), 0);
}

}  // namespace
}  // namespace frn
