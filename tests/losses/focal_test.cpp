// The focal loss against its formula in float64, and its gradient against torch's own.
#include "frn/losses/focal.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "frn/core/error.h"

namespace frn {
namespace {

struct Problem {
  at::Tensor logits;   // float32
  at::Tensor classes;  // some -1, some -2
  at::Tensor weights;
};

Problem problem_of(int64_t images, int64_t places, int64_t classes, double spread) {
  return {at::randn({images, places, classes}) * spread - 2, at::randint(-2, classes, {images, places}, at::kLong),
          at::randn({images}, at::kDouble).abs() + 0.1};
}

// The sum as the header writes it, element by element in float64.
double formula(const Problem& problem) {
  const auto logits = problem.logits.to(at::kDouble).contiguous();
  double sum = 0;
  for (int64_t n = 0; n < logits.size(0); ++n) {
    double of_image = 0;
    for (int64_t a = 0; a < logits.size(1); ++a) {
      const auto label = problem.classes[n][a].item<int64_t>();
      for (int64_t c = 0; c < logits.size(2) && label != -2; ++c) {
        const double x = logits[n][a][c].item<double>();
        const double p = 1 / (1 + std::exp(-x));
        const double log_p = -std::log1p(std::exp(-x));
        const double log_not_p = -x - std::log1p(std::exp(-x));
        of_image += c == label ? -0.25 * (1 - p) * (1 - p) * log_p : -0.75 * p * p * log_not_p;
      }
    }
    sum += of_image * problem.weights[n].item<double>();
  }
  return sum;
}

TEST(FocalLoss, IsItsFormula) {
  for (const auto& [places, classes] : {std::pair<int64_t, int64_t>{5, 3}, {37, 1}, {100, 20}}) {
    const auto problem = problem_of(3, places, classes, 3);
    const double expected = formula(problem);
    // Terms are of one sign, each right to a few roundings of float32.
    EXPECT_NEAR(focal_loss(problem.logits, problem.classes, problem.weights).item<double>(), expected, 1e-6 * expected);
    const auto wide = problem.logits.to(at::kDouble);
    EXPECT_NEAR(focal_loss(wide, problem.classes, problem.weights).item<double>(), expected, 1e-12 * expected);
  }
}

TEST(FocalLoss, HasTheGradientThatTorchFindsInFloat64) {
  const auto problem = problem_of(2, 61, 7, 5);
  auto narrow = problem.logits.clone().set_requires_grad(true);
  focal_loss(narrow, problem.classes, problem.weights).backward();
  auto wide = problem.logits.to(at::kDouble).set_requires_grad(true);
  focal_loss(wide, problem.classes, problem.weights).backward();
  const auto error = (narrow.grad().to(at::kDouble) - wide.grad()).abs();
  // A dozen roundings of float32, relative to each element: small gradients count as much as large ones.
  const auto allowed = wide.grad().abs() * 4e-6 + 1e-30;
  EXPECT_TRUE((error <= allowed).all().item<bool>()) << (error / (wide.grad().abs() + 1e-30)).max().item<double>();
}

TEST(FocalLoss, StaysFiniteForLogitsOfAnySize) {
  const auto logits = at::tensor({-1e4F, -100.0F, -30.0F, 0.0F, 30.0F, 100.0F, 1e4F, 88.0F}).reshape({1, 4, 2});
  for (const int64_t label : {-1, 0, 1}) {
    auto x = logits.clone().set_requires_grad(true);
    const auto loss = focal_loss(x, at::ones({1, 4}, at::kLong) * label, at::ones({1}, at::kDouble));
    loss.backward();
    EXPECT_TRUE(std::isfinite(loss.item<double>()));
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  }
}

TEST(FocalLoss, IsTheSameToTheBitForAnyNumberOfThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "OpenMP's threads are out of the thread sanitizer's sight (tests/tsan-suppressions.txt)";
#endif
  const auto problem = problem_of(2, 20'000, 4, 2);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = focal_loss(problem.logits, problem.classes, problem.weights).item<float>();
  at::set_num_threads(3);
  const auto three = focal_loss(problem.logits, problem.classes, problem.weights).item<float>();
  at::set_num_threads(before);
  EXPECT_EQ(one, three);
}

TEST(FocalLoss, OfOtherGammasIsTheFormulaToo) {
  const auto problem = problem_of(1, 9, 2, 1);
  // gamma 0 and alpha 1/2: half the cross entropy of sigmoids.
  const auto counted = (problem.classes != -2).unsqueeze(2);
  auto truth = at::zeros({1, 9, 2});
  for (int64_t a = 0; a < 9; ++a) {
    const auto label = problem.classes[0][a].item<int64_t>();
    if (label >= 0) truth[0][a][label] = 1;
  }
  const auto entropy = -(truth * at::log_sigmoid(problem.logits) + (1 - truth) * at::log_sigmoid(-problem.logits));
  const double expected = 0.5 * (entropy * counted).sum().item<double>() * problem.weights[0].item<double>();
  EXPECT_NEAR(focal_loss(problem.logits, problem.classes, problem.weights, 0.5, 0).item<double>(), expected,
              1e-5 * expected);
}

TEST(FocalLoss, RefusesWhatDoesNotFit) {
  const auto weights = at::ones({1}, at::kDouble);
  const auto classes = at::zeros({1, 4}, at::kLong);
  EXPECT_THROW(focal_loss(at::zeros({1, 5, 2}), classes, weights), Error);
  EXPECT_THROW(focal_loss(at::zeros({1, 4, 2}), classes + 2, weights), Error);
  EXPECT_THROW(focal_loss(at::zeros({1, 4, 2}), classes - 3, weights), Error);
  EXPECT_THROW(focal_loss(at::zeros({1, 4, 2}), classes, weights, 2), Error);
  EXPECT_THROW(focal_loss(at::zeros({1, 4, 2}), classes.to(at::kInt), weights), Error);
}

}  // namespace
}  // namespace frn
