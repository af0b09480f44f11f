// Names and shapes of other libraries. What torchvision and timm really write is compared in tests/parity.
#include "frn/models/foreign_weights.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include "frn/core/error.h"

namespace frn {
namespace {

NamedTensors state(std::string_view model, std::string_view norm) {
  torch::manual_seed(2);
  return state_of(*make_model(
      model, {.norm = NormActSpec::parse(norm), .classes = 4, .detector = {.style = detection::Style::kTorchvision}}));
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ForeignWeights, EveryNetworkGoesThereAndBack) {
  for (const auto& foreign : foreign_models()) {
    if (foreign.model == "vgg11" || foreign.model == "resnetv2-152" || foreign.model == "resnetv1-101") continue;
    const auto ours = state(foreign.model, "bn+relu");
    NameReport report;
    const auto theirs = to_foreign(foreign, ours, LoadMode::kStrict, report);
    ASSERT_EQ(theirs.size(), ours.size()) << foreign.name;
    const auto back = from_foreign(foreign, theirs, LoadMode::kStrict, report);
    ASSERT_EQ(back.size(), ours.size()) << foreign.name;
    for (const auto& [name, tensor] : ours) ASSERT_TRUE(back.at(name).equal(tensor)) << foreign.name << " " << name;
    EXPECT_EQ(report.to_string(), "");
  }
}

TEST(ForeignWeights, NamesAreTorchvisionsAndTimms) {
  NameReport report;
  const auto resnet = to_foreign(find_foreign_model("torchvision:resnet50"), state("resnetv1-50", "bn+relu"),
                                 LoadMode::kStrict, report);
  for (const auto* name : {"conv1.weight", "bn1.running_var", "layer1.0.downsample.0.weight",
                           "layer1.0.downsample.1.bias", "layer4.2.bn3.num_batches_tracked", "fc.bias"}) {
    EXPECT_EQ(resnet.count(name), 1U) << name;
  }
  const auto timm =
      to_foreign(find_foreign_model("timm:resnetv2_50"), state("resnetv2-50", "frn+tlu"), LoadMode::kStrict, report);
  EXPECT_EQ(timm.at("head.fc.weight").sizes(), (std::vector<int64_t>{4, 2048, 1, 1}));
  EXPECT_EQ(timm.count("stages.0.blocks.0.norm1.tau"), 1U);
}

TEST(ForeignWeights, WhatDoesNotFitIsListedByNameAndPartialConvertsTheRest) {
  const auto& foreign = find_foreign_model("torchvision:resnet18");
  NameReport report;
  auto theirs = to_foreign(foreign, state("resnetv1-18", "bn+relu"), LoadMode::kStrict, report);
  theirs.erase("layer2.0.conv1.weight");
  theirs["extra.weight"] = torch::zeros({1});
  EXPECT_EQ(message_of([&] { from_foreign(foreign, theirs, LoadMode::kStrict, report); }),
            "[convert] the file's tensors must be those of torchvision:resnet18 but 1 are missing: "
            "layer2.0.conv1.weight; 1 are unknown: extra.weight; --partial converts the rest");
  NameReport partial;
  const auto ours = from_foreign(foreign, theirs, LoadMode::kPartial, partial);
  EXPECT_EQ(ours.size(), theirs.size() - 1);
  EXPECT_EQ(partial.missing, std::vector<std::string>{"layer2.0.conv1.weight"});
}

TEST(ForeignWeights, ABatchNormNetworkStartsAnFrnNetwork) {
  const auto trained = state("resnetv1-18", "bn+relu");
  const auto started = with_fresh_norms("resnetv1-18", NormActSpec::parse("frn+tlu"), trained);
  EXPECT_TRUE(started.at("layer1.0.conv1.weight").equal(trained.at("layer1.0.conv1.weight")));
  EXPECT_TRUE(started.at("fc.weight").equal(trained.at("fc.weight")));
  EXPECT_TRUE(started.at("layer1.0.norm1.tau").eq(0).all().item<bool>());
  EXPECT_EQ(started.count("layer1.0.norm1.running_mean"), 0U);
  const auto model = make_uninitialised_model("resnetv1-18", {.norm = NormActSpec::parse("frn+tlu"), .classes = 4});
  load_state(*model, started);
  EXPECT_TRUE(model->forward(torch::randn({1, 3, 32, 32})).logits.isfinite().all().item<bool>());
}

TEST(ForeignWeights, FreshNormsSayWhatIsMissing) {
  auto trained = state("resnetv1-18", "bn+relu");
  trained.erase("layer2.0.conv1.weight");
  EXPECT_NE(message_of([&] {
              with_fresh_norms("resnetv1-18", NormActSpec::parse("frn+tlu"), trained);
            }).find("layer2.0.conv1.weight is missing"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              with_fresh_norms("retinanet-r18", NormActSpec::parse("gn+relu"), trained);
            }).find("in classifiers, but retinanet-r18 finds boxes; convert the classifier"),
            std::string::npos);
  EXPECT_NE(message_of([&] { with_fresh_norms("vgg-a", NormActSpec::parse("frn+tlu"), trained); }).find("--from"),
            std::string::npos);
}

}  // namespace
}  // namespace frn
