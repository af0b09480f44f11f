// Layers as types with options, and specs from values: the same layers as those that are named.
#include "frn/nn/norms.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "frn/core/error.h"

namespace frn {
namespace {

constexpr int64_t kChannels = 64;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SpecFromValues, NumbersKeepAllTheirBits) {
  for (const double eps : {1e-7, 1e-30, 0.1, 3.0, 1.0 / 3, 1e6, 5e-5, 123456.789}) {
    const auto spec = NormActSpec::of("frn", Activation::kTlu, {{"eps", eps}});
    EXPECT_EQ(spec.eps(), eps);
    EXPECT_EQ(NormActSpec::parse(spec.to_string()).eps(), eps) << spec.to_string();
    EXPECT_EQ(NormActSpec::parse(spec.to_string()), spec);
    EXPECT_EQ(NormActSpec::parse("frn+tlu").with_eps(eps), spec);
    EXPECT_EQ(FRNOptions(kChannels).eps(eps).spec(), spec);
  }
}

TEST(SpecFromValues, IsTheNamedSpec) {
  EXPECT_EQ(NormActSpec::of("none", Activation::kNone), NormActSpec::parse("none+none"));
  EXPECT_EQ(NormActSpec::of("gn", Activation::kRelu, {{"groups", 32}}), NormActSpec::parse("gn(groups=32)+relu"));
  EXPECT_EQ(NormActSpec::of("bn", Activation::kPrelu, {{"sync", true}, {"momentum", 0.5F}}),
            NormActSpec::parse("bn(momentum=0.5,sync=true)+prelu"));
  EXPECT_EQ(NormActSpec::of("frn", Activation::kTlu, {{"eps_shape", "channel"}, {"eps", "learned"}}),
            NormActSpec::parse("frn(eps=learned,eps_shape=channel)+tlu"));
  const auto start = NormActSpec::parse("gn(groups=8,eps=0.1)+tlu");
  EXPECT_EQ(start.with({{"groups", 4}}), NormActSpec::parse("gn(eps=0.1,groups=4)+tlu"));
  EXPECT_EQ(start.with_activation(Activation::kAffineTlu), start.with_activation("affine_tlu"));
}

TEST(SpecFromValues, WrongValuesAreRefusedInTheWordsOfTheParser) {
  const auto of = [](std::string_view norm, const std::vector<NamedOption>& options) {
    return message_of([&] { NormActSpec::of(norm, Activation::kTlu, options); });
  };
  const auto parsed = [](const char* text) { return message_of([&] { NormActSpec::parse(text); }); };
  EXPECT_EQ(of("frm", {}), parsed("frm+tlu"));
  EXPECT_EQ(of("frn", {{"eps", 0}}), parsed("frn(eps=0)+tlu"));
  EXPECT_EQ(of("frn", {{"eps", "lerned"}}), parsed("frn(eps=lerned)+tlu"));
  EXPECT_EQ(of("gn", {{"groups", 2.5}}), parsed("gn(groups=2.5)+tlu"));
  EXPECT_EQ(of("gn", {{"grops", 2}}), parsed("gn(grops=2)+tlu"));
  EXPECT_EQ(of("gn", {{"groups", 2}, {"groups", 4}}), parsed("gn(groups=2,groups=4)+tlu"));
  EXPECT_EQ(of("gn", {{"groups", 2}, {"group_size", 4}}), parsed("gn(groups=2,group_size=4)+tlu"));
  EXPECT_EQ(of("frn", {{"eps_shape", "channel"}}), parsed("frn(eps_shape=channel)+tlu"));
  EXPECT_NE(of("none", {{"eps", 1}}).find("norm 'none' takes no options"), std::string::npos);
  EXPECT_NE(of("frn", {{"eps", std::nan("")}}).find("must be a number from 1e-30"), std::string::npos);
}

struct Pair {
  std::string name;
  NormAct layer;
};

std::vector<Pair> typed_layers() {
  return {
      {"frn+tlu", FRN(kChannels)},
      {"frn(eps=1e-7)+relu", FRN(FRNOptions(kChannels).eps(1e-7).activation(Activation::kRelu))},
      {"frn(eps=learned,eps_shape=channel)+tlu",
       FRN(FRNOptions(kChannels).eps_form(EpsForm::kLearned).eps_per_channel(true))},
      {"in(eps=learned_exp)+relu", IN(INOptions(kChannels).eps_form(EpsForm::kLearnedExponential))},
      {"gfrn(group_size=8)+tlu", GFRN(GFRNOptions(kChannels).group_size(8))},
      {"gn(groups=32)+prelu", GN(GNOptions(kChannels).groups(32).activation(Activation::kPrelu))},
      {"lfrn+affine_tlu", LFRN(LFRNOptions(kChannels).activation(Activation::kAffineTlu))},
      {"ln(eps=0.1)+relu", LN(LNOptions(kChannels).eps(0.1))},
      {"bn(eps=0.001,momentum=0.5,sync=true)+relu", BN(BNOptions(kChannels).eps(1e-3).momentum(0.5).sync(true))},
      {"brn(momentum=0.5,r_max=2,d_max=1,warmup=0,r_end=1,d_end=1)+none",
       BRN(BRNOptions(kChannels).momentum(0.5).r_max(2).d_max(1).warmup(0).r_end(1).d_end(1).activation(
           Activation::kNone))},
      {"frn+prelu", NormAct("frn+prelu", kChannels)},
      {"gn+tlu", NormAct(NormActSpec::parse("gn+tlu"), kChannels)},
  };
}

// Results and all gradients of two training steps.
std::vector<at::Tensor> steps(NormAct layer) {
  torch::manual_seed(7);
  std::vector<at::Tensor> out;
  for (int i = 0; i < 2; ++i) {
    const auto x = (torch::randn({3, kChannels, 5, 4}) * 2 + 1).requires_grad_();
    const auto z = layer(x);
    (z * torch::randn_like(z)).sum().backward();
    out.insert(out.end(), {z.detach(), x.grad()});
  }
  for (const auto& parameter : layer->parameters()) out.push_back(parameter.grad());
  for (const auto& buffer : layer->buffers()) out.push_back(buffer);
  return out;
}

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, const std::string& name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << name << " tensor " << i;
}

TEST(TypedNorm, IsBitForBitTheNamedLayer) {
  for (auto& [name, layer] : typed_layers()) {
    EXPECT_EQ(layer->spec(), NormActSpec::parse(name)) << name;
    expect_same(steps(layer), steps(NormActSpec::parse(name).make(kChannels)), name);
  }
}

TEST(TypedNorm, ClonesAreEqualAndIndependent) {
  for (auto& [name, layer] : typed_layers()) {
    steps(layer);
    layer->zero_grad();
    const auto copy = std::dynamic_pointer_cast<NormActImpl>(layer->clone());
    ASSERT_NE(copy, nullptr) << name;
    EXPECT_EQ(copy->spec(), layer->spec());
    const auto copied = copy->parameters();
    const auto own = layer->parameters();
    for (size_t i = 0; i < own.size(); ++i) EXPECT_FALSE(copied[i].is_alias_of(own[i])) << name;
    expect_same(steps(NormAct(copy)), steps(layer), name);
  }
}

struct NetworkImpl : torch::nn::Cloneable<NetworkImpl> {
  NetworkImpl() { NetworkImpl::reset(); }
  void reset() override {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, kChannels, 3)));
    norm = register_module("norm", FRN(FRNOptions(kChannels).eps_form(EpsForm::kLearned)));
    any = register_module("any", NormAct("gn+relu", kChannels));
  }
  at::Tensor forward(const at::Tensor& x) { return any(norm(conv(x))); }
  torch::nn::Conv2d conv{nullptr};
  FRN norm{nullptr};
  NormAct any{nullptr};
};

TEST(TypedNorm, IsAMemberWhoseOwnParametersAreAtHandAndIsClonedWithItsModule) {
  NetworkImpl network;
  const auto x = torch::randn({2, 3, 8, 8});
  network.forward(x).sum().backward();
  EXPECT_TRUE(network.norm->eps.grad().defined());
  EXPECT_TRUE(network.norm->tau.grad().defined());
  const auto copy = std::dynamic_pointer_cast<NetworkImpl>(network.clone());
  EXPECT_TRUE(torch::equal(copy->forward(x), network.forward(x)));
  EXPECT_FALSE(copy->norm->weight.is_same(network.norm->weight));
}

TEST(TypedNorm, WorksInASequentialAndIsClonedWithIt) {
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, kChannels, 3)), FRN(kChannels),
                              NormAct("bn+relu", kChannels), GN(GNOptions(kChannels).groups(4)), BN(kChannels));
  model->push_back("last", LN(kChannels));
  const auto x = torch::randn({2, 3, 8, 8});
  model->forward(x).square().sum().backward();
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
  }
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
  EXPECT_TRUE(torch::equal(copy->forward(x), model->forward(x)));
}

TEST(TypedNorm, WrongOptionsAreErrors) {
  EXPECT_THROW(FRN(FRNOptions(kChannels).eps(0)), Error);
  EXPECT_THROW(FRN(FRNOptions(kChannels).eps_per_channel(true)), Error);
  EXPECT_THROW(GN(GNOptions(kChannels).groups(5)), Error);
  EXPECT_THROW(GN(GNOptions(kChannels).groups(4).group_size(4)), Error);
  EXPECT_THROW(BRN(BRNOptions(kChannels).warmup(50000)), Error);
  EXPECT_THROW(FRN(FRNOptions(-1)), Error);
  EXPECT_NE(message_of([] { FRN(FRNOptions(kChannels).eps(0.1).eps_form(EpsForm::kLearned)); }).find("both are set"),
            std::string::npos);
}

}  // namespace
}  // namespace frn
