// Precision@1 and Recall@5 count what they say.
#include "frn/metrics/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/random.h"

namespace frn {
namespace {

std::vector<float> random_scores(Random& random, size_t count) {
  std::vector<float> out(count);
  for (auto& score : out) score = static_cast<float>(random.uniform(-1, 1));
  return out;
}

std::vector<int64_t> random_labels(Random& random, size_t count, int64_t classes) {
  std::vector<int64_t> out(count);
  for (auto& label : out) label = random.below(classes);
  return out;
}

// Where the label stands when the classes are sorted.
int64_t place_of(const float* scores, int64_t classes, int64_t label) {
  std::vector<int64_t> order(static_cast<size_t>(classes));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  return std::find(order.begin(), order.end(), label) - order.begin();
}

TEST(TopK, EqualsASortedList) {
  constexpr size_t kClasses = 12;
  Random random(RandomKey(1));
  const auto scores = random_scores(random, 200 * kClasses);
  const auto labels = random_labels(random, 200, kClasses);
  TopK score;
  score.add(std::span(scores).first(50 * kClasses), kClasses, std::span(labels).first(50));
  score.add(std::span(scores).subspan(50 * kClasses), kClasses, std::span(labels).subspan(50));
  int64_t first = 0;
  int64_t first_five = 0;
  for (size_t n = 0; n < labels.size(); ++n) {
    const int64_t place = place_of(scores.data() + n * kClasses, kClasses, labels[n]);
    first += place < 1 ? 1 : 0;
    first_five += place < 5 ? 1 : 0;
  }
  EXPECT_EQ(score.samples, 200);
  EXPECT_EQ(score.first, first);
  EXPECT_EQ(score.first_five, first_five);
  EXPECT_DOUBLE_EQ(score.precision_at_1(), static_cast<double>(score.first) / 200);
}

TEST(TopK, EqualScoresGoToTheLowerClass) {
  TopK score;
  score.add(std::vector<float>(64), 8, std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(score.first, 1);
  EXPECT_EQ(score.first_five, 5);
}

TEST(TopK, WhatIsNotANumberIsNeverRight) {
  TopK score;
  score.add(std::vector<float>(24, NAN), 8, std::vector<int64_t>(3));
  EXPECT_EQ(score.samples, 3);
  EXPECT_EQ(score.first, 0);
  EXPECT_EQ(score.first_five, 0);
}

TEST(TopK, WithFewClassesRecallAt5IsOne) {
  Random random(RandomKey(2));
  TopK score;
  score.add(random_scores(random, size_t{20} * 3), 3, random_labels(random, 20, 3));
  EXPECT_EQ(score.recall_at_5(), 1);
}

TEST(TopK, ALabelOutsideTheClassesIsAnError) {
  TopK score;
  EXPECT_THROW(score.add(std::vector<float>(3), 3, std::vector<int64_t>{3}), Error);
  EXPECT_THROW(score.add(std::vector<float>(3), 3, std::vector<int64_t>{-1}), Error);
  EXPECT_EQ(TopK().precision_at_1(), 0);
}

TEST(TopK, ScoresThatAreNotOnePerClassAndLabelAreAnError) {
  TopK score;
  EXPECT_THROW(score.add(std::vector<float>(5), 3, std::vector<int64_t>{0, 1}), Error);
  EXPECT_THROW(score.add({}, -1, {}), Error);
}

}  // namespace
}  // namespace frn
