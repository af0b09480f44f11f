// What the two styles of detectors promise: how many numbers for which anchors, how they start, and which layers learn
// eps.
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <cmath>

#include "frn/core/error.h"
#include "frn/models/model.h"
#include "frn/nn/batch_norm.h"
#include "frn/nn/norm_act.h"
#include "frn/nn/parameter_groups.h"

namespace frn {
namespace {

std::shared_ptr<Model> make(detection::Style style, std::string_view norm = "frn+tlu", int64_t image_size = 256) {
  torch::manual_seed(1);
  return make_model(
      "retinanet-r8",
      {.norm = NormActSpec::parse(norm), .classes = 3, .detector = {.style = style, .image_size = image_size}});
}

TEST(RetinaNet, GivesNumbersForEveryAnchorOfItsStyle) {
  const torch::NoGradGuard no_grad;
  for (const auto style : {detection::Style::kPaper, detection::Style::kTorchvision}) {
    const auto model = make(style);
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{256, 256}, {128, 384}, {200, 136}}) {
      const auto out = model->forward(torch::randn({1, 3, height, width}));
      const auto anchors = static_cast<int64_t>(detection::make_anchors(style, height, width).boxes.size());
      EXPECT_EQ(out.logits.sizes(), (std::vector<int64_t>{1, anchors, 3})) << height << "x" << width;
      EXPECT_EQ(out.codes.sizes(), (std::vector<int64_t>{1, anchors, 4}));
    }
  }
}

TEST(RetinaNet, StartsWithScoresOfAboutOneInAHundred) {
  const torch::NoGradGuard no_grad;
  for (const auto style : {detection::Style::kPaper, detection::Style::kTorchvision}) {
    const auto score = make(style)->forward(torch::randn({1, 3, 256, 256})).logits.sigmoid().mean().item<double>();
    EXPECT_GT(score, 0.005);
    EXPECT_LT(score, 0.02);
  }
}

// The weights of the paper's backbone: normal numbers of deviation 0.03, none beyond two deviations.
TEST(RetinaNet, BackboneStartsTruncatedNormal) {
  const auto model = make(detection::Style::kPaper);
  const auto weight = model->named_parameters()["backbone.body.layer3.0.conv2.weight"];
  EXPECT_LE(weight.abs().max().item<double>(), 0.06 + 1e-6);
  // A normal number that is cut at two deviations has 0.8796 of its deviation.
  EXPECT_NEAR(weight.std().item<double>(), 0.03 * 0.8796, 0.0003);
}

std::vector<std::string> layers_with_learned_eps(const Model& model) {
  std::vector<std::string> out;
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.key().ends_with(".eps")) out.push_back(parameter.key());
  }
  return out;
}

TEST(RetinaNet, LearnsEpsWhereMapsHave2x2ValuesOrFewer) {
  EXPECT_TRUE(layers_with_learned_eps(*make(detection::Style::kPaper, "frn+tlu", 512)).empty());
  const auto names = layers_with_learned_eps(*make(detection::Style::kPaper, "frn+tlu", 256));
  EXPECT_EQ(names.size(), 5U);  // P7, and two layers of each head at its level
  for (const auto& name : names) {
    EXPECT_TRUE(name.find("p7") != std::string::npos || name.find("norm.4.") != std::string::npos) << name;
  }
  EXPECT_EQ(layers_with_learned_eps(*make(detection::Style::kPaper, "frn+tlu", 128)).size(), 10U);
  EXPECT_TRUE(layers_with_learned_eps(*make(detection::Style::kPaper, "frn(eps=1e-5)+tlu", 256)).empty());
}

TEST(RetinaNet, BatchNormHasTheConstantsOfThePaperUnlessTheSpecSaysOtherwise) {
  const auto spec_of = [](const Model& model) {
    for (const auto& layer : model.modules()) {
      if (const auto* norm = dynamic_cast<const BatchNormImpl*>(layer.get())) return norm->spec();
    }
    throw Error("test", "there must be a batch norm but is none");
  };
  const auto paper = spec_of(*make(detection::Style::kPaper, "bn+relu"));
  EXPECT_EQ(paper.number("eps"), 1e-3);
  EXPECT_EQ(paper.number("momentum"), 0.003);
  EXPECT_EQ(spec_of(*make(detection::Style::kPaper, "bn(momentum=0.2)+relu")).number("momentum"), 0.2);
  EXPECT_EQ(spec_of(*make(detection::Style::kTorchvision, "bn+relu")).eps(), 1e-5);
}

TEST(RetinaNet, KernelsOfConvolutionsAloneDecay) {
  const auto groups = parameter_groups(*make(detection::Style::kPaper), {});
  for (const auto& [name, tensor] : groups.decayed) EXPECT_EQ(tensor.dim(), 4) << name;
  for (const auto& [name, tensor] : groups.not_decayed) EXPECT_EQ(tensor.dim() == 4, false) << name;
}

}  // namespace
}  // namespace frn
