// The fast evaluation against the definition (slow_coco.h) on small random cases, and by hand where a rule is easily
// missed. tests/parity/test_coco.py has pycocotools.
#include "frn/metrics/coco_ap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "tests/metrics/slow_coco.h"

namespace frn {
namespace {

using slow::Case;

CocoScores evaluate(const Case& all, const CocoOptions& options = {}) {
  return evaluate_coco(all.images, all.categories, all.truths, all.detections, options);
}

CocoBox random_box(Random& random) {
  static const std::vector<double> sides{0, 10, 31.5, 32, 40, 95, 96, 100, 150};
  const auto side = [&] { return sides[static_cast<size_t>(random.below(static_cast<int64_t>(sides.size())))]; };
  return {static_cast<double>(random.below(60)), static_cast<double>(random.below(60)), side(), side()};
}

// Close to a truth, or exactly it: equal IoUs must come up.
CocoBox near(Random& random, const CocoBox& box) {
  if (random.below(3) == 0) return box;
  const auto moved = [&](double value, double scale) { return value + scale * random.uniform(-0.3, 0.3); };
  return {moved(box.x, box.width), moved(box.y, box.height), moved(box.width, box.width),
          moved(box.height, box.height)};
}

// Areas: of the box, at the limits of the ranges, or any.
double random_area(Random& random, const CocoBox& box) {
  switch (random.below(4)) {
    case 0:
      return 1024;
    case 1:
      return 9216;
    case 2:
      return random.uniform(0, 20000);
    default:
      return box.width * box.height;
  }
}

// The same a few pixels to the right.
CocoTruth beside(Random& random, CocoTruth truth) {
  truth.box.x += static_cast<double>(2 * random.below(8));
  return truth;
}

// In the middle of a truth and another one beside it, where there is one: its IoU with both is the same.
CocoBox between(const std::vector<CocoTruth>& truths, const CocoTruth& truth) {
  auto out = truth.box;
  for (const auto& other : truths) {
    const auto& box = other.box;
    const bool beside = box.y == out.y && box.width == out.width && box.height == out.height && box.x != out.x;
    if (!beside || other.image_id != truth.image_id || other.category_id != truth.category_id) continue;
    out.x = (out.x + box.x) / 2;
    break;
  }
  return out;
}

Case random_case(RandomKey key) {
  Random random(key);
  Case out;
  for (int64_t i = 0; i < 1 + random.below(4); ++i) out.images.push_back(random.below(1000));
  for (int64_t i = 0; i < 1 + random.below(3); ++i) out.categories.push_back(random.below(90) - 5);
  const auto one_of = [&](const auto& list) { return list[static_cast<size_t>(random.below(std::ssize(list)))]; };
  for (int64_t i = random.below(25); i > 0; --i) {
    CocoTruth truth{.image_id = one_of(out.images), .category_id = one_of(out.categories), .box = random_box(random)};
    if (!out.truths.empty() && random.below(3) == 0) truth = beside(random, out.truths.back());
    truth.id = i - 1;
    truth.area = random_area(random, truth.box);
    truth.crowd = random.below(6) == 0;
    out.truths.push_back(truth);
  }
  for (int64_t i = random.below(40); i > 0; --i) {
    CocoDetection found{one_of(out.images), one_of(out.categories), random_box(random),
                        static_cast<double>(random.below(8)) / 8};
    if (!out.truths.empty() && random.below(4) != 0) {
      const auto& truth = one_of(out.truths);
      found.image_id = truth.image_id;
      found.category_id = truth.category_id;
      found.box = random.below(4) == 0 ? between(out.truths, truth) : near(random, truth.box);
    }
    out.detections.push_back(found);
  }
  return out;
}

constexpr double kClose = 1e-12;  // sums in another order

void expect_equal_to_definition(const Case& all, const CocoScores& scores, const std::vector<int64_t>& counts) {
  const std::vector<double> thresholds(slow::kThresholds.begin(), slow::kThresholds.end());
  const std::set<int64_t> unique(all.categories.begin(), all.categories.end());
  const std::vector<int64_t> categories(unique.begin(), unique.end());
  const auto most = counts.back();
  const auto of = [&](size_t range, const std::vector<double>& at, int64_t count) {
    return slow::averages(all, categories, slow::kRanges[range], at, count);
  };
  EXPECT_NEAR(scores.ap, of(0, thresholds, most).ap, kClose);
  EXPECT_NEAR(scores.ap50, of(0, {0.5}, most).ap, kClose);
  EXPECT_NEAR(scores.ap75, of(0, {0.75}, most).ap, kClose);
  EXPECT_NEAR(scores.ap_small, of(1, thresholds, most).ap, kClose);
  EXPECT_NEAR(scores.ap_medium, of(2, thresholds, most).ap, kClose);
  EXPECT_NEAR(scores.ap_large, of(3, thresholds, most).ap, kClose);
  EXPECT_NEAR(scores.ar_small, of(1, thresholds, most).ar, kClose);
  EXPECT_NEAR(scores.ar_medium, of(2, thresholds, most).ar, kClose);
  EXPECT_NEAR(scores.ar_large, of(3, thresholds, most).ar, kClose);
  ASSERT_EQ(scores.ar.size(), counts.size());
  for (size_t i = 0; i < counts.size(); ++i) EXPECT_NEAR(scores.ar[i], of(0, thresholds, counts[i]).ar, kClose);
  ASSERT_EQ(scores.categories.size(), categories.size());
  for (size_t i = 0; i < categories.size(); ++i) {
    const auto& category = scores.categories[i];
    EXPECT_EQ(category.id, categories[i]);
    const auto own = slow::averages(all, {categories[i]}, slow::kRanges[0], thresholds, most);
    EXPECT_NEAR(category.ap, own.ap, kClose);
    EXPECT_NEAR(category.ar, own.ar, kClose);
  }
}

TEST(CocoAp, IsItsDefinition) {
  for (uint64_t round = 0; round < 300; ++round) {
    const auto all = random_case(RandomKey(1).with(round));
    const std::vector<int64_t> counts{1, 2 + static_cast<int64_t>(round % 3), 5 + static_cast<int64_t>(round % 40)};
    expect_equal_to_definition(all, evaluate(all, {.max_detections = counts}), counts);
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST(CocoAp, DoesNotDependOnThreads) {
  for (uint64_t round = 0; round < 20; ++round) {
    const auto all = random_case(RandomKey(2).with(round));
    const auto one = named_values(evaluate(all));
    for (const int threads : {2, 3, 64}) EXPECT_EQ(named_values(evaluate(all, {.threads = threads})), one);
  }
}

TEST(CocoAp, CurvesAreWhatTheAveragesAreOf) {
  const auto all = random_case(RandomKey(1).with(7));
  EXPECT_TRUE(evaluate(all).categories[0].precision.empty());
  for (const auto& category : evaluate(all, {.curves = true}).categories) {
    if (category.truths == 0) continue;
    ASSERT_EQ(category.precision.size(), kCocoThresholds * kCocoRecalls);
    double sum = 0;
    for (const double precision : category.precision) sum += precision;
    EXPECT_NEAR(category.ap, sum / (kCocoThresholds * kCocoRecalls), kClose);
    const auto curve = slow::curve_of(all, category.id, slow::kRanges[0], 0.75, 100);
    for (size_t i = 0; i < kCocoRecalls; ++i) {
      EXPECT_EQ(category.precision[5 * kCocoRecalls + i], curve.precision[i]) << i;
    }
  }
}

// One image, one category.
Case small_case(std::vector<CocoTruth> truths, std::vector<CocoDetection> detections) {
  for (auto& truth : truths) truth.image_id = truth.category_id = 1;
  for (auto& found : detections) found.image_id = found.category_id = 1;
  return {{1}, {1}, std::move(truths), std::move(detections)};
}

// Precision is right/(right + wrong + 2.2e-16), as pycocotools has it: with one detection a bit below 1.
constexpr double kOne = 1 / (1 + std::numeric_limits<double>::epsilon());

TEST(CocoAp, AnnotationZeroIsFoundLikeAnyOther) {
  const auto all = small_case({{.id = 0, .box = {0, 0, 50, 50}, .area = 2500}}, {{.box = {0, 0, 50, 50}, .score = 1}});
  EXPECT_NEAR(evaluate(all).ap, kOne, kClose);
}

TEST(CocoAp, OfEqualOverlapsTheLaterTruthIsTaken) {
  const CocoTruth left{.box = {0, 0, 100, 100}, .area = 10000};
  const CocoTruth right{.box = {20, 0, 100, 100}, .area = 10000};
  // The first lies in the middle, with an IoU of 90/110; the second on the right one, with 80/120 for the left one.
  const std::vector<CocoDetection> found{{.box = {10, 0, 100, 100}, .score = 0.9},
                                         {.box = {20, 0, 100, 100}, .score = 0.8}};
  EXPECT_NEAR(evaluate(small_case({left, right}, found), {.max_detections = {2}}).ar[0], (4 * 1 + 6 * 0.5) / 10,
              kClose);
  EXPECT_NEAR(evaluate(small_case({right, left}, found), {.max_detections = {2}}).ar[0], (7 * 1 + 3 * 0.5) / 10,
              kClose);
}

TEST(CocoAp, ACrowdIsNeitherFoundNorMissed) {
  const CocoTruth crowd{.box = {0, 0, 100, 100}, .area = 10000, .crowd = true};
  const CocoTruth object{.box = {200, 0, 100, 100}, .area = 10000};
  // Both lie within the crowd: their IoU with it is their own area's.
  const std::vector<CocoDetection> found{{.box = {0, 0, 10, 10}, .score = 0.9},
                                         {.box = {50, 50, 10, 10}, .score = 0.8},
                                         {.box = {200, 0, 100, 100}, .score = 0.7}};
  const auto scores = evaluate(small_case({crowd, object}, found));
  EXPECT_NEAR(scores.ap, kOne, kClose);
  EXPECT_EQ(scores.categories[0].truths, 1);
  EXPECT_EQ(evaluate(small_case({crowd}, found)).ap, -1);
}

TEST(CocoAp, LimitsOfAreasBelongToBothRanges) {
  const auto scores = evaluate(
      small_case({{.box = {0, 0, 32, 32}, .area = 32.0 * 32}, {.box = {100, 0, 96, 96}, .area = 96.0 * 96}}, {}));
  EXPECT_EQ(scores.ap_small, 0);
  EXPECT_EQ(scores.ap_medium, 0);
  EXPECT_EQ(scores.ap_large, 0);
  EXPECT_EQ(evaluate(small_case({{.box = {0, 0, 31, 32}, .area = 31.0 * 32}}, {})).ap_medium, -1);
}

TEST(CocoAp, WithNothingToFindIsMinusOne) {
  for (const auto& [key, value] : named_values(evaluate({}))) EXPECT_EQ(value, -1) << key;
  const auto scores = evaluate(small_case({}, {{.box = {0, 0, 5, 5}, .score = 1}}));
  for (const auto& [key, value] : named_values(scores)) EXPECT_EQ(value, -1) << key;
  const auto nothing_found = evaluate(small_case({{.box = {0, 0, 5, 5}, .area = 25}}, {}));
  EXPECT_EQ(nothing_found.ap, 0);
  EXPECT_EQ(nothing_found.ar, (std::vector<double>{0, 0, 0}));
}

TEST(CocoAp, NamesAreThoseThatEveryoneKnows) {
  std::string keys;
  for (const auto& [key, value] : named_values(evaluate({}, {.max_detections = {300, 1, 10, 1}}))) keys += key + " ";
  EXPECT_EQ(keys, "AP AP50 AP75 APs APm APl AR1 AR10 AR300 ARs ARm ARl ");
}

TEST(CocoAp, OtherCategoriesDoNotCount) {
  auto all = small_case({{.box = {0, 0, 50, 50}, .area = 2500}}, {{.box = {0, 0, 50, 50}, .score = 0.5}});
  all.detections.push_back({1, 77, {0, 0, 50, 50}, 0.9});
  all.truths.push_back({.id = 5, .image_id = 1, .category_id = 77, .box = {0, 0, 50, 50}, .area = 2500});
  all.truths.push_back({.id = 6, .image_id = 9, .category_id = 1, .box = {0, 0, 50, 50}, .area = 2500});
  const auto scores = evaluate(all);
  EXPECT_NEAR(scores.ap, kOne, kClose);
  EXPECT_EQ(scores.categories.size(), 1);
}

std::string message(const Case& all, const CocoOptions& options = {}) {
  try {
    evaluate(all, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CocoAp, WhatCannotBeJudgedIsRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message(small_case({}, {{.box = {0, 0, 5, 5}, .score = NAN}})),
            "[coco] the score of every detection must be finite but one of image 1 is not; look at what the model "
            "computes");
  EXPECT_NE(message(small_case({}, {{.box = {0, 0, kInfinity, 5}, .score = 1}})), "");
  EXPECT_NE(message(small_case({{.id = 3, .box = {0, NAN, 5, 5}}}, {})), "");
  auto other_image = small_case({}, {{.box = {0, 0, 5, 5}}});
  other_image.detections[0].image_id = 5;
  EXPECT_EQ(message(other_image),
            "[coco] every detection must be of an image that the truth lists but one is of image 5; are both of the "
            "same set?");
  EXPECT_NE(message({}, {.max_detections = {}}), "");
  EXPECT_NE(message({}, {.max_detections = {0, 10}}), "");
  EXPECT_NE(message({}, {.threads = 0}), "");
}

// Sizes whose products are beyond a double, and ids at both ends of int64_t.
TEST(CocoAp, ExtremesGiveNumbers) {
  auto all = small_case({{.box = {0, 0, 1e200, 1e200}, .area = 1e300}, {.box = {0, 0, 1e-200, 1e-200}, .area = 0}},
                        {{.box = {0, 0, 1e200, 1e200}, .score = 1e300}, {.box = {0, 0, 1e-200, 1e-200}, .score = -1}});
  all.images.push_back(std::numeric_limits<int64_t>::min());
  all.images.push_back(std::numeric_limits<int64_t>::max());
  for (const auto& [key, value] : named_values(evaluate(all))) EXPECT_TRUE(value >= -1 && value <= 1) << key;
}

}  // namespace
}  // namespace frn
