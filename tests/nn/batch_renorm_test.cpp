// brn: batch norm at first, then Ioffe's formula, its schedule, and its gradient with r and d as constants.
#include "frn/nn/batch_renorm.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <string>

namespace frn {
namespace {

constexpr int64_t kChannels = 5;

NormAct make(std::string_view text) { return NormActSpec::parse(text).make(kChannels); }
BatchRenormImpl& renorm(const NormAct& module) { return dynamic_cast<BatchRenormImpl&>(*module.ptr()); }

at::Tensor by_channel(const at::Tensor& t) { return t.reshape({1, -1, 1, 1}); }

struct Running {
  at::Tensor mean;
  at::Tensor var;
};

// The formula written out with ATen's operators; updates `running`.
at::Tensor written_out(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Running& running,
                       const RenormBounds& bounds, double momentum, double eps) {
  const auto mean = x.mean({0, 2, 3});
  const auto var = x.var(at::IntArrayRef{0, 2, 3}, /*unbiased=*/false);
  const auto sigma_batch = (var + eps).sqrt();
  const auto sigma = (running.var + eps).sqrt();
  const auto r = (sigma_batch / sigma).clamp(1 / bounds.r_max, bounds.r_max).detach();
  const auto d = ((mean - running.mean) / sigma).clamp(-bounds.d_max, bounds.d_max).detach();
  const auto xhat = (x - by_channel(mean)) / by_channel(sigma_batch) * by_channel(r) + by_channel(d);
  const double m = static_cast<double>(x.numel()) / kChannels;
  running.mean = (1 - momentum) * running.mean + momentum * mean.detach();
  running.var = (1 - momentum) * running.var + momentum * var.detach() * (m / (m - 1));
  return by_channel(weight) * xhat + by_channel(bias);
}

TEST(BatchRenorm, IsBatchNormWhileTheBoundsAreOneAndZero) {
  torch::manual_seed(1);
  for (const auto* name : {"brn(momentum=0.1)+tlu", "brn(r_max=1,d_max=0,warmup=0,r_end=0,d_end=0,momentum=0.1)+tlu"}) {
    auto module = make(name);
    auto peer = make("bn+tlu");
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({3, kChannels, 4, 4}) * 3 + step;
      const auto x1 = x.clone().requires_grad_();
      const auto x2 = x.clone().requires_grad_();
      const auto z = module(x1);
      const auto expected = peer(x2);
      EXPECT_TRUE(torch::equal(z, expected)) << name;
      z.square().sum().backward();
      expected.square().sum().backward();
      EXPECT_TRUE(torch::equal(x1.grad(), x2.grad())) << name;
    }
    const auto& other = dynamic_cast<BatchNormImpl&>(*peer.ptr());
    EXPECT_TRUE(torch::equal(renorm(module).running_mean, other.running_mean));
    EXPECT_TRUE(torch::equal(renorm(module).running_var, other.running_var));
    EXPECT_TRUE(torch::equal(module->weight.grad(), peer->weight.grad()));
  }
}

TEST(BatchRenorm, IsTheFormulaWrittenOutInFloat64) {
  torch::manual_seed(2);
  auto module = make("brn(r_max=1.5,d_max=0.4,warmup=2,r_end=6,d_end=4,momentum=0.2,eps=0.001)+none");
  module->to(torch::kFloat64);
  module->weight.set_data(torch::rand({kChannels}, torch::kFloat64) + 0.5);
  module->bias.set_data(torch::randn({kChannels}, torch::kFloat64));
  Running running{torch::zeros({kChannels}, torch::kFloat64), torch::ones({kChannels}, torch::kFloat64)};
  for (int step = 0; step < 10; ++step) {
    // Some channels within the bounds, some beyond on either side.
    const auto scale = by_channel(torch::tensor({0.2, 0.9, 1.1, 1.0, 4.0}, torch::kFloat64));
    const auto shift = by_channel(torch::tensor({-2.0, 0.1, 0.0, 0.2, 3.0}, torch::kFloat64));
    const auto x = torch::randn({2, kChannels, 3, 2}, torch::kFloat64) * scale + shift;
    const auto x1 = x.clone().requires_grad_();
    const auto x2 = x.clone().requires_grad_();
    const auto weight = module->weight.detach().clone().requires_grad_();
    const auto bias = module->bias.detach().clone().requires_grad_();
    const auto dz = torch::randn_like(x);
    module->zero_grad();

    const auto bounds = renorm(module).bounds(step);
    const auto z = module(x1);
    const auto expected = written_out(x2, weight, bias, running, bounds, 0.2, 0.001);
    EXPECT_TRUE(torch::allclose(z, expected, 1e-12, 1e-12)) << step;
    (z * dz).sum().backward();
    (expected * dz).sum().backward();
    EXPECT_TRUE(torch::allclose(x1.grad(), x2.grad(), 1e-10, 1e-12)) << step;
    EXPECT_TRUE(torch::allclose(module->weight.grad(), weight.grad(), 1e-10, 1e-12)) << step;
    EXPECT_TRUE(torch::allclose(module->bias.grad(), bias.grad(), 1e-10, 1e-12)) << step;
    EXPECT_TRUE(torch::allclose(renorm(module).running_mean, running.mean, 1e-12, 1e-12)) << step;
    EXPECT_TRUE(torch::allclose(renorm(module).running_var, running.var, 1e-12, 1e-12)) << step;
    EXPECT_EQ(renorm(module).num_batches_tracked.item<int64_t>(), step + 1);
  }
}

TEST(BatchRenorm, WithinTheBoundsTrainingGivesWhatEvalModeWouldGive) {
  torch::manual_seed(3);
  auto module = make("brn(r_max=100,d_max=100,warmup=0,r_end=0,d_end=0)+none");
  for (int step = 0; step < 3; ++step) {
    const auto x = torch::randn({2, kChannels, 3, 3}) * 2 + 1;
    module->eval();
    const auto expected = module(x);
    module->train();
    EXPECT_TRUE(torch::allclose(module(x), expected, 1e-4, 1e-5)) << step;
  }
}

TEST(BatchRenorm, EvalModeUsesTheRunningStatistics) {
  torch::manual_seed(4);
  auto module = make("brn(warmup=0,r_end=2,d_end=2)+none");
  for (int step = 0; step < 5; ++step) module(torch::randn({2, kChannels, 3, 3}) * 3 - 1);
  module->eval();
  const auto x = torch::randn({1, kChannels, 2, 2});
  const auto& method = renorm(module);
  const auto expected = (x - by_channel(method.running_mean)) / (by_channel(method.running_var) + 1e-5).sqrt();
  EXPECT_TRUE(torch::allclose(module(x), expected, 1e-5, 1e-6));
  EXPECT_EQ(method.num_batches_tracked.item<int64_t>(), 5);
}

TEST(BatchRenorm, TheScheduleIsIoffes) {
  const auto module = make("brn+relu");
  const auto bounds = [&](int64_t step) { return renorm(module).bounds(step); };
  EXPECT_EQ(bounds(0), (RenormBounds{1, 0}));
  EXPECT_EQ(bounds(4999), (RenormBounds{1, 0}));
  EXPECT_EQ(bounds(5000), (RenormBounds{1, 0}));
  EXPECT_DOUBLE_EQ(bounds(15000).r_max, 1 + 2 * 10000.0 / 35000);
  EXPECT_DOUBLE_EQ(bounds(15000).d_max, 2.5);
  EXPECT_DOUBLE_EQ(bounds(22500).r_max, 2);
  EXPECT_DOUBLE_EQ(bounds(25000).d_max, 5);
  EXPECT_EQ(bounds(40000), (RenormBounds{3, 5}));
  EXPECT_EQ(bounds(int64_t{1} << 40), (RenormBounds{3, 5}));
  const auto at_once = make("brn(r_max=2,d_max=4,warmup=10,r_end=10,d_end=10)+relu");
  EXPECT_EQ(renorm(at_once).bounds(9), (RenormBounds{1, 0}));
  EXPECT_EQ(renorm(at_once).bounds(10), (RenormBounds{2, 4}));
}

TEST(BatchRenorm, ResumesFromItsBuffersExactly) {
  torch::manual_seed(5);
  const auto* const name = "brn(warmup=2,r_end=6,d_end=5)+tlu";
  auto module = make(name);
  const auto batch = [](int step) {
    torch::manual_seed(100 + step);
    return torch::randn({2, kChannels, 3, 3}) * 2;
  };
  for (int step = 0; step < 4; ++step) module(batch(step));
  auto resumed = make(name);
  for (const auto& buffer : module->named_buffers()) resumed->named_buffers()[buffer.key()].copy_(buffer.value());
  for (int step = 4; step < 8; ++step) EXPECT_TRUE(torch::equal(resumed(batch(step)), module(batch(step)))) << step;
}

}  // namespace
}  // namespace frn
