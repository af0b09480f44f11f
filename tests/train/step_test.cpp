// A global batch gives the same gradient however it is cut, where the method does not look at the batch; and the
// per-device one where it does.
#include "frn/train/step.h"

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "frn/nn/batch_norm.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/weights.h"
#include "frn/train/classification.h"
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

std::shared_ptr<const Task> classification() { return std::make_shared<Classification>(); }

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
  Step step(model, classification(), options);
  Result result{step.run(data::make_batch(x, labels)), {}, {}};
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
    EXPECT_EQ(cut.step.samples, 8);
    EXPECT_EQ(cut.step.score, whole.step.score);
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
    Step step(model, classification(), {.batch_per_device = 2});
    step.run(data::make_batch(x.narrow(0, 2 * device, 2), labels.narrow(0, 2 * device, 2)));
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
  Step step(model, classification(), {.batch_per_device = 2});
  const auto result =
      step.run(data::make_batch(torch::full({2, 3, 12, 12}, NAN, at::kDouble), torch::zeros({2}, at::kLong)));
  EXPECT_FALSE(std::isfinite(result.loss));
  for (const auto& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(LayerReport, NamesTheFirstLayerThatGoesBad) {
  const auto model = small_model("frn+tlu");
  const auto x = torch::randn({2, 3, 12, 12}, at::kDouble);
  Step step(model, classification(), {.batch_per_device = 2});
  EXPECT_EQ(first_bad_layer(step, x), std::nullopt);
  const torch::NoGradGuard no_grad;
  model->named_parameters()["stages.1.blocks.0.norm2.weight"].fill_(INFINITY);
  EXPECT_EQ(first_bad_layer(step, x), "stages.1.blocks.0.norm2");
}

TEST(LayerReport, TellsScalesAndClippedSharesAndLeavesStatisticsAlone) {
  const auto model = small_model("bn+tlu");
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({4, 3, 12, 12}, at::kDouble);
  Step step(model, classification(), {.batch_per_device = 4});
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
    Step step(model, classification(), options);
    const auto names = [&] {
      std::map<const torch::nn::Module*, std::string> out;
      for (const auto& item : model->named_modules()) out.emplace(item.value().get(), item.key());
      return out;
    }();
    const LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor& output) {
      squares[names.at(&layer)] += output.detach().square().sum().item<double>();
      units[names.at(&layer)] += static_cast<double>(output.numel());
    });
    step.run(data::make_batch(x, labels));
  }
  Step step(model, classification(), options);
  const auto check = [&] {
    for (const auto& state : layer_states(step, x)) {
      EXPECT_NEAR(state.scale, std::sqrt(squares.at(state.name) / units.at(state.name)), 1e-6 * state.scale)
          << state.name;
    }
  };
  check();
  // The step's own view of devices and statistics is as it left it: a look changes nothing that comes after.
  const auto before = model->named_buffers()["stages.0.blocks.0.norm1.num_batches_tracked"].item<int64_t>();
  step.run(data::make_batch(x, labels));
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
    Step step(model, classification(), options);
    step.run(data::make_batch(x, labels), with);
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

// A model of torch's own with torch's own dropout: its masks follow from the keys, and the caller's numbers go on.
TEST(Step, TorchsOwnDropoutFollowsTheKeysAndLeavesTheCallersNumbersAlone) {
  torch::manual_seed(5);
  torch::nn::Sequential model(torch::nn::Flatten(), torch::nn::Dropout(0.5), torch::nn::Linear(12, 10));
  const auto batch = data::make_batch(torch::randn({4, 3, 2, 2}), torch::arange(4));
  const auto gradient = [&](uint64_t seed) {
    std::vector<RandomKey> keys;
    for (uint64_t i = 0; i < 4; ++i) keys.push_back(RandomKey(seed).with(i));
    model->zero_grad();
    Step step(model, classification(), {.batch_per_device = 4});
    step.run(batch, keys);
    return model->parameters().front().grad().clone();
  };
  torch::manual_seed(6);
  const auto expected = torch::rand({3});
  torch::manual_seed(6);
  const auto first = gradient(1);
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected));
  EXPECT_TRUE(torch::equal(gradient(1), first));
  EXPECT_FALSE(torch::equal(gradient(2), first));
}

// Losses that are means over what is not the samples: the number of targets' numbers, say.
class WeighedTask : public Task {
 public:
  std::string name() const override { return "weighed"; }
  std::vector<NamedLoss> losses(const Outputs& outputs, const data::Batch& batch, const LossContext&) const override {
    auto sum = 0 * outputs[0].sum();  // a gradient of 0 where there are no numbers
    for (int64_t i = 0; i < batch.size(); ++i) {
      for (const double number : batch.targets[static_cast<size_t>(i)].numbers) {
        sum = sum + (outputs[0][i] - number).square().sum();
      }
    }
    const auto mean = sum / std::max(1.0, weight(batch));
    return {{"near_loss", 0.75 * mean}, {"far_loss", 0.25 * mean}};
  }
  double weight(const data::Batch& batch) const override {
    double count = 0;
    for (const auto& target : batch.targets) count += static_cast<double>(target.numbers.size());
    return count;
  }
  bool weighs_samples() const override { return false; }
  std::vector<Metric> metrics() const override { return {}; }
  std::unique_ptr<Score> make_score() const override {
    struct Nothing : Score {
      void add(const Outputs&, const data::Batch&) override {}
      std::vector<double> pack() const override { return {}; }
      void merge(std::span<const double>) override {}
      std::vector<double> values() const override { return {}; }
    };
    return std::make_unique<Nothing>();
  }
};

TEST(Step, PiecesCountByWhatTheTaskNormalisesBy) {
  torch::manual_seed(7);
  torch::nn::Linear model(3, 1);
  model->to(at::kDouble);
  const auto batch = data::make_batch(torch::randn({4, 3}, at::kDouble),
                                      {{.numbers = {1, 2, 3}}, {}, {.numbers = {4}}, {.numbers = {5, 6}}});
  const auto run = [&](const StepOptions& options) {
    model->zero_grad();
    Step step(model, std::make_shared<WeighedTask>(), options);
    const auto result = step.run(batch);
    return std::pair(result, model->weight.grad().clone());
  };
  const auto [whole, gradient] = run({.batch_per_device = 4});
  EXPECT_EQ(whole.weight, 6);
  EXPECT_EQ(whole.losses.at(0).key, "near_loss");
  EXPECT_NEAR(whole.losses.at(0).value + whole.losses.at(1).value, whole.loss, 1e-12);
  for (const auto& options : {StepOptions{.batch_per_device = 1, .devices = 4, .images_at_once = 1},
                              StepOptions{.batch_per_device = 2, .devices = 1}}) {
    const auto [cut, same] = run(options);
    EXPECT_NEAR(cut.loss, whole.loss, 1e-12);
    EXPECT_NEAR(cut.losses.at(1).value, whole.losses.at(1).value, 1e-12);
    EXPECT_TRUE(torch::allclose(same, gradient, 1e-12, 1e-12));
  }
  // Of two processes, the other one with twice the weight: the mean of both is what this one divides by.
  const auto [half, scaled] =
      run({.batch_per_device = 4, .mean_weight = [](double own) { return (own + 2 * own) / 2; }});
  EXPECT_NEAR(half.loss, whole.loss / 1.5, 1e-12);
  EXPECT_TRUE(torch::allclose(scaled, gradient / 1.5, 1e-12, 1e-12));
}

}  // namespace
}  // namespace frn::train
