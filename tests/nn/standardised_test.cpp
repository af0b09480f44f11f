// Weight standardisation: its names, its numbers, and that a convolution always uses the weights it has now.
#include "frn/nn/standardised.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "frn/core/error.h"
#include "frn/nn/detail/bare_layers.h"

namespace frn {
namespace {

std::string complaint(const std::string& text) {
  try {
    WeightSpec::parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(WeightSpec, NamesComeBackAsTheyWent) {
  for (const std::string text : {"off", "plain", "scaled", "gain", "plain(eps=1e-08)", "gain(eps=0.001)"}) {
    EXPECT_EQ(WeightSpec::parse(text).to_string(), text);
  }
  EXPECT_EQ(WeightSpec::parse("plain(eps=1e-6)").to_string(), "plain");
  EXPECT_EQ(WeightSpec::parse("scaled(eps=1e-6)"), WeightSpec::parse("scaled"));
}

TEST(WeightSpec, WhatIsNoneIsNamed) {
  EXPECT_EQ(complaint("on"),
            "[weights_standardised] it must be one of off, plain, scaled, gain, with an eps where another than 1e-6 is "
            "wanted, as in plain(eps=1e-8), but is 'on'");
  for (const std::string text : {"plain(", "plain()", "plain(eps=)", "plain(eps=x)", "plain(eps=-1)", "plain(eps=nan)",
                                 "plain(eps=1e-6", "plain(eps=1e-6)x", "off(eps=1e-6)", "gain (eps=1)"}) {
    EXPECT_NE(complaint(text).find("'" + text + "'"), std::string::npos) << complaint(text);
  }
}

// (w - mean)/sqrt(var + eps), as it stands.
at::Tensor by_definition(const at::Tensor& weight, double eps) {
  const auto rows = weight.flatten(1);
  const auto centred = rows - rows.mean(1, /*keepdim=*/true);
  return (centred / (centred.square().mean(1, true) + eps).sqrt()).reshape(weight.sizes());
}

TEST(Standardised, IsItsDefinitionInEveryFormAndLayout) {
  torch::manual_seed(1);
  const auto weight = torch::randn({6, 4, 3, 2}, torch::kDouble) + 0.5;
  const auto gain = torch::rand({6, 1, 1, 1}, torch::kDouble);
  const auto plain = by_definition(weight, 1e-3);
  const auto near = [](const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-13, 1e-13); };
  for (const auto& w : {weight, weight.contiguous(at::MemoryFormat::ChannelsLast)}) {
    EXPECT_TRUE(near(standardised(w, {}, {WeightForm::kPlain, 1e-3}), plain));
    EXPECT_TRUE(near(standardised(w, {}, {WeightForm::kScaled, 1e-3}), plain / std::sqrt(24.0)));
    const auto gained = standardised(w, gain, {WeightForm::kGain, 1e-3});
    EXPECT_TRUE(near(gained, gain * plain / std::sqrt(24.0)));
    EXPECT_EQ(gained.strides(), w.strides());
    EXPECT_TRUE(standardised(w, {}, {}).is_same(w)) << "off";
  }
}

// An optimiser writes to the weights' memory without PyTorch knowing.
TEST(StandardisedConvolution, AlwaysUsesTheWeightsItHas) {
  torch::manual_seed(2);
  detail::Conv2d conv(detail::same_conv(3, 5, 3));
  conv->weight.data().normal_();
  conv->standardise(WeightSpec::parse("gain"));
  const auto x = torch::randn({1, 3, 6, 6});
  const auto fresh = [&] {
    return at::conv2d(x, standardised(conv->weight, conv->gain, WeightSpec::parse("gain")), {}, 1, 1);
  };
  const auto without_a_graph = [&] {
    const torch::NoGradGuard no_grad;
    return conv->forward(x);
  };
  EXPECT_TRUE(without_a_graph().equal(fresh()));
  EXPECT_TRUE(without_a_graph().equal(fresh())) << "the second time from what was kept";
  {
    const torch::NoGradGuard no_grad;
    conv->weight.normal_();
  }
  EXPECT_TRUE(without_a_graph().equal(fresh())) << "after a change in place";
  {
    const torch::NoGradGuard no_grad;
    conv->gain.mul_(2);
  }
  EXPECT_TRUE(without_a_graph().equal(fresh())) << "after a change of the gain";
  conv->weight.set_data(torch::randn_like(conv->weight));
  EXPECT_TRUE(without_a_graph().equal(fresh())) << "after other memory";
  conv->forward(x).sum().backward();
  conv->weight.data_ptr<float>()[0] += 1;
  EXPECT_TRUE(without_a_graph().equal(fresh())) << "after a training step";
}

TEST(StandardisedConvolution, WhatGivesLogitsStaysAsItIs) {
  auto shape = detail::same_conv(3, 5, 3);
  shape.gives_logits = true;
  detail::Conv2d conv(shape);
  conv->weight.data().normal_();
  conv->standardise(WeightSpec::parse("gain"));
  EXPECT_FALSE(conv->gain.defined());
  const auto x = torch::randn({1, 3, 6, 6});
  EXPECT_TRUE(conv->forward(x).equal(at::conv2d(x, conv->weight, {}, 1, 1)));
}

}  // namespace
}  // namespace frn
