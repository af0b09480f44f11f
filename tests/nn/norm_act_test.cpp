// The modules of all methods: parameters and their names, gradients, epsilon, copies and types.
#include "frn/nn/norm_act.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "frn/core/error.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/per_sample_norm.h"
#include "frn/ops/ops.h"

namespace frn {
namespace {

constexpr int64_t kChannels = 32;

NormAct make(std::string_view text, int64_t channels = kChannels) { return NormActSpec::parse(text).make(channels); }

std::vector<std::string> every_name() {
  std::vector<std::string> names;
  for (const auto& norm : norm_table()) {
    for (const auto& activation : activation_table()) {
      names.push_back(std::string(norm.name) + "+" + std::string(activation.name));
    }
  }
  for (const auto* more : {"frn(eps=learned)+tlu", "frn(eps=learned_exp)+tlu", "frn(eps=learned,eps_shape=channel)+tlu",
                           "in(eps=learned_exp,eps_shape=channel)+relu", "gn(groups=4)+relu",
                           "gfrn(group_size=8)+prelu", "gn(eps=learned)+tlu", "brn(warmup=0,r_end=0,d_end=0)+tlu"}) {
    names.emplace_back(more);
  }
  return names;
}

// "weight bias | running_mean": parameters | buffers.
std::string state_names(const torch::nn::Module& module) {
  std::string out;
  for (const auto& parameter : module.named_parameters()) out += parameter.key() + " ";
  out += "|";
  for (const auto& buffer : module.named_buffers()) out += " " + buffer.key();
  return out;
}

void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE((a - b).abs().max().item<double>(), tolerance);
}

TEST(NormActModule, EveryMethodGivesFiniteGradientsForAllParametersAtRank2And4) {
  torch::manual_seed(1);
  for (const auto& name : every_name()) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{{6, kChannels}, {3, kChannels, 5, 4}}) {
      auto module = make(name);
      const auto x = torch::randn(shape).requires_grad_();
      const auto z = module(x);
      ASSERT_EQ(z.sizes(), x.sizes()) << name;
      ASSERT_TRUE(z.isfinite().all().item<bool>()) << name;
      (z * torch::randn(shape)).sum().backward();
      ASSERT_TRUE(x.grad().defined() && x.grad().isfinite().all().item<bool>()) << name;
      for (const auto& parameter : module->named_parameters()) {
        ASSERT_TRUE(parameter.value().grad().defined()) << name << " " << parameter.key();
        EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << name << " " << parameter.key();
      }
    }
  }
}

TEST(NormActModule, StateDictNamesAreThoseOfTheDesign) {
  EXPECT_EQ(state_names(*make("frn+tlu")), "weight bias tau |");
  EXPECT_EQ(state_names(*make("frn(eps=1e-3)+tlu")), "weight bias tau |");
  EXPECT_EQ(state_names(*make("frn(eps=learned)+tlu")), "weight bias tau eps |");
  EXPECT_EQ(state_names(*make("frn+prelu")), "weight bias kappa |");
  EXPECT_EQ(state_names(*make("gn+affine_tlu")), "weight bias tau kappa |");
  EXPECT_EQ(state_names(*make("ln+relu")), "weight bias |");
  for (const auto* name : {"bn+relu", "brn+none"}) {
    EXPECT_EQ(state_names(*make(name)), "weight bias | running_mean running_var num_batches_tracked");
  }
  EXPECT_EQ(state_names(*make("none+tlu")), "tau |");
  EXPECT_EQ(state_names(*make("none+none")), "|");
}

TEST(NormActModule, ParametersStartAtTheirNeutralValues) {
  const auto module = make("frn(eps=learned)+affine_tlu");
  const auto expect_all = [&](const char* name, double value) {
    const auto tensor = module->named_parameters()[name];
    EXPECT_TRUE((tensor == torch::full_like(tensor, value)).all().item<bool>()) << name;
  };
  expect_all("weight", 1);
  expect_all("bias", 0);
  expect_all("tau", 0);
  expect_all("kappa", 0.25);
  expect_all("eps", 1e-4);
}

TEST(NormActModule, WithoutActivationHasNoThresholdParametersAndStaysNegative) {
  for (const auto& norm : norm_table()) {
    const auto spec = NormActSpec::parse(std::string(norm.name) + "+affine_tlu");
    auto module = spec.make_without_act(kChannels);
    EXPECT_EQ(module->spec().activation().name, "none");
    EXPECT_FALSE(module->tau.defined() || module->kappa.defined()) << norm.name;
    EXPECT_EQ(state_names(*module).find("tau"), std::string::npos) << norm.name;
    EXPECT_EQ(state_names(*module).find("kappa"), std::string::npos) << norm.name;
    EXPECT_LT(module(torch::randn({4, kChannels, 3, 3})).min().item<float>(), 0) << norm.name;
  }
}

TEST(NormActModule, PerSampleMethodsAreTheFusedOperator) {
  torch::manual_seed(2);
  const auto x = torch::randn({2, 64, 6, 5});
  struct Case {
    const char* name;
    int64_t groups;
    bool centered;
    double eps;
  };
  for (const auto& c :
       {Case{"frn+relu", 64, false, 1e-6}, Case{"gfrn+relu", 2, false, 1e-6}, Case{"lfrn+relu", 1, false, 1e-6},
        Case{"in+relu", 64, true, 1e-5}, Case{"gn+relu", 2, true, 1e-5}, Case{"gn(groups=32)+relu", 32, true, 1e-5},
        Case{"gn(group_size=4,eps=0.5)+relu", 16, true, 0.5}, Case{"ln+relu", 1, true, 1e-5}}) {
    auto module = make(c.name, 64);
    const auto expected = norm_act(x, module->weight, module->bias, torch::tensor(c.eps, torch::kFloat64), std::nullopt,
                                   std::nullopt, c.groups, c.centered, "relu");
    EXPECT_TRUE(torch::equal(module(x), expected)) << c.name;
  }
}

TEST(NormActModule, AgreesWithPyTorchsGroupAndInstanceNorm) {
  torch::manual_seed(3);
  const auto x = torch::randn({3, 64, 7, 5}) * 3 + 1;
  torch::nn::GroupNorm group(torch::nn::GroupNormOptions(2, 64));
  torch::nn::InstanceNorm2d instance(torch::nn::InstanceNorm2dOptions(64));
  expect_close(make("gn+none", 64)(x), group(x), 1e-5);
  expect_close(make("in+none", 64)(x), instance(x), 1e-5);
}

TEST(NormActModule, NoNormIsTheActivationAlone) {
  const auto x = torch::randn({2, kChannels, 3, 3});
  EXPECT_TRUE(torch::equal(make("none+relu")(x), x.relu()));
  EXPECT_TRUE(make("none+none")(x).is_same(x));
  expect_close(make("none+prelu")(x), torch::prelu(x, torch::full({kChannels}, 0.25)), 1e-7);
}

TEST(LearnedEps, StartsAtTheSameValueInBothForms) {
  for (const auto* name :
       {"frn(eps=learned)+tlu", "frn(eps=learned_exp)+tlu", "frn(eps=learned,eps_shape=channel)+tlu"}) {
    auto module = make(name);
    auto* layer = module->as<PerSampleNormImpl>();
    ASSERT_NE(layer, nullptr);
    const auto eps = layer->current_eps(torch::kCPU);
    EXPECT_LE((eps - 1.01e-4).abs().max().item<double>(), 1e-10) << name;
    EXPECT_EQ(eps.dim(), layer->spec().eps_per_channel() ? 1 : 0) << name;
  }
}

TEST(LearnedEps, ValueAndGradientAreThoseOfTheFormula) {
  torch::manual_seed(4);
  const auto x = torch::randn({3, kChannels, 2, 2}, torch::kFloat64) * 0.1;
  const auto dz = torch::randn_like(x);
  for (const auto* name : {"frn(eps=learned)+tlu", "frn(eps=learned_exp)+tlu", "frn(eps=learned,eps_shape=channel)+tlu",
                           "frn(eps=learned_exp,eps_shape=channel)+tlu"}) {
    auto module = make(name);
    module->to(torch::kFloat64);
    auto* layer = module->as<PerSampleNormImpl>();
    const bool exponential = module->spec().eps_form() == EpsForm::kLearnedExponential;
    layer->eps.set_data(torch::randn_like(layer->eps) * 0.02 + (exponential ? -4 : -0.01));
    const auto z = module(x);
    (z * dz).sum().backward();

    const auto eps_l = layer->eps.detach().clone().requires_grad_();
    const auto eps = 1e-6 + (exponential ? eps_l.exp() : eps_l.abs());
    const auto nu2 = x.square().mean({2, 3}, /*keepdim=*/true);
    const auto expected = torch::clamp_min(x / (nu2 + eps.reshape({1, -1, 1, 1})).sqrt(), 0);
    (expected * dz).sum().backward();
    expect_close(z, expected, 1e-12);
    expect_close(layer->eps.grad(), eps_l.grad(), 1e-10 * (1 + eps_l.grad().abs().max().item<double>()));
    EXPECT_GT(eps_l.grad().abs().max().item<double>(), 0) << name;
  }
}

TEST(LearnedEps, GradientAgreesWithFiniteDifferences) {
  torch::manual_seed(5);
  const auto x = torch::randn({2, kChannels}, torch::kFloat64);
  for (const auto* name : {"frn(eps=learned)+none", "gfrn(eps=learned_exp)+none", "ln(eps=learned)+none"}) {
    auto module = make(name);
    module->to(torch::kFloat64);
    auto* layer = module->as<PerSampleNormImpl>();
    const double start = module->spec().eps_form() == EpsForm::kLearned ? 0.3 : std::log(0.3);
    const auto loss = [&](double eps_l) {
      layer->eps.set_data(torch::full({}, eps_l, torch::kFloat64));
      return module(x).sin().sum();
    };
    loss(start).backward();
    const double step = 1e-6;
    const double slope = (loss(start + step) - loss(start - step)).item<double>() / (2 * step);
    EXPECT_NEAR(layer->eps.grad().item<double>(), slope, 1e-6 * (1 + std::abs(slope))) << name;
  }
}

TEST(NormActModule, ChangesTypeAndKeepsItsNames) {
  for (const auto& name : every_name()) {
    for (const auto type : {torch::kFloat64, torch::kBFloat16}) {
      auto module = make(name);
      const auto names = state_names(*module);
      module->to(type);
      EXPECT_EQ(state_names(*module), names);
      const auto x = torch::randn({4, kChannels, 3, 3}, type).requires_grad_();
      const auto z = module(x);
      EXPECT_EQ(z.scalar_type(), type) << name;
      z.sum().backward();
      EXPECT_EQ(x.grad().scalar_type(), type) << name;
      for (const auto& parameter : module->named_parameters()) {
        EXPECT_EQ(parameter.value().scalar_type(), type) << name << " " << parameter.key();
        EXPECT_EQ(parameter.value().grad().scalar_type(), type) << name << " " << parameter.key();
      }
    }
  }
}

TEST(NormActModule, SixteenBitInputWithFloat32ParametersWorks) {
  for (const auto& name : every_name()) {
    for (const auto type : {torch::kFloat16, torch::kBFloat16}) {
      auto module = make(name);
      const auto z = module(torch::randn({4, kChannels, 3, 3}).to(type));
      EXPECT_EQ(z.scalar_type(), type) << name;
      EXPECT_TRUE(z.isfinite().all().item<bool>()) << name;
    }
  }
}

TEST(NormActModule, FixedEpsFollowsTheDeviceOfTheInputAndBack) {
  auto module = make("frn+tlu");
  const auto x = torch::randn({2, kChannels, 3, 3});
  const auto before = module(x);
  EXPECT_EQ(module->as<PerSampleNormImpl>()->current_eps(torch::kMeta).device(), torch::Device(torch::kMeta));
  EXPECT_TRUE(torch::equal(module(x), before));
}

void fill_randomly(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) parameter.uniform_(0.1, 1);
}

TEST(NormActModule, ClonesAreEqualAndIndependent) {
  for (const auto& name : every_name()) {
    auto module = make(name);
    fill_randomly(*module);
    module(torch::randn({4, kChannels, 3, 3}));  // moves the running statistics
    module->eval();
    auto copy = NormAct(std::dynamic_pointer_cast<NormActImpl>(module->clone()));
    ASSERT_TRUE(copy) << name;
    EXPECT_EQ(copy->spec(), module->spec());
    EXPECT_FALSE(copy->is_training());
    EXPECT_EQ(state_names(*copy), state_names(*module));
    const auto x = torch::randn({4, kChannels, 3, 3});
    const auto before = module(x);
    EXPECT_TRUE(torch::equal(copy(x), before)) << name;
    fill_randomly(*copy);
    EXPECT_TRUE(torch::equal(module(x), before)) << name;
  }
}

TEST(NormActModule, CloneKeepsFrozenParametersFrozen) {
  const auto module = make("frn+tlu");
  module->tau.set_requires_grad(false);
  const auto copy = std::dynamic_pointer_cast<NormActImpl>(module->clone());
  EXPECT_FALSE(copy->tau.requires_grad());
  EXPECT_TRUE(copy->weight.requires_grad());
}

TEST(NormActModule, WorksInASequentialAndIsClonedWithIt) {
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, kChannels, 3)), make("frn+tlu"),
                              make("bn+relu"), torch::nn::AnyModule(make("gn(eps=learned)+prelu")));
  fill_randomly(*model);
  const auto x = torch::randn({2, 3, 6, 6});
  model->forward(x).sum().backward();
  model->eval();
  auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
  EXPECT_TRUE(torch::equal(copy->forward(x), model->forward(x)));
  EXPECT_EQ(state_names(*copy), state_names(*model));
}

struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  explicit BlockImpl(const NormActSpec& s) : spec(s) { BlockImpl::reset(); }
  void reset() override { norm = register_module("norm", spec.make(kChannels)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  NormActSpec spec;
  NormAct norm{nullptr};
};

TEST(NormActModule, IsClonedAsTheMemberOfACloneable) {
  for (const auto& name : every_name()) {
    BlockImpl block(NormActSpec::parse(name));
    fill_randomly(block);
    const auto x = torch::randn({4, kChannels, 3, 3});
    block.forward(x);
    block.eval();
    const auto copy = std::dynamic_pointer_cast<BlockImpl>(block.clone());
    const auto before = block.forward(x);
    EXPECT_TRUE(torch::equal(copy->forward(x), before)) << name;
    fill_randomly(*copy);
    EXPECT_TRUE(torch::equal(block.forward(x), before)) << name;
  }
}

TEST(NormActModule, PrintsItsSpec) {
  std::ostringstream out;
  out << *make("gn(groups=4)+relu");
  EXPECT_EQ(out.str(), "frn::NormAct(gn(groups=4)+relu, 32)");
}

// z and the gradients of x, the shortcut and all parameters.
std::vector<at::Tensor> with_gradients(const at::Tensor& x_in, const at::Tensor& shortcut_in, NormAct& norm,
                                       NormAct& act, bool at_once) {
  const auto x = x_in.detach().requires_grad_();
  const auto shortcut = shortcut_in.detach().requires_grad_();
  const auto z = at_once ? norm->forward_added(x, shortcut, *act) : act->forward(norm->forward(x) + shortcut);
  std::vector<at::Tensor> inputs{x, shortcut};
  for (const auto& part : {norm, act}) {
    for (const auto& parameter : part->parameters()) inputs.push_back(parameter);
  }
  auto out = torch::autograd::grad({z}, inputs, {torch::linspace(-1, 1, z.numel()).reshape(z.sizes()).to(z.dtype())});
  out.push_back(z);
  return out;
}

TEST(AddedShortcut, HasTheBitsOfTheLayersOneAfterTheOther) {
  torch::manual_seed(5);
  for (const auto* name : {"frn+tlu", "frn(eps=learned)+affine_tlu", "gn+relu", "in+prelu", "frn(proxy=true)+tlu",
                           "ln+relu", "frn+none", "bn+relu", "brn+tlu", "none+relu"}) {
    const auto spec = NormActSpec::parse(name);
    auto norm = spec.make_without_act(kChannels);
    auto act = NormActSpec::parse("none+" + std::string(spec.activation().name)).make(kChannels);
    for (const auto type : {torch::kFloat32, torch::kFloat64}) {
      norm->to(type);
      act->to(type);
      auto x = torch::randn({3, kChannels, 5, 4}, type);
      auto shortcut = torch::randn({3, kChannels, 5, 4}, type);
      // Maps of zeros, as at padded borders: y is beta, 0, and so is the sum, where ReLU's gradient is PyTorch's.
      x[0].zero_();
      shortcut[0].zero_();
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        x = x.contiguous(format);
        shortcut = shortcut.contiguous(format);
        const auto ours = with_gradients(x, shortcut, norm, act, true);
        const auto wanted = with_gradients(x, shortcut, norm, act, false);
        for (size_t i = 0; i < ours.size(); ++i) ASSERT_TRUE(torch::equal(ours[i], wanted[i])) << name << " " << i;
      }
    }
  }
}

TEST(AddedShortcut, ASecondDerivativeOfReluIsThatOfTheLayers) {
  torch::manual_seed(6);
  auto norm = make("gn(groups=4)+none");
  auto act = make("none+relu");
  norm->to(torch::kFloat64);
  act->to(torch::kFloat64);
  std::vector<at::Tensor> found;
  for (const bool at_once : {true, false}) {
    torch::manual_seed(7);
    const auto x = torch::randn({2, kChannels, 3, 3}, torch::kFloat64).requires_grad_();
    const auto shortcut = torch::randn_like(x).requires_grad_();
    const auto z = at_once ? norm->forward_added(x, shortcut, *act) : act->forward(norm->forward(x) + shortcut);
    const auto first = torch::autograd::grad({z.square().sum()}, {x, shortcut}, {}, true, true);
    const auto second = torch::autograd::grad({first[0].square().sum() + first[1].square().sum()}, {x, shortcut});
    found.push_back(torch::cat({second[0], second[1]}));
  }
  // Two orders of the same sums of at most 72 terms, in double.
  EXPECT_LE((found[0] - found[1]).abs().max().item<double>(), 1e-12 * found[1].abs().max().item<double>());
}

TEST(AddedShortcut, WatchesSeeBothLayersAndMetaTensorsKeepTheirShape) {
  auto norm = make("frn+none");
  auto act = make("none+tlu");
  const auto x = torch::randn({2, kChannels, 3, 3});
  EXPECT_TRUE(norm->adds_in_one_pass(x, *act));
  std::vector<const torch::nn::Module*> seen;
  {
    const LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor&) { seen.push_back(&layer); });
    EXPECT_FALSE(norm->adds_in_one_pass(x, *act));
    norm->forward_added(x, x, *act);
  }
  EXPECT_EQ(seen, (std::vector<const torch::nn::Module*>{norm.get(), act.get()}));
  const auto meta = x.to(torch::kMeta);
  EXPECT_EQ(norm->forward_added(meta, meta, *act).sizes(), x.sizes());
  EXPECT_EQ(norm->forward_added(x.slice(0, 0, 0), x.slice(0, 0, 0), *act).size(0), 0);
}

TEST(AddedShortcut, OfAnotherTypeIsAddedInTheWiderOne) {
  auto norm = make("frn+none");
  auto act = make("none+tlu");
  const auto x = torch::randn({2, kChannels, 3, 3});
  const auto narrow = x.to(torch::kBFloat16);
  EXPECT_TRUE(torch::equal(norm->forward_added(narrow, x, *act), act->forward(norm->forward(narrow) + x)));
}

TEST(NormActModule, WrongChannelsAreErrors) {
  EXPECT_THROW(make("gn+relu", 48), Error);
  EXPECT_THROW(make("gfrn(groups=5)+relu", 32), Error);
  EXPECT_THROW(make("frn+tlu", 0), Error);
  EXPECT_THROW(make("none+relu", -3), Error);
  for (const auto* name : {"frn+tlu", "bn+relu", "brn+relu"}) {
    EXPECT_ANY_THROW(make(name)(torch::randn({2, 16, 3, 3}))) << name;
    EXPECT_ANY_THROW(make(name)(torch::randn({kChannels}))) << name;
  }
}

}  // namespace
}  // namespace frn
