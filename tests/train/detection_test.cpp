// The task of detection: what its losses are divided by, what it counts, and that scores add up however they are shared
// out.
#include "frn/train/detection.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>

#include "frn/core/error.h"
#include "frn/detection/box_code.h"
#include "frn/detection/matching.h"

namespace frn::train {
namespace {

constexpr int64_t kSize = 128;
constexpr int64_t kClasses = 3;

int64_t anchor_count() {
  return static_cast<int64_t>(detection::make_anchors(detection::Style::kPaper, kSize, kSize).boxes.size());
}

// Image i has i boxes; the first has none.
data::Batch batch_of(int64_t images) {
  std::vector<data::Target> targets;
  for (int64_t i = 0; i < images; ++i) {
    auto& target = targets.emplace_back();
    for (int64_t k = 0; k < i; ++k) {
      const auto at = static_cast<double>(10 + 20 * k);
      target.boxes.push_back({at, at, at + 30, at + 25, k % kClasses});
    }
  }
  auto batch = data::make_batch(at::zeros({images, 3, kSize, kSize}), std::move(targets));
  for (int64_t i = 0; i < images; ++i) batch.indices.push_back(i);
  return batch;
}

Outputs random_outputs(int64_t images) {
  torch::manual_seed(1);
  return {at::randn({images, anchor_count(), kClasses}) - 3, at::randn({images, anchor_count(), 4})};
}

Outputs part(const Outputs& outputs, int64_t begin, int64_t length) {
  return {outputs[0].narrow(0, begin, length), outputs[1].narrow(0, begin, length)};
}

double sum(const std::vector<NamedLoss>& losses) {
  return losses.at(0).value.item<double>() + losses.at(1).value.item<double>();
}

TEST(Detection, LossesOfTheDeviceNormaliserAreTheMeanOfEachDevicesOwn) {
  const Detection task;
  const auto batch = batch_of(4);
  const auto outputs = random_outputs(4);
  const double together = sum(task.losses(outputs, batch, {.training = true, .devices = 2}));
  double apart = 0;
  for (int64_t device = 0; device < 2; ++device) {
    apart += sum(task.losses(part(outputs, 2 * device, 2), batch.part(2 * device, 2), {})) / 2;
  }
  EXPECT_NEAR(together, apart, 1e-5 * apart);
  EXPECT_EQ(task.weight(batch), 4);
}

TEST(Detection, LossesOfTheStepNormaliserDoNotDependOnDevicesNorOnPieces) {
  const Detection task({.normaliser = LossNormaliser::kStep});
  const auto batch = batch_of(4);
  const auto outputs = random_outputs(4);
  const double together = sum(task.losses(outputs, batch, {.training = true, .devices = 1}));
  EXPECT_DOUBLE_EQ(together, sum(task.losses(outputs, batch, {.training = true, .devices = 4})));
  double apart = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const auto piece = batch.part(i, 1);
    apart += sum(task.losses(part(outputs, i, 1), piece, {})) * task.weight(piece) / task.weight(batch);
  }
  EXPECT_NEAR(together, apart, 1e-5 * apart);
}

TEST(Detection, AnImageWithoutBoxesTrainsAsBackground) {
  for (const auto normaliser : {LossNormaliser::kDevice, LossNormaliser::kStep, LossNormaliser::kImage}) {
    const Detection task({.normaliser = normaliser});
    auto outputs = random_outputs(1);
    for (auto& output : outputs) output.set_requires_grad(true);
    const auto losses = task.losses(outputs, batch_of(1), {});
    EXPECT_GT(losses.at(0).value.item<double>(), 0);
    EXPECT_EQ(losses.at(1).value.item<double>(), 0);
    (losses[0].value + losses[1].value).backward();
    EXPECT_GT(outputs[0].grad().abs().sum().item<double>(), 0);
    EXPECT_EQ(outputs[1].grad().abs().sum().item<double>(), 0);
  }
}

// Outputs that say exactly what the targets are.
Outputs perfect_outputs(const data::Batch& batch) {
  const auto anchors = detection::make_anchors(detection::Style::kPaper, kSize, kSize);
  auto logits = at::full({batch.size(), anchor_count(), kClasses}, -20.0F);
  auto codes = at::zeros({batch.size(), anchor_count(), 4});
  for (int64_t i = 0; i < batch.size(); ++i) {
    std::vector<detection::Corners> boxes;
    for (const auto& box : batch.targets[static_cast<size_t>(i)].boxes) {
      boxes.push_back({static_cast<float>(box.left), static_cast<float>(box.top), static_cast<float>(box.right),
                       static_cast<float>(box.bottom)});
    }
    const auto matches = detection::match(anchors.boxes, boxes, detection::rule_of(detection::Style::kPaper));
    for (size_t a = 0; a < matches.size(); ++a) {
      if (matches[a] < 0) continue;
      const auto& box = boxes[static_cast<size_t>(matches[a])];
      const auto place = static_cast<int64_t>(a);
      logits[i][place][batch.targets[static_cast<size_t>(i)].boxes[static_cast<size_t>(matches[a])].label] = 10;
      const auto code = detection::encode(box, anchors.boxes[a], detection::weights_of(detection::Style::kPaper));
      for (int64_t k = 0; k < 4; ++k) codes[i][place][k] = code[static_cast<size_t>(k)];
    }
  }
  return {logits, codes};
}

TEST(Detection, PerfectOutputsHaveNoLossAndAPrecisionOfOne) {
  const Detection task({.classes = {"a", "b", "c"}});
  const auto batch = batch_of(4);
  const auto outputs = perfect_outputs(batch);
  EXPECT_LT(sum(task.losses(outputs, batch, {})), 1e-3);
  const auto score = task.make_score();
  score->add(outputs, batch);
  const auto values = score->values();
  ASSERT_EQ(values.size(), task.metrics().size());
  EXPECT_EQ(task.metrics().at(0).key, "AP");
  EXPECT_DOUBLE_EQ(values.at(0), 1);
}

TEST(Detection, ScoresAddUpHoweverTheSetIsSharedOut) {
  const Detection task({.classes = {"a", "b", "c"}});
  const auto batch = batch_of(6);
  const auto outputs = random_outputs(6);
  const auto whole = task.make_score();
  whole->add(outputs, batch);
  const auto merged = task.make_score();
  for (const int64_t begin : {3, 0}) {  // in another order
    const auto score = task.make_score();
    score->add(part(outputs, begin, 3), batch.part(begin, 3));
    merged->merge(score->pack());
  }
  const auto expected = whole->values();
  const auto found = merged->values();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i]));
    } else {
      EXPECT_DOUBLE_EQ(found[i], expected[i]) << task.metrics()[i].key;
    }
  }
}

TEST(Detection, CountsPositiveAnchorsOfTrainingImages) {
  const Detection task;
  const auto batch = batch_of(3);
  const auto score = task.make_training_score();
  score->add({}, batch);
  const auto positives = task.positives_of(batch);
  EXPECT_EQ(positives.at(0), 0);
  EXPECT_GE(positives.at(2), 2);
  EXPECT_DOUBLE_EQ(score->values().at(0), static_cast<double>(positives[0] + positives[1] + positives[2]) / 3);
}

TEST(Detection, DropsCrowdsWhenAskedTo) {
  auto batch = batch_of(3);
  for (auto& box : batch.targets[2].boxes) box.crowd = true;
  EXPECT_GT(Detection().positives_of(batch).at(2), 0);
  EXPECT_EQ(Detection({.drop_crowd = true}).positives_of(batch).at(2), 0);
}

TEST(Detection, RefusesOutputsOfAnotherSize) {
  const Detection task;
  EXPECT_THROW(task.losses({at::zeros({1, 10, 3}), at::zeros({1, 10, 4})}, batch_of(1), {}), Error);
  EXPECT_THROW(task.losses({at::zeros({1, 10, 3})}, batch_of(1), {}), Error);
}

}  // namespace
}  // namespace frn::train
