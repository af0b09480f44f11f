// A global batch gives the same gradient however it is cut, where the method does not look at the batch; and the
// per-device one where it does.
#include "frn/train/step.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "frn/nn/batch_norm.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/weights.h"
#include "frn/train/layer_report.h"
#include "tests/core/files.h"

namespace frn::train {
namespace {

std::shared_ptr<Model> small_model(const std::string& norm) {
  torch::manual_seed(1);
  auto model = make_model("resnetv2-8", {.norm = NormActSpec::parse(norm), .classes = 10});
  model->to(at::kDouble);
  return model;
}

struct Result {
  StepResult step;
  NamedTensors gradients;
  NamedTensors state;
};

Result run(const std::string& norm, const StepOptions& options, int64_t images = 8) {
  const auto model = small_model(norm);
  torch::manual_seed(2);
  const auto x = torch::randn({images, 3, 12, 12}, at::kDouble);
  const auto labels = torch::arange(images) % 10;
  Step step(model, options);
  Result result{step.run(x, labels), {}, {}};
  for (const auto& item : model->named_parameters()) result.gradients.emplace(item.key(), item->grad().clone());
  for (const auto& item : model->named_buffers()) result.state.emplace(item.key(), item->clone());
  return result;
}

// float64: sums in another order differ by a few units of 2^-53 times the number of additions, far below this.
void expect_close(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(torch::allclose(tensor.to(at::kDouble), b.at(name).to(at::kDouble), 1e-9, 1e-11)) << name;
  }
}

bool any_differs(const NamedTensors& a, const NamedTensors& b) {
  for (const auto& [name, tensor] : a) {
    if (!torch::allclose(tensor, b.at(name), 1e-3, 1e-6)) return true;
  }
  return false;
}

TEST(Step, APerSampleNormDoesNotSeeDevicesPiecesOrAccumulation) {
  const auto whole = run("frn+tlu", {.batch_per_device = 8});
  for (const StepOptions& options :
       {StepOptions{.batch_per_device = 1, .devices = 8}, StepOptions{.batch_per_device = 2, .devices = 4},
        StepOptions{.batch_per_device = 2, .devices = 4, .images_at_once = 3},
        StepOptions{.batch_per_device = 4, .devices = 1}, StepOptions{.batch_per_device = 1, .devices = 2}}) {
    const auto cut = run("frn+tlu", options);
    EXPECT_NEAR(cut.step.loss, whole.step.loss, 1e-12);
    EXPECT_EQ(cut.step.score.samples, 8);
    EXPECT_EQ(cut.step.score.first, whole.step.score.first);
    expect_close(cut.gradients, whole.gradients);
  }
}

TEST(Step, BatchNormSeesItsDevice) {
  const auto whole = run("bn+relu", {.batch_per_device = 8});
  const auto split = run("bn+relu", {.batch_per_device = 2, .devices = 4});
  EXPECT_TRUE(any_differs(whole.gradients, split.gradients));
}

class BatchMethods : public testing::TestWithParam<const char*> {};

TEST_P(BatchMethods, PiecesOfWholeDevicesGiveTheSameGradientsAndStatistics) {
  const auto whole = run(GetParam(), {.batch_per_device = 2, .devices = 4});
  for (const int64_t at_once : {2, 4, 6}) {
    const auto cut = run(GetParam(), {.batch_per_device = 2, .devices = 4, .images_at_once = at_once});
    EXPECT_NEAR(cut.step.loss, whole.step.loss, 1e-12);
    expect_close(cut.gradients, whole.gradients);
    expect_close(cut.state, whole.state);
  }
}

// What the paper's 8 GPUs do: every device on its own, gradients averaged, statistics of device 0.
TEST_P(BatchMethods, VirtualDevicesGiveWhatSeparateOnesGive) {
  const auto together = run(GetParam(), {.batch_per_device = 2, .devices = 4});
  torch::manual_seed(2);
  const auto x = torch::randn({8, 3, 12, 12}, at::kDouble);
  const auto labels = torch::arange(8);
  NamedTensors mean;
  for (int64_t device = 0; device < 4; ++device) {
    const auto model = small_model(GetParam());
    Step step(model, {.batch_per_device = 2});
    step.run(x.narrow(0, 2 * device, 2), labels.narrow(0, 2 * device, 2));
    for (const auto& item : model->named_parameters()) {
      auto& sum = mean[item.key()];
      sum = sum.defined() ? sum + item->grad() / 4 : item->grad() / 4;
    }
    if (device > 0) continue;
    NamedTensors state;
    for (const auto& item : model->named_buffers()) state.emplace(item.key(), item->clone());
    expect_close(together.state, state);
  }
  expect_close(together.gradients, mean);
}

INSTANTIATE_TEST_SUITE_P(Norms, BatchMethods,
                         testing::Values("bn+relu", "brn(warmup=0,r_end=0,d_end=0)+relu", "bn+tlu"));

TEST(Step, OneImagePerDeviceTrainsWithBatchNorm) {
  const auto result = run("bn+relu", {.batch_per_device = 1, .devices = 8});
  EXPECT_TRUE(std::isfinite(result.step.loss));
}

TEST(Step, ASmallerLastBatchCountsByItsImages) {
  const auto whole = run("gn+relu", {.batch_per_device = 8}, 6);
  const auto cut = run("gn+relu", {.batch_per_device = 2, .devices = 2}, 6);
  EXPECT_NEAR(cut.step.loss, whole.step.loss, 1e-12);
  expect_close(cut.gradients, whole.gradients);
}

TEST(Step, ABatchThatDoesNotDivideIsAnError) {
  EXPECT_NE(
      error_of([] { run("frn+tlu", {.batch_per_device = 2, .devices = 4}, 6); }).find("multiple of the 4 devices"),
      std::string::npos);
}

TEST(Step, ALossThatIsNotFiniteStopsBeforeTheGradient) {
  const auto model = small_model("none+relu");
  Step step(model, {.batch_per_device = 2});
  const auto result = step.run(torch::full({2, 3, 12, 12}, NAN, at::kDouble), torch::zeros({2}, at::kLong));
  EXPECT_FALSE(std::isfinite(result.loss));
  for (const auto& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(LayerReport, NamesTheFirstLayerThatGoesBad) {
  const auto model = small_model("frn+tlu");
  const auto x = torch::randn({2, 3, 12, 12}, at::kDouble);
  Step step(model, {.batch_per_device = 2});
  EXPECT_EQ(first_bad_layer(step, x), std::nullopt);
  const torch::NoGradGuard no_grad;
  model->named_parameters()["stages.1.blocks.0.norm2.weight"].fill_(INFINITY);
  EXPECT_EQ(first_bad_layer(step, x), "stages.1.blocks.0.norm2");
}

TEST(LayerReport, TellsScalesAndClippedSharesAndLeavesStatisticsAlone) {
  const auto model = small_model("bn+tlu");
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({4, 3, 12, 12}, at::kDouble);
  Step step(model, {.batch_per_device = 4});
  const auto before = model->named_buffers()["stages.0.blocks.0.norm1.running_mean"].clone();
  model->named_parameters()["stages.0.blocks.0.norm1.tau"].fill_(100);
  const auto states = layer_states(step, x);
  EXPECT_EQ(states.at(0).name, "stages.0.blocks.0.norm1");
  EXPECT_EQ(states[0].clipped, 1.0);
  EXPECT_NEAR(states[0].scale, 100, 1e-3);
  // A normalised value is below 0 about half of the time.
  EXPECT_GT(states.at(1).clipped.value(), 0.2);
  EXPECT_LT(states.at(1).clipped.value(), 0.8);
  EXPECT_TRUE(torch::equal(model->named_buffers()["stages.0.blocks.0.norm1.running_mean"], before));
}

// Batch norm with two images of a device sees two images, not the whole batch as one device.
TEST(LayerReport, TakesTheBatchAsTheStepDoes) {
  const auto model = small_model("bn+relu");
  const auto x = torch::randn({8, 3, 12, 12}, at::kDouble);
  const auto labels = torch::arange(8);
  const StepOptions options{.batch_per_device = 2, .devices = 2, .images_at_once = 2};
  std::map<std::string, double> squares, units;
  {
    Step step(model, options);
    const auto names = [&] {
      std::map<const torch::nn::Module*, std::string> out;
      for (const auto& item : model->named_modules()) out.emplace(item.value().get(), item.key());
      return out;
    }();
    const LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor& output) {
      squares[names.at(&layer)] += output.detach().square().sum().item<double>();
      units[names.at(&layer)] += static_cast<double>(output.numel());
    });
    step.run(x, labels);
  }
  Step step(model, options);
  const auto check = [&] {
    for (const auto& state : layer_states(step, x)) {
      EXPECT_NEAR(state.scale, std::sqrt(squares.at(state.name) / units.at(state.name)), 1e-6 * state.scale)
          << state.name;
    }
  };
  check();
  // The step's own view of devices and statistics is as it left it: a look changes nothing that comes after.
  const auto before = model->named_buffers()["stages.0.blocks.0.norm1.num_batches_tracked"].item<int64_t>();
  step.run(x, labels);
  EXPECT_EQ(model->named_buffers()["stages.0.blocks.0.norm1.num_batches_tracked"].item<int64_t>(), before + 2);
  check();
}

// Masks belong to samples: the gradient is the same however the batch is cut.
TEST(Step, DropoutIsTheSameForDevicesAndPieces) {
  std::vector<RandomKey> keys;
  for (uint64_t i = 0; i < 8; ++i) keys.push_back(RandomKey(7).with(i));
  const auto x = torch::randn({8, 3, 32, 32}, at::kDouble);
  const auto labels = torch::arange(8);
  const auto gradients = [&](const StepOptions& options, std::span<const RandomKey> with) {
    at::manual_seed(3);
    const auto model = make_model("vgg-a-small", {.norm = NormActSpec::parse("gn+relu"), .classes = 10});
    model->to(at::kDouble);
    model->train();
    Step step(model, options);
    step.run(x, labels, with);
    std::vector<at::Tensor> out;
    for (const auto& parameter : model->parameters()) out.push_back(parameter.grad());
    return out;
  };
  const auto largest_difference = [](const auto& a, const auto& b) {
    double out = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      out = std::max(out, ((a[i] - b[i]).norm() / (a[i].norm() + 1e-12)).template item<double>());
    }
    return out;
  };
  const auto whole = gradients({.batch_per_device = 8}, keys);
  for (const auto& options : {StepOptions{.batch_per_device = 2, .devices = 4},
                              StepOptions{.batch_per_device = 1, .devices = 8, .images_at_once = 2},
                              StepOptions{.batch_per_device = 2, .devices = 2, .images_at_once = 2}}) {
    EXPECT_LT(largest_difference(whole, gradients(options, keys)), 1e-12);
  }
  // Other keys drop other units: the check above looks at something.
  std::vector<RandomKey> others;
  for (uint64_t i = 0; i < 8; ++i) others.push_back(RandomKey(8).with(i));
  EXPECT_GT(largest_difference(whole, gradients({.batch_per_device = 8}, others)), 1e-3);
}

}  // namespace
}  // namespace frn::train
