// Precision@1 and Recall@5 count what they say; the loss is the formula's.
#include "frn/metrics/top_k.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frn/core/error.h"
#include "frn/losses/cross_entropy.h"

namespace frn {
namespace {

TEST(TopK, EqualsASortedList) {
  const auto logits = at::randn({200, 12});
  const auto labels = at::randint(12, {200});
  TopK score;
  score.add(logits.narrow(0, 0, 50), labels.narrow(0, 0, 50));
  score.add(logits.narrow(0, 50, 150), labels.narrow(0, 50, 150));
  const auto order = std::get<1>(at::sort(logits, /*stable=*/true, 1, /*descending=*/true));
  const auto hits = order.eq(labels.unsqueeze(1));
  EXPECT_EQ(score.samples, 200);
  EXPECT_EQ(score.first, hits.narrow(1, 0, 1).sum().item<int64_t>());
  EXPECT_EQ(score.first_five, hits.narrow(1, 0, 5).sum().item<int64_t>());
  EXPECT_DOUBLE_EQ(score.precision_at_1(), static_cast<double>(score.first) / 200);
}

TEST(TopK, EqualScoresGoToTheLowerClass) {
  TopK score;
  score.add(at::zeros({8, 8}), at::tensor({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(score.first, 1);
  EXPECT_EQ(score.first_five, 5);
}

TEST(TopK, WhatIsNotANumberIsNeverRight) {
  TopK score;
  score.add(at::zeros({3, 8}).fill_(NAN), at::zeros({3}, at::kLong));
  EXPECT_EQ(score.samples, 3);
  EXPECT_EQ(score.first, 0);
  EXPECT_EQ(score.first_five, 0);
}

TEST(TopK, WithFewClassesRecallAt5IsOne) {
  TopK score;
  score.add(at::randn({20, 3}), at::randint(3, {20}));
  EXPECT_EQ(score.recall_at_5(), 1);
}

TEST(TopK, ALabelOutsideTheClassesIsAnError) {
  TopK score;
  EXPECT_THROW(score.add(at::randn({1, 3}), at::tensor({3})), Error);
  EXPECT_EQ(TopK().precision_at_1(), 0);
}

TEST(CrossEntropy, WithSmoothingIsTheFormula) {
  const auto logits = at::randn({6, 4}, at::kDouble);
  const auto labels = at::tensor({0, 1, 2, 3, 0, 1}, at::kLong);
  const auto log = at::log_softmax(logits, 1);
  double sum = 0;
  for (int64_t n = 0; n < 6; ++n) {
    for (int64_t c = 0; c < 4; ++c) {
      const double truth = (c == labels[n].item<int64_t>() ? 0.9 : 0) + 0.1 / 4;
      sum -= truth * log[n][c].item<double>();
    }
  }
  // A sum of 24 products of magnitude below 10 in float64.
  EXPECT_NEAR(cross_entropy(logits, labels, 0.1).item<double>(), sum / 6, 1e-13);
  EXPECT_THROW(cross_entropy(logits, labels, 1), Error);
  EXPECT_THROW(cross_entropy(logits, at::zeros({5}, at::kLong)), Error);
}

}  // namespace
}  // namespace frn
