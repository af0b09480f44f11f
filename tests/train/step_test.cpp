// A global batch gives the same gradient however it is cut, where the method does not look at the batch; and the
// per-device one where it does.
#include "frn/train/step.h"

#include <torch/utils.h>

#include "frn/nn/batch_norm.h"
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
  EXPECT_EQ(first_bad_layer(*model, x, false), std::nullopt);
  const torch::NoGradGuard no_grad;
  model->named_parameters()["stages.1.blocks.0.norm2.weight"].fill_(INFINITY);
  EXPECT_EQ(first_bad_layer(*model, x, false), "stages.1.blocks.0.norm2");
}

TEST(LayerReport, TellsScalesAndClippedSharesAndLeavesStatisticsAlone) {
  const auto model = small_model("bn+tlu");
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({4, 3, 12, 12}, at::kDouble);
  const auto before = model->named_buffers()["stages.0.blocks.0.norm1.running_mean"].clone();
  model->named_parameters()["stages.0.blocks.0.norm1.tau"].fill_(100);
  const auto states = layer_states(*model, x, false);
  EXPECT_EQ(states.at(0).name, "stages.0.blocks.0.norm1");
  EXPECT_EQ(states[0].clipped, 1.0);
  EXPECT_NEAR(states[0].scale, 100, 1e-3);
  // A normalised value is below 0 about half of the time.
  EXPECT_GT(states.at(1).clipped.value(), 0.2);
  EXPECT_LT(states.at(1).clipped.value(), 0.8);
  EXPECT_TRUE(torch::equal(model->named_buffers()["stages.0.blocks.0.norm1.running_mean"], before));
}

}  // namespace
}  // namespace frn::train
