// The rate of every step, SGD against PyTorch's, and the moving average.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "frn/train/moving_average.h"
#include "frn/train/schedule.h"
#include "frn/train/sgd.h"
#include "tests/core/files.h"

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

// Two like networks with the same gradients, one under our SGD, one under PyTorch's.
void compare_with_pytorch(at::MemoryFormat format, at::ScalarType type) {
  torch::manual_seed(3);
  torch::nn::Conv2d ours(torch::nn::Conv2dOptions(3, 5, 3));
  torch::nn::Conv2d theirs(torch::nn::Conv2dOptions(3, 5, 3));
  ours->to(type);
  theirs->to(type);
  const torch::NoGradGuard no_grad;
  ours->weight.set_data(ours->weight.contiguous(format));
  theirs->weight.copy_(ours->weight);
  theirs->bias.copy_(ours->bias);
  Sgd sgd({.decayed = {{"weight", ours->weight}}, .not_decayed = {{"bias", ours->bias}}},
          {.momentum = 0.9, .weight_decay = 0.01});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{theirs->weight}, std::make_unique<torch::optim::SGDOptions>(
                                                       torch::optim::SGDOptions(0.3).momentum(0.9).weight_decay(0.01)));
  groups.emplace_back(std::vector{theirs->bias},
                      std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(0.3).momentum(0.9)));
  torch::optim::SGD reference(groups, torch::optim::SGDOptions(0.3));
  for (int step = 0; step < 5; ++step) {
    for (const auto& [a, b] : {std::pair(&ours->weight, &theirs->weight), {&ours->bias, &theirs->bias}}) {
      const auto gradient = torch::randn(a->sizes(), a->options());
      a->mutable_grad() = gradient.clone();
      b->mutable_grad() = gradient.clone();
    }
    sgd.step(0.3);
    reference.step();
  }
  // PyTorch's vector code rounds a product and its addition once, ours twice: at most half a unit apart at each of the
  // three operations, on numbers below 16, carried through 5 steps by a momentum that adds up to less than 5.
  const double unit = type == at::kFloat ? 0x1p-24 : 0x1p-53;
  const double bound = 16 * unit * 3 * 5 * 5;
  EXPECT_LE((ours->weight - theirs->weight).abs().max().item<double>(), bound);
  EXPECT_LE((ours->bias - theirs->bias).abs().max().item<double>(), bound);
  EXPECT_LT(ours->weight.abs().max().item<double>(), 16);
}

TEST(Sgd, EqualsPyTorchsUpToRounding) { compare_with_pytorch(at::MemoryFormat::Contiguous, at::kFloat); }
TEST(Sgd, EqualsPyTorchsWhenTheGradientLiesInAnotherLayout) {
  compare_with_pytorch(at::MemoryFormat::ChannelsLast, at::kFloat);
}
TEST(Sgd, EqualsPyTorchsInFloat64) { compare_with_pytorch(at::MemoryFormat::Contiguous, at::kDouble); }

TEST(Sgd, LeavesParametersWithoutAGradientAlone) {
  auto parameter = torch::ones({3}).requires_grad_();
  Sgd sgd({.decayed = {{"w", parameter}}, .not_decayed = {}}, {.momentum = 0.9, .weight_decay = 0.1});
  sgd.step(1);
  EXPECT_TRUE(torch::equal(parameter.detach(), torch::ones({3})));
}

TEST(Sgd, TheGradientNormIsTheNormOfAllGradientsTogetherAndScales) {
  auto a = torch::ones({2}).requires_grad_();
  auto b = torch::ones({1}).requires_grad_();
  Sgd sgd({.decayed = {{"a", a}}, .not_decayed = {{"b", b}}}, {});
  a.mutable_grad() = torch::tensor({2.0F, 3.0F});
  b.mutable_grad() = torch::tensor({6.0F});
  EXPECT_NEAR(sgd.gradient_norm(), 7, 1e-6);
  sgd.scale_gradients(0.5);
  EXPECT_NEAR(sgd.gradient_norm(), 3.5, 1e-6);
}

TEST(Sgd, VelocitiesOfAnotherModelAreRefusedAndNothingChanges) {
  auto a = torch::ones({2}).requires_grad_();
  Sgd sgd({.decayed = {{"a", a}}, .not_decayed = {}}, {});
  EXPECT_NE(error_of([&] { sgd.load_velocities({{"b", torch::ones({2})}}); }).find("'a'"), std::string::npos);
  EXPECT_NE(error_of([&] { sgd.load_velocities({{"a", torch::ones({3})}}); }).find("'a'"), std::string::npos);
  EXPECT_TRUE(torch::equal(sgd.velocities().at("a"), torch::zeros({2})));
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
