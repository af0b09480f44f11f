// The loss is the formula's.
#include "frn/losses/cross_entropy.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "frn/core/error.h"

namespace frn {
namespace {

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
