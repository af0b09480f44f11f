// The rate of every step, and the moving average.
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/utils.h>

#include "frn/train/moving_average.h"
#include "frn/train/schedule.h"

namespace frn::train {
namespace {

TEST(Schedule, WarmsUpFromZeroAlongACosineAndDecaysToZeroAlongAnother) {
  const Schedule schedule{.lr_peak = 2, .steps = 110, .warmup_steps = 10};
  EXPECT_EQ(schedule.rate(0), 0);
  EXPECT_NEAR(schedule.rate(5), 1, 1e-15);
  EXPECT_EQ(schedule.rate(10), 2);
  EXPECT_NEAR(schedule.rate(60), 1, 1e-15);
  EXPECT_NEAR(schedule.rate(110), 0, 1e-15);
  for (int64_t step = 10; step < 110; ++step) EXPECT_LT(schedule.rate(step + 1), schedule.rate(step));
}

TEST(Schedule, StepsDropAtTheirShares) {
  const Schedule schedule{.decay = Decay::kStep, .lr_peak = 1, .steps = 100, .drops = {0.5, 0.75}, .drop_factor = 0.1};
  EXPECT_EQ(schedule.rate(0), 1);
  EXPECT_EQ(schedule.rate(49), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(50), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(75), 0.01);
}

TEST(Schedule, AConstantRateStaysAndStillWarmsUp) {
  const Schedule schedule{.decay = Decay::kConstant, .lr_peak = 3, .steps = 10, .warmup_steps = 2};
  EXPECT_EQ(schedule.rate(0), 0);
  EXPECT_NEAR(schedule.rate(1), 1.5, 1e-15);
  EXPECT_EQ(schedule.rate(9), 3);
}

TEST(MovingAverage, FollowsItsFormulaAndSwapsBack) {
  torch::nn::BatchNorm1d layer(2);
  MovingAverage average(*layer, 0.5);
  const torch::NoGradGuard no_grad;
  layer->weight.fill_(3);
  layer->num_batches_tracked.fill_(7);
  average.update(0);  // decay (1 + 0)/(10 + 0)
  EXPECT_NEAR(average.averages().at("weight")[0].item<double>(), 0.1 * 1 + 0.9 * 3, 1e-6);
  EXPECT_EQ(average.averages().at("num_batches_tracked").item<int64_t>(), 7);
  average.update(1000);
  EXPECT_NEAR(average.averages().at("weight")[0].item<double>(), 0.5 * 2.8 + 0.5 * 3, 1e-6);
  average.swap();
  EXPECT_NEAR(layer->weight[0].item<double>(), 2.9, 1e-6);
  average.swap();
  EXPECT_EQ(layer->weight[0].item<double>(), 3);
}

}  // namespace
}  // namespace frn::train
