// A network of one's own that derives from Model: the checks of x, clone, the auxiliary head's size.
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <string>

#include "frn/core/error.h"
#include "frn/models/model.h"
#include "frn/nn/norm_act.h"

namespace frn {
namespace {

// The least that a user writes.
class Small : public Model {
 public:
  explicit Small(const ModelOptions& options, const ModelRow& row = {}) : Model(options, row) {
    conv_ = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(options.input_channels, 8, 3)));
    bn_ = register_module("bn", torch::nn::BatchNorm2d(8));
    norm_ = register_module("norm", NormAct(options.norm, 8));
    fc_ = register_module("fc", torch::nn::Linear(8, options.classes));
  }

 protected:
  ModelOutput run(const at::Tensor& x) override { return {fc_(norm_(bn_(conv_(x))).mean({2, 3})), {}}; }

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d bn_{nullptr};
  NormAct norm_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

ModelOptions options() { return {.norm = NormActSpec::parse("bn+tlu"), .classes = 5, .input_channels = 2}; }

ModelRow row() {
  return {
      .name = "small",
      .smallest_input = 4,
      .make = [](const ModelOptions& given) -> std::shared_ptr<Model> { return std::make_shared<Small>(given); },
  };
}

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OwnModel, RunsWithoutARow) {
  Small model(options());
  const auto out = model.forward(torch::randn({3, 2, 6, 6}));
  EXPECT_EQ(out.logits.sizes(), (std::vector<int64_t>{3, 5}));
  EXPECT_FALSE(out.auxiliary.defined());
  out.logits.sum().backward();
  for (const auto& parameter : model.named_parameters()) EXPECT_TRUE(parameter->grad().defined()) << parameter.key();
  EXPECT_EQ(model.smallest_input(), 1);
  EXPECT_EQ(model.row().auxiliary_weight, 0);
}

TEST(OwnModel, ItsInputIsChecked) {
  Small nameless(options());
  EXPECT_NE(message_of([&] {
              nameless.forward(torch::randn({3, 3, 6, 6}));
            }).find("Small] x must have shape [N, 2, H, W] (input channels of the model) but has [3, 3, 6, 6]"),
            std::string::npos);
  Small named(options(), row());
  EXPECT_EQ(message_of([&] {
              named.forward(torch::randn({3, 2, 6, 3}));
            }),
            "[small] height and width must be at least 4 but x has shape [3, 2, 6, 3]");
}

TEST(OwnModel, IsClonedWhereItsRowSaysHowItIsMade) {
  Small model(options(), row());
  model.forward(torch::randn({3, 2, 6, 6}));  // moves the running statistics, torch's and ours
  model.eval();
  const auto copy = std::dynamic_pointer_cast<Small>(model.clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->row().name, "small");
  EXPECT_FALSE(copy->is_training());
  const auto x = torch::randn({3, 2, 6, 6});
  const auto before = model.forward(x).logits;
  EXPECT_TRUE(torch::equal(copy->forward(x).logits, before));
  copy->train();
  copy->forward(x);
  EXPECT_TRUE(torch::equal(model.forward(x).logits, before));
  EXPECT_NE(message_of([] { Small(options()).clone(); }).find("its row has no make"), std::string::npos);
}

}  // namespace
}  // namespace frn
