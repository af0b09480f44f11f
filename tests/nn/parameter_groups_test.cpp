// What is done to all layers of a network of one's own, built of torch::nn's modules: weight decay's groups, layouts.
#include "frn/nn/parameter_groups.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <string>

#include "frn/nn/layers.h"
#include "frn/nn/norms.h"

namespace frn {
namespace {

std::string names_of(const ParameterGroups::List& group) {
  std::string out;
  for (const auto& [name, tensor] : group) out += (out.empty() ? "" : " ") + name;
  return out;
}

torch::nn::Sequential network() {
  namespace nn = torch::nn;
  nn::Sequential out;
  out->push_back("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3)));
  out->push_back("bn1", nn::BatchNorm1d(8));
  out->push_back("bn2", nn::BatchNorm2d(8));
  out->push_back("bn3", nn::BatchNorm3d(8));
  out->push_back("in1", nn::InstanceNorm1d(nn::InstanceNorm1dOptions(8).affine(true)));
  out->push_back("in2", nn::InstanceNorm2d(nn::InstanceNorm2dOptions(8).affine(true)));
  out->push_back("in3", nn::InstanceNorm3d(nn::InstanceNorm3dOptions(8).affine(true)));
  out->push_back("gn", nn::GroupNorm(nn::GroupNormOptions(2, 8)));
  out->push_back("ln", nn::LayerNorm(nn::LayerNormOptions({8})));
  out->push_back("lrn", nn::LocalResponseNorm(nn::LocalResponseNormOptions(2)));
  out->push_back("prelu", nn::PReLU());
  out->push_back("frn", FRN(8));
  out->push_back("linear", nn::Linear(8, 2));
  return out;
}

TEST(ParameterGroups, KnowTorchsNormsAndItsActivationThatLearns) {
  const auto groups = parameter_groups(*network());
  EXPECT_EQ(names_of(groups.decayed), "conv.weight linear.weight");
  EXPECT_EQ(names_of(groups.not_decayed),
            "conv.bias bn1.weight bn1.bias bn2.weight bn2.bias bn3.weight bn3.bias in1.weight in1.bias in2.weight "
            "in2.bias in3.weight in3.bias gn.weight gn.bias ln.weight ln.bias prelu.weight frn.weight frn.bias frn.tau "
            "linear.bias");
  EXPECT_EQ(names_of(parameter_groups(*network(), {.norms = true}).not_decayed), "conv.bias linear.bias");
  EXPECT_TRUE(parameter_groups(*network(), {.norms = true, .biases = true}).not_decayed.empty());
}

// As in a language model, whose first and last layer have the same weights.
struct Shared : torch::nn::Module {
  Shared() {
    const auto weight = torch::randn({4, 4});
    for (const char* name : {"first", "last"}) {
      auto layer = std::make_shared<torch::nn::Module>();
      layer->register_parameter("weight", weight);
      register_module(name, layer);
    }
    auto recurrent = std::make_shared<torch::nn::Module>();
    recurrent->register_parameter("bias_ih_l0", torch::randn({4}));
    recurrent->register_parameter("unbiased", torch::randn({4}));
    register_module("recurrent", recurrent);
  }
};

TEST(ParameterGroups, AParameterThatLayersShareIsThereOnce) {
  const auto network = std::make_shared<Shared>();
  EXPECT_EQ(names_of(parameter_groups(*network).decayed), "first.weight recurrent.unbiased");
}

TEST(ParameterGroups, BiasesAreKnownByAnyNameThatSaysSo) {
  const auto network = std::make_shared<Shared>();
  EXPECT_EQ(names_of(parameter_groups(*network).not_decayed), "recurrent.bias_ih_l0");
  EXPECT_TRUE(parameter_groups(*network, {.biases = true}).not_decayed.empty());
}

TEST(MemoryFormat, ReachesTorchsConvolutionsAndNothingElse) {
  namespace nn = torch::nn;
  nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(4, 8, 3)), FRN(8),
                       nn::ConvTranspose2d(nn::ConvTranspose2dOptions(8, 4, 3)));
  const auto x = torch::randn({2, 4, 9, 9});
  const auto before = model->forward(x);
  set_memory_format(*model, at::MemoryFormat::ChannelsLast);
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_EQ(parameter->is_contiguous(at::MemoryFormat::ChannelsLast), parameter->dim() == 4) << parameter.key();
  }
  EXPECT_TRUE(at::allclose(model->forward(x.contiguous(at::MemoryFormat::ChannelsLast)), before, 1e-4, 1e-5));
  set_memory_format(*model, at::MemoryFormat::Contiguous);
  for (const auto& parameter : model->parameters()) EXPECT_TRUE(parameter.is_contiguous());
}

}  // namespace
}  // namespace frn
