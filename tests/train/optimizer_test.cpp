// Optimisers against PyTorch's, and their state through checkpoints.
#include "frn/train/optimizer.h"

#include <torch/nn/modules/conv.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "frn/train/adamw.h"
#include "frn/train/gradients.h"
#include "frn/train/sgd.h"
#include "tests/core/files.h"

namespace frn::train {
namespace {

constexpr double kRate = 0.1;
constexpr double kDecay = 0.02;  // LibTorch takes 0.01, AdamW's default, for "not given", and then the optimiser's own

// Two like networks with the same gradients, one under our optimiser, one under PyTorch's; the first parameter decays,
// the second does not.
class Pair {
 public:
  Pair(at::MemoryFormat format, at::ScalarType type)
      : ours(torch::nn::Conv2dOptions(3, 5, 3)), theirs(torch::nn::Conv2dOptions(3, 5, 3)) {
    torch::manual_seed(3);
    const torch::NoGradGuard no_grad;
    ours->to(type);
    theirs->to(type);
    ours->weight.normal_();
    ours->weight.set_data(ours->weight.contiguous(format));
    theirs->weight.copy_(ours->weight);
    theirs->bias.copy_(ours->bias);
  }

  ParameterGroups groups() const {
    return {.decayed = {{"weight", ours->weight}}, .not_decayed = {{"bias", ours->bias}}};
  }

  template <class Options>
  std::vector<torch::optim::OptimizerParamGroup> their_groups(const Options& decayed,
                                                              const Options& not_decayed) const {
    std::vector<torch::optim::OptimizerParamGroup> out;
    out.emplace_back(std::vector{theirs->weight}, std::make_unique<Options>(decayed));
    out.emplace_back(std::vector{theirs->bias}, std::make_unique<Options>(not_decayed));
    return out;
  }

  void run(Optimizer& mine, torch::optim::Optimizer& reference, int steps) const {
    for (int step = 0; step < steps; ++step) {
      for (const auto& [a, b] : {std::pair(&ours->weight, &theirs->weight), {&ours->bias, &theirs->bias}}) {
        const auto gradient = torch::randn(a->sizes(), a->options().requires_grad(false));
        a->mutable_grad() = gradient.clone();
        b->mutable_grad() = gradient.clone();
      }
      mine.step(kRate);
      reference.step();
    }
  }

  void expect_within(double bound) const {
    EXPECT_LE((ours->weight - theirs->weight).abs().max().item<double>(), bound);
    EXPECT_LE((ours->bias - theirs->bias).abs().max().item<double>(), bound);
    EXPECT_LT(ours->weight.abs().max().item<double>(), 16);
  }

  torch::nn::Conv2d ours, theirs;
};

double unit_of(at::ScalarType type) { return type == at::kFloat ? 0x1p-24 : 0x1p-53; }

struct Case {
  at::MemoryFormat format;
  at::ScalarType type;
};

class Optimizers : public testing::TestWithParam<Case> {};

// PyTorch's vector code rounds a product and its addition once, ours twice: at most half a unit apart at each of four
// operations, on numbers below 16, carried through 10 steps by a momentum that adds up to less than 10.
TEST_P(Optimizers, SgdEqualsPyTorchsOverTenSteps) {
  for (const bool nesterov : {false, true}) {
    const Pair pair(GetParam().format, GetParam().type);
    Sgd sgd(pair.groups(), {.momentum = 0.9, .weight_decay = kDecay, .nesterov = nesterov});
    const auto plain = torch::optim::SGDOptions(kRate).momentum(0.9).nesterov(nesterov);
    auto decayed = plain;
    torch::optim::SGD reference(pair.their_groups(decayed.weight_decay(kDecay), plain), plain);
    pair.run(sgd, reference, 10);
    pair.expect_within(16 * unit_of(GetParam().type) * 4 * 10 * 10);
  }
}

// Per step: three roundings of a weight below 16, and an update of at most kRate*5 whose mean and root of squares carry
// up to 8 + 20 units (of the gradients' size, ten steps' worth).
TEST_P(Optimizers, AdamWEqualsPyTorchsOverTenSteps) {
  const Pair pair(GetParam().format, GetParam().type);
  AdamW adamw(pair.groups(), {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = kDecay});
  const auto plain = torch::optim::AdamWOptions(kRate).betas({0.8, 0.95}).eps(1e-6).weight_decay(0);
  auto decayed = plain;
  torch::optim::AdamW reference(pair.their_groups(decayed.weight_decay(kDecay), plain), plain);
  pair.run(adamw, reference, 10);
  pair.expect_within(10 * unit_of(GetParam().type) * (3 * 16 / 2.0 + kRate * 5 * (8 + 20)));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Optimizers,
                         testing::Values(Case{at::MemoryFormat::Contiguous, at::kFloat},
                                         // The gradient lies in another layout than the weight.
                                         Case{at::MemoryFormat::ChannelsLast, at::kFloat},
                                         Case{at::MemoryFormat::Contiguous, at::kDouble}));

TEST(Sgd, LeavesParametersWithoutAGradientAlone) {
  auto parameter = torch::ones({3}).requires_grad_();
  const ParameterGroups groups{.decayed = {{"w", parameter}}, .not_decayed = {}};
  Sgd(groups, {.momentum = 0.9, .weight_decay = 0.1}).step(1);
  AdamW(groups, {.weight_decay = 0.1}).step(1);
  EXPECT_TRUE(torch::equal(parameter.detach(), torch::ones({3})));
}

TEST(Gradients, HaveTheNormOfAllTogetherAndScale) {
  auto a = torch::ones({2}).requires_grad_();
  auto b = torch::ones({1}).requires_grad_();
  Gradients gradients({.decayed = {{"a", a}}, .not_decayed = {{"b", b}}});
  a.mutable_grad() = torch::tensor({2.0F, 3.0F});
  b.mutable_grad() = torch::tensor({6.0F});
  EXPECT_NEAR(gradients.norm(), 7, 1e-6);
  gradients.scale(0.5);
  EXPECT_NEAR(gradients.norm(), 3.5, 1e-6);
  EXPECT_EQ(gradients.first_bad(), "");
  b.mutable_grad().fill_(NAN);
  EXPECT_EQ(gradients.first_bad(), "b");
  gradients.clear();
  EXPECT_FALSE(a.grad().defined());
}

TEST(Sgd, VelocitiesOfAnotherModelAreRefusedAndNothingChanges) {
  auto a = torch::ones({2}).requires_grad_();
  Sgd sgd({.decayed = {{"a", a}}, .not_decayed = {}}, {});
  EXPECT_NE(error_of([&] { sgd.load({{"momentum.b", torch::ones({2})}}); }).find("'a'"), std::string::npos);
  EXPECT_NE(error_of([&] { sgd.load({{"momentum.a", torch::ones({3})}}); }).find("'a'"), std::string::npos);
  EXPECT_TRUE(torch::equal(sgd.state().at("momentum.a"), torch::zeros({2})));
}

// Copies of a state, as a checkpoint has them.
NamedTensors copied(const NamedTensors& state) {
  NamedTensors out;
  for (const auto& [name, tensor] : state) out.emplace(name, tensor.clone());
  return out;
}

// Six steps in one go, and three by one optimiser and three by another that took over its state: the same bits.
template <class Make>
void expect_exact_after_loading(const Make& make) {
  const auto start = torch::randn({50});
  const auto train = [&](bool cut) {
    auto w = start.clone().requires_grad_();
    auto optimizer = make(w);
    torch::manual_seed(11);
    for (int step = 0; step < 6; ++step) {
      if (cut && step == 3) {
        const auto state = copied(optimizer->state());
        optimizer = make(w);
        optimizer->load(state);
      }
      w.mutable_grad() = torch::randn({50});
      optimizer->step(0.1 / (1 + step));
    }
    return w.detach();
  };
  EXPECT_TRUE(torch::equal(train(false), train(true)));
}

TEST(Optimizers, GoOnExactlyFromTheirState) {
  expect_exact_after_loading([](at::Tensor& w) -> std::unique_ptr<Optimizer> {
    return std::make_unique<Sgd>(ParameterGroups{.decayed = {{"w", w}}, .not_decayed = {}},
                                 Sgd::Options{.nesterov = true});
  });
  expect_exact_after_loading([](at::Tensor& w) -> std::unique_ptr<Optimizer> {
    return std::make_unique<AdamW>(ParameterGroups{.decayed = {{"w", w}}, .not_decayed = {}}, AdamW::Options{});
  });
}

TEST(WrappedOptimizer, TakesTheRateKeepsItsRatiosAndGoesOnExactly) {
  expect_exact_after_loading([](at::Tensor& w) {
    return wrap_optimizer(std::make_shared<torch::optim::Adam>(std::vector{w}, torch::optim::AdamOptions(123)));
  });
  // By hand: w -= lr*g for the first group, twice that for the second.
  auto a = torch::zeros({1}).requires_grad_();
  auto b = torch::zeros({1}).requires_grad_();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{a}, std::make_unique<torch::optim::SGDOptions>(0.5));
  groups.emplace_back(std::vector{b}, std::make_unique<torch::optim::SGDOptions>(1.0));
  const auto optimizer = wrap_optimizer(std::make_shared<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.5)));
  a.mutable_grad() = torch::ones({1});
  b.mutable_grad() = torch::ones({1});
  optimizer->step(0.25);
  EXPECT_EQ(a.item<double>(), -0.25);
  EXPECT_EQ(b.item<double>(), -0.5);
}

TEST(WrappedOptimizer, RefusesTheStateOfAnother) {
  auto w = torch::zeros({1}).requires_grad_();
  const auto optimizer =
      wrap_optimizer(std::make_shared<torch::optim::SGD>(std::vector{w}, torch::optim::SGDOptions(0.5)));
  EXPECT_NE(error_of([&] {
              optimizer->load({{"momentum.w", torch::zeros({1})}});
            }).find("made with another"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              optimizer->load({{"torch_optimizer", torch::zeros({9}, at::kByte)}});
            }).find("must fit"),
            std::string::npos);
}

}  // namespace
}  // namespace frn::train
