// bn: the same numbers as PyTorch's batch norm, and virtual devices as separate devices.
#include "frn/nn/batch_norm.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include <string>
#include <vector>

#include "frn/core/error.h"

namespace frn {
namespace {

constexpr int64_t kChannels = 6;

NormAct make(std::string_view text) { return NormActSpec::parse(text).make(kChannels); }
BatchMethodImpl& batch(const NormAct& module) { return dynamic_cast<BatchMethodImpl&>(*module.ptr()); }

void expect_equal(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  EXPECT_TRUE(torch::equal(a, b)) << what << "\n" << a << "\n" << b;
}

std::string error_of(NormAct module, const at::Tensor& x) {
  try {
    module(x);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BatchNorm, ForwardAndGradientsAreThoseOfAtBatchNormAndTheActivation) {
  torch::manual_seed(1);
  for (const auto* activation : {"none", "relu", "prelu"}) {
    auto module = make("bn+" + std::string(activation));
    module->weight.set_data(torch::rand({kChannels}) + 0.5);
    const auto weight = module->weight.detach().clone().requires_grad_();
    const auto bias = module->bias.detach().clone().requires_grad_();
    const auto kappa = torch::full({kChannels}, 0.25).requires_grad_();
    const auto x = torch::randn({4, kChannels, 5, 3});
    const auto x1 = x.clone().requires_grad_();
    const auto x2 = x.clone().requires_grad_();
    const auto dz = torch::randn_like(x);

    const auto z = module(x1);
    (z * dz).sum().backward();
    auto expected =
        at::batch_norm(x2, weight, bias, torch::zeros({kChannels}), torch::ones({kChannels}), true, 0.1, 1e-5, false);
    if (std::string(activation) == "relu") expected = at::relu(expected);
    if (std::string(activation) == "prelu") expected = at::prelu(expected, kappa);
    (expected * dz).sum().backward();
    expect_equal(z, expected, activation);
    EXPECT_TRUE(torch::allclose(x1.grad(), x2.grad(), 1e-5, 1e-6)) << activation;
    EXPECT_TRUE(torch::allclose(module->weight.grad(), weight.grad(), 1e-5, 1e-6)) << activation;
    EXPECT_TRUE(torch::allclose(module->bias.grad(), bias.grad(), 1e-5, 1e-6)) << activation;
    if (!module->kappa.defined()) continue;
    EXPECT_TRUE(torch::allclose(module->kappa.grad(), kappa.grad(), 1e-5, 1e-6)) << activation;
  }
}

TEST(BatchNorm, RunningStatisticsAndEvalModeAreThoseOfTorchNnBatchNorm2d) {
  torch::manual_seed(2);
  struct Case {
    const char* name;
    double momentum;
    double eps;
  };
  for (const auto& c : {Case{"bn+none", 0.1, 1e-5}, Case{"bn(eps=0.001,momentum=0.25)+none", 0.25, 1e-3}}) {
    auto module = make(c.name);
    torch::nn::BatchNorm2d peer(torch::nn::BatchNorm2dOptions(kChannels).momentum(c.momentum).eps(c.eps));
    for (int step = 0; step < 5; ++step) {
      const auto x = torch::randn({3, kChannels, 4, 4}) * (step + 1) + step;
      expect_equal(module(x), peer(x), c.name);
    }
    expect_equal(batch(module).running_mean, peer->running_mean, c.name);
    expect_equal(batch(module).running_var, peer->running_var, c.name);
    expect_equal(batch(module).num_batches_tracked, peer->num_batches_tracked, c.name);
    module->eval();
    peer->eval();
    const auto x = torch::randn({1, kChannels, 1, 1});
    expect_equal(module(x), peer(x), c.name);
    expect_equal(batch(module).running_mean, peer->running_mean, c.name);
    EXPECT_EQ(batch(module).num_batches_tracked.item<int64_t>(), 5);
  }
}

TEST(BatchNorm, TakesRanks2To5AndChannelsLast) {
  torch::manual_seed(3);
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {8, kChannels}, {4, kChannels, 5}, {3, kChannels, 4, 2}, {2, kChannels, 3, 2, 2}}) {
    const auto x = torch::randn(shape);
    const auto flat = x.reshape({shape[0], kChannels, -1, 1});
    torch::nn::BatchNorm2d peer(kChannels);
    const auto expected = peer(flat).reshape(shape);
    EXPECT_TRUE(torch::allclose(make("bn+none")(x), expected, 1e-5, 1e-6)) << shape.size();
  }
  const auto x = torch::randn({2, kChannels, 4, 4});
  const auto last = x.contiguous(torch::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(torch::allclose(make("bn+relu")(last), make("bn+relu")(x), 1e-5, 1e-6));
}

TEST(BatchNorm, AnEmptyBatchGivesAnEmptyResultAndLeavesTheStatistics) {
  for (const auto* name : {"bn+relu", "brn+relu", "brn(warmup=0,r_end=0,d_end=0)+relu"}) {
    auto module = make(name);
    EXPECT_EQ(module(torch::randn({0, kChannels, 4, 4})).sizes(), (std::vector<int64_t>{0, kChannels, 4, 4}));
    expect_equal(batch(module).running_mean, torch::zeros({kChannels}), name);
    expect_equal(batch(module).running_var, torch::ones({kChannels}), name);
  }
}

TEST(BatchNorm, OneValuePerChannelIsAnErrorInTrainingOnly) {
  for (const auto* name : {"bn+relu", "brn+relu"}) {
    auto module = make(name);
    for (const auto& x : {torch::randn({1, kChannels}), torch::randn({1, kChannels, 1, 1})}) {
      const auto message = error_of(module, x);
      EXPECT_NE(message.find("more than 1 value per channel"), std::string::npos) << message;
      EXPECT_NE(message.find("[1, 6"), std::string::npos) << message;
    }
    EXPECT_EQ(batch(module).num_batches_tracked.item<int64_t>(), 0);
    module->eval();
    EXPECT_EQ(error_of(module, torch::randn({1, kChannels})), "");
  }
}

TEST(BatchNorm, WrongShapesNameTheChannels) {
  EXPECT_NE(error_of(make("bn+relu"), torch::randn({2, 5, 3, 3})).find("[N, 6, *]"), std::string::npos);
  EXPECT_EQ(error_of(make("brn+relu"), torch::randn({6})).rfind("[brn] ", 0), 0u);
}

TEST(BatchNorm, AChangeOfTypeKeepsTheStepCounterWhole) {
  auto module = make("bn+relu");
  auto& method = batch(module);
  method.num_batches_tracked.fill_(100001);  // not a bfloat16 number
  module->to(torch::kBFloat16);
  EXPECT_EQ(method.running_mean.scalar_type(), torch::kBFloat16);
  module->to(torch::kCPU, torch::kFloat64);
  EXPECT_EQ(method.running_mean.scalar_type(), torch::kFloat64);
  module->to(torch::kCPU);
  EXPECT_EQ(method.num_batches_tracked.scalar_type(), torch::kInt64);
  EXPECT_EQ(method.num_batches_tracked.item<int64_t>(), 100001);
  EXPECT_EQ(method.named_buffers()["num_batches_tracked"].item<int64_t>(), 100001);
}

TEST(VirtualDevices, EachPartIsNormalisedAloneAndTheRunningStatisticsFollowPart0) {
  torch::manual_seed(4);
  for (const auto* name : {"bn+tlu", "brn(warmup=1,r_end=3,d_end=2)+tlu"}) {
    auto whole = make(name);
    batch(whole).set_virtual_devices(3);
    std::vector<NormAct> devices{make(name), make(name), make(name)};
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({6, kChannels, 3, 3}) * 2 + 0.5;
      const auto x1 = x.clone().requires_grad_();
      const auto x2 = x.clone().requires_grad_();
      const auto dz = torch::randn_like(x);
      for (size_t i = 1; i < devices.size(); ++i) {  // all start the step from part 0's statistics
        batch(devices[i]).running_mean.copy_(batch(devices[0]).running_mean);
        batch(devices[i]).running_var.copy_(batch(devices[0]).running_var);
      }
      auto parts = x2.chunk(3);
      for (size_t i = 0; i < parts.size(); ++i) parts[i] = devices[i](parts[i]);
      const auto expected = torch::cat(parts);
      const auto z = whole(x1);
      expect_equal(z, expected, name);
      (z * dz).sum().backward();
      (expected * dz).sum().backward();
      expect_equal(x1.grad(), x2.grad(), name);
    }
    auto gradient = torch::zeros({kChannels});
    for (const auto& device : devices) gradient += device->weight.grad();
    EXPECT_TRUE(torch::allclose(whole->weight.grad(), gradient, 1e-4, 1e-5)) << name;
    expect_equal(batch(whole).running_mean, batch(devices[0]).running_mean, name);
    expect_equal(batch(whole).running_var, batch(devices[0]).running_var, name);
    EXPECT_EQ(batch(whole).num_batches_tracked.item<int64_t>(), 4);
  }
}

TEST(VirtualDevices, AreSetInAWholeModelAndCopiedWithIt) {
  torch::nn::Sequential model(make("bn+relu"), make("frn+tlu"), make("brn+relu"));
  set_virtual_devices(*model, 4);
  const auto copy = model->clone();
  int found = 0;
  for (const auto& module : copy->modules()) {
    const auto* method = dynamic_cast<const BatchMethodImpl*>(module.get());
    if (method == nullptr) continue;
    EXPECT_EQ(method->virtual_devices(), 4);
    ++found;
  }
  EXPECT_EQ(found, 2);
}

TEST(VirtualDevices, ABatchThatDoesNotDivideIsAnErrorInTrainingOnly) {
  auto module = make("bn+relu");
  batch(module).set_virtual_devices(4);
  EXPECT_NE(error_of(module, torch::randn({6, kChannels, 2, 2})).find("4 virtual devices"), std::string::npos);
  EXPECT_NE(error_of(module, torch::randn({4, kChannels})).find("on each virtual device"), std::string::npos);
  module->eval();
  EXPECT_EQ(error_of(module, torch::randn({6, kChannels, 2, 2})), "");
  EXPECT_THROW(batch(module).set_virtual_devices(0), Error);
}

}  // namespace
}  // namespace frn
