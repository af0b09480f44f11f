// Every network under every norm: it builds, trains a step at its smallest input, travels through a file, copies, and
// runs in other types and layouts.
#include "frn/models/model.h"

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "frn/core/error.h"
#include "frn/nn/batch_norm.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/layers.h"
#include "frn/nn/parameter_groups.h"
#include "frn/nn/per_sample_norm.h"
#include "frn/nn/weights.h"

namespace frn {
namespace {

constexpr int64_t kClasses = 5;
constexpr int64_t kBatch = 2;

ModelOptions options_of(std::string_view norm) { return {.norm = NormActSpec::parse(norm), .classes = kClasses}; }

// Large networks are made of the same parts as their smaller sisters, but take minutes: in `make test` they run with
// fewer norms. `make check-all` sets FRN_ALL_CASES and runs every one of them with all.
bool runs_everything(std::string_view name) {
  const bool heavy = name == "vgg-a" || name == "vgg11" || name.ends_with("-34") || name.ends_with("-101") ||
                     name.ends_with("-152") || name.ends_with("-bit") ||
                     (name.starts_with("retinanet") && name != "retinanet-r8");
  return !heavy || std::getenv("FRN_ALL_CASES") != nullptr;
}

// The auxiliary head needs images of 299 px; it has tests of its own.
std::shared_ptr<Model> make(std::string_view name, std::string_view norm) {
  torch::manual_seed(3);
  auto options = options_of(norm);
  options.auxiliary = false;
  return make_model(name, options);
}

at::Tensor images(const Model& model, int64_t size) {
  torch::manual_seed(4);
  return torch::randn({kBatch, model.options().input_channels, size, size});
}

// Batch norm over the two values per channel that 1 px leaves overflows with depth, in PyTorch as here; it gets 32 px.
at::Tensor smallest_images(const Model& model) {
  const bool batch_method = model.options().norm.norm().batch_method;
  return images(model, std::max<int64_t>(batch_method ? 32 : 1, model.smallest_input()));
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()) + ".safetensors")) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> every_norm() {
  std::vector<std::string> names;
  for (const auto& row : norm_table()) names.push_back(std::string(row.name) + "+tlu");
  return names;
}

class EveryModel : public testing::TestWithParam<std::string> {};
class EveryModelButTheLargest : public EveryModel {};

TEST_P(EveryModel, TrainsAStepAtItsSmallestInputUnderEveryNorm) {
  for (const auto& norm : every_norm()) {
    if (!runs_everything(GetParam()) && norm != "frn+tlu") {
      make_uninitialised_model(GetParam(), options_of(norm));
      continue;
    }
    const auto model = make(GetParam(), norm);
    const auto out = model->forward(smallest_images(*model));
    ASSERT_EQ(out.logits.size(0), kBatch) << norm;
    ASSERT_EQ(out.logits.size(-1), kClasses) << norm;
    ASSERT_EQ(out.logits.dim(), model->row().detects ? 3 : 2) << norm;
    ASSERT_TRUE(out.logits.isfinite().all().item<bool>()) << norm;
    auto sum = out.logits.square().sum();
    if (model->row().detects) {
      ASSERT_EQ(out.codes.sizes(), (std::vector<int64_t>{kBatch, out.logits.size(1), 4})) << norm;
      sum = sum + out.codes.square().sum();
    }
    sum.backward();
    for (const auto& parameter : model->named_parameters()) {
      ASSERT_TRUE(parameter->grad().defined()) << norm << " " << parameter.key();
      ASSERT_TRUE(parameter->grad().isfinite().all().item<bool>()) << norm << " " << parameter.key();
    }
  }
}

TEST_P(EveryModel, GivesTheSameBitsAfterSavingAndLoading) {
  for (const auto& norm : {"bn+relu", "frn+affine_tlu"}) {
    if (!runs_everything(GetParam()) && norm == std::string_view("bn+relu")) continue;
    const auto model = make(GetParam(), norm);
    model->forward(smallest_images(*model));  // moves the running statistics
    const TemporaryFile file("frn-models-test");
    write_weights(file.path(), state_of(*model));
    const auto loaded = make_uninitialised_model(GetParam(), model->options());
    load_state(*loaded, read_weights(file.path()));
    model->eval();
    loaded->eval();
    const auto x = smallest_images(*model);
    ASSERT_TRUE(model->forward(x).logits.equal(loaded->forward(x).logits)) << norm;
  }
}

TEST_P(EveryModelButTheLargest, ACopySharesNothingAndComputesTheSame) {
  const auto model = make(GetParam(), "bn+prelu");
  set_virtual_devices(*model, 2);
  model->parameters().front().set_requires_grad(false);
  model->eval();
  const auto copy = std::dynamic_pointer_cast<Model>(model->clone());
  ASSERT_NE(copy, nullptr);
  EXPECT_FALSE(copy->is_training());
  EXPECT_FALSE(copy->parameters().front().requires_grad());
  const auto x = smallest_images(*model);
  const auto before = model->forward(x).logits;
  EXPECT_TRUE(before.equal(copy->forward(x).logits));
  for (const auto& layer : copy->modules()) {
    const auto* norm = dynamic_cast<const BatchNormImpl*>(layer.get());
    if (norm != nullptr) {
      ASSERT_EQ(norm->virtual_devices(), 2);
    }
  }
  const torch::NoGradGuard no_grad;
  for (auto& parameter : copy->parameters()) parameter.zero_();
  EXPECT_TRUE(before.equal(model->forward(x).logits));
}

// Rounding errors grow with depth, and a value near a threshold may fall to its other side: the bounds say no more than
// that the same function is computed. Over all channels, because FRN alone has a slope of 1/sqrt(eps) = 1000 on the
// single values that small images leave at the end, and enlarges every rounding so much.
// Also of what is no number: a hundred layers of untrained weights give gradients beyond float's range.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = [](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat ? t.contiguous().view(at::kInt) : t;
  };
  return at::equal(bits(a), bits(b));
}

// What a norm gives may be computed again for its readers' gradients: the same bits, with less memory.
TEST_P(EveryModelButTheLargest, ComputingAgainChangesNoBit) {
  // One of each kind; the others are more of the same.
  const auto few = {"resnetv2-8", "resnetv2-50", "resnetv1-18", "vgg-a-small", "retinanet-r8"};
  if (std::getenv("FRN_ALL_CASES") == nullptr && std::find(few.begin(), few.end(), GetParam()) == few.end()) return;
  for (const auto& norm : {"frn(eps=learned,proxy=true)+tlu", "gn+relu", "bn+relu", "bn+tlu", "none+relu"}) {
    const auto kept = make(GetParam(), norm);
    const auto images = smallest_images(*kept);
    const auto again = std::dynamic_pointer_cast<Model>(kept->clone());
    set_computes_again(*kept, ComputeAgain::kNone);
    set_computes_again(*again, ComputeAgain::kAll);
    std::vector<at::Tensor> logits;
    for (const auto& model : {kept, again}) {
      torch::manual_seed(5);  // dropout's
      const auto out = model->forward(images);
      auto sum = out.logits.square().sum();
      if (out.codes.defined()) sum = sum + out.codes.square().sum();
      if (out.auxiliary.defined()) sum = sum + out.auxiliary.square().sum();
      sum.backward();
      logits.push_back(out.logits);
    }
    ASSERT_TRUE(same_bits(logits[0], logits[1])) << norm;
    const auto wanted = kept->named_parameters();
    for (const auto& parameter : again->named_parameters()) {
      ASSERT_TRUE(same_bits(parameter->grad(), wanted[parameter.key()].grad())) << norm << " " << parameter.key();
    }
    for (const auto& buffer : again->named_buffers()) {
      ASSERT_TRUE(same_bits(*buffer, kept->named_buffers()[buffer.key()])) << norm << " " << buffer.key();
    }
  }
}

// Under a watch all layers run one by one: the norm, the addition and the activation that end a block too.
TEST(Models, ABlockEndsInTheBitsOfItsLayersOneByOne) {
  for (const auto& norm : {"frn+tlu", "gn+relu", "frn+prelu", "frn(eps=learned,proxy=true)+tlu", "bn+relu"}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const auto at_once = make("resnetv1-18", norm);
      set_memory_format(*at_once, format);
      const auto one_by_one = std::dynamic_pointer_cast<Model>(at_once->clone());
      const auto x = images(*at_once, 64).contiguous(format);
      const auto wanted = [&] {
        const LayerWatch watch([](const torch::nn::Module&, const at::Tensor&) {});
        return one_by_one->forward(x).logits;
      }();
      const auto logits = at_once->forward(x).logits;
      ASSERT_TRUE(same_bits(logits, wanted)) << norm;
      logits.square().sum().backward();
      wanted.square().sum().backward();
      const auto others = one_by_one->named_parameters();
      for (const auto& parameter : at_once->named_parameters()) {
        ASSERT_TRUE(same_bits(parameter->grad(), others[parameter.key()].grad())) << norm << " " << parameter.key();
      }
    }
  }
}

TEST_P(EveryModelButTheLargest, RunsInChannelsLastAndInOtherTypes) {
  const torch::NoGradGuard no_grad;
  const auto model = make(GetParam(), "lfrn+tlu");
  model->eval();
  const auto x = images(*model, std::max<int64_t>(32, model->smallest_input()));
  const auto expected = model->forward(x).logits.to(torch::kDouble);
  const auto error = [&](const at::Tensor& logits) {
    return ((logits.to(torch::kDouble) - expected).norm() / expected.norm()).item<double>();
  };
  const auto last = std::dynamic_pointer_cast<Model>(model->clone());
  set_memory_format(*last, at::MemoryFormat::ChannelsLast);
  EXPECT_LT(error(last->forward(x.contiguous(at::MemoryFormat::ChannelsLast)).logits), 1e-4);
  const auto narrow = std::dynamic_pointer_cast<Model>(model->clone());
  narrow->to(torch::kBFloat16);
  const auto logits = narrow->forward(x.to(torch::kBFloat16)).logits;
  EXPECT_EQ(logits.scalar_type(), torch::kBFloat16);
  EXPECT_LT(error(logits), 0.5);
  model->to(torch::kDouble);
  EXPECT_LT(error(model->forward(x.to(torch::kDouble)).logits), 1e-4);
}

TEST_P(EveryModelButTheLargest, TakesOtherChannelsAndSizes) {
  const torch::NoGradGuard no_grad;
  auto options = options_of("frn+tlu");
  options.input_channels = 1;
  options.auxiliary = false;
  const auto model = make_model(GetParam(), options);
  model->eval();
  const int64_t size = model->smallest_input() + 7;
  EXPECT_EQ(model->forward(torch::randn({1, 1, size, size + 5})).logits.size(-1), kClasses);
}

// Standardised filters do not know the scale and the mean of their weights. Over all channels, for the reason above.
TEST_P(EveryModelButTheLargest, StandardisesAllItsFilters) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  auto options = options_of("lfrn+tlu");
  options.auxiliary = false;
  options.weights_standardised = WeightSpec::parse("gain(eps=1e-12)");
  const auto model = make_model(GetParam(), options);
  model->to(torch::kDouble);
  model->eval();
  const auto x = images(*model, std::max<int64_t>(32, model->smallest_input())).to(torch::kDouble);
  const auto before = model->forward(x).logits;
  int64_t filters = 0;
  for (auto& parameter : model->named_parameters()) {
    if (!parameter.key().ends_with(".gain")) continue;
    filters += parameter->size(0);
    const auto layer = parameter.key().substr(0, parameter.key().size() - std::string("gain").size());
    model->named_parameters()[layer + "weight"].mul_(3).add_(0.5);
  }
  EXPECT_GT(filters, 0);
  EXPECT_LT(((model->forward(x).logits - before).norm() / before.norm()).item<double>(), 1e-6);
  const auto copy = std::dynamic_pointer_cast<Model>(model->clone());
  EXPECT_TRUE(copy->forward(x).logits.equal(model->forward(x).logits));
  for (const auto& [name, tensor] : parameter_groups(*model).decayed) EXPECT_FALSE(name.ends_with("gain")) << name;
}

std::vector<std::string> every_model() {
  std::vector<std::string> names;
  for (const auto& row : model_table()) names.emplace_back(row.name);
  return names;
}
std::vector<std::string> every_model_but_the_largest() {
  auto names = every_model();
  std::erase_if(names, [](const auto& name) { return !runs_everything(name); });
  return names;
}
std::string with_underscores(const testing::TestParamInfo<std::string>& info) {
  auto name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(every_model()), with_underscores);
INSTANTIATE_TEST_SUITE_P(Models, EveryModelButTheLargest, testing::ValuesIn(every_model_but_the_largest()),
                         with_underscores);

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Models, TooSmallAnInputIsAnErrorThatNamesTheSmallest) {
  const auto vgg = make("vgg-a-small", "frn+tlu");
  EXPECT_EQ(message_of([&] {
              vgg->forward(torch::zeros({1, 3, 31, 40}));
            }),
            "[vgg-a-small] height and width must be at least 32 but x has shape [1, 3, 31, 40]");
  const auto inception = make_uninitialised_model("inceptionv3", options_of("bn+relu"));
  EXPECT_EQ(
      message_of([&] {
        inception->forward(torch::zeros({1, 3, 298, 299}));
      }),
      "[inceptionv3] height and width must be at least 299 while training with the auxiliary head (75 without it) "
      "but x has shape [1, 3, 298, 299]");
  inception->eval();
  EXPECT_EQ(message_of([&] {
              inception->forward(torch::zeros({1, 3, 74, 75}));
            }),
            "[inceptionv3] height and width must be at least 75 but x has shape [1, 3, 74, 75]");
  EXPECT_EQ(inception->forward(torch::randn({1, 3, 75, 75})).logits.size(1), kClasses);
}

TEST(Models, BadInputAndOptionsAreOneSentence) {
  const auto model = make("resnetv2-8", "frn+tlu");
  EXPECT_EQ(message_of([&] {
              model->forward(torch::zeros({2, 1, 8, 8}));
            }),
            "[resnetv2-8] x must have shape [N, 3, H, W] (input channels of the model) but has [2, 1, 8, 8]");
  EXPECT_NE(message_of([] { find_model("resnet-50"); }).find("did you mean 'resnetv"), std::string::npos);
  auto options = options_of("frn+tlu");
  options.classes = 0;
  EXPECT_EQ(message_of([&] { make_model("resnetv2-8", options); }),
            "[resnetv2-8] classes must be at least 1 but are 0");
}

// Published counts: torchvision's and timm's documentation for BN; with FRN+TLU each norm has one vector more.
TEST(Models, ParametersAndMultiplyAddsAreThePublishedOnes) {
  const auto count = [](std::string_view name, std::string_view norm) {
    int64_t total = 0;
    for (const auto& parameter : make_uninitialised_model(name, {.norm = NormActSpec::parse(norm)})->parameters()) {
      total += parameter.numel();
    }
    return total;
  };
  EXPECT_EQ(count("resnetv1-18", "bn+relu"), 11'689'512);
  EXPECT_EQ(count("resnetv1-50", "bn+relu"), 25'557'032);
  EXPECT_EQ(count("resnetv1-101", "bn+relu"), 44'549'160);
  EXPECT_EQ(count("inceptionv3", "bn+relu"), 27'161'264);
  EXPECT_EQ(count("vgg11", "bn+relu"), 132'868'840);
  EXPECT_EQ(count("vgg-a", "none+relu"), 132'863'336);  // table 2 of the VGG paper: 133 million
  const auto cost = [](std::string_view name, int64_t size) {
    return static_cast<double>(multiply_adds(name, {.norm = NormActSpec::parse("bn+relu")}, size)) / 1e9;
  };
  EXPECT_NEAR(cost("resnetv1-50", 224), 4.09, 0.005);
  EXPECT_NEAR(cost("resnetv1-18", 224), 1.81, 0.005);
  EXPECT_NEAR(cost("inceptionv3", 299), 5.71, 0.005);
  EXPECT_NEAR(cost("vgg11", 224), 7.61, 0.005);
}

TEST(Models, GroupsRoundFilterCountsUp) {
  const auto width = [](std::string_view norm) {
    const auto model = make_uninitialised_model("resnetv2-8", options_of(norm));
    return model->named_parameters()["stem.conv.weight"].size(0);
  };
  EXPECT_EQ(width("bn+relu"), 16);
  EXPECT_EQ(width("gn+relu"), 32);
  EXPECT_EQ(width("gfrn+tlu"), 32);
  const auto inception = make_uninitialised_model("inceptionv3", options_of("gn+relu"));
  EXPECT_EQ(inception->named_parameters()["Conv2d_3b_1x1.conv.weight"].size(0), 96);
}

TEST(Models, EpsIsLearnedWhereMapsAreSingleValues) {
  const auto has = [](std::string_view model, std::string_view norm, const std::string& parameter) {
    return make_uninitialised_model(model, options_of(norm))->named_parameters().contains(parameter);
  };
  EXPECT_TRUE(has("inceptionv3", "frn+tlu", "AuxLogits.conv1.norm.eps"));
  EXPECT_FALSE(has("inceptionv3", "frn+tlu", "AuxLogits.conv0.norm.eps"));
  EXPECT_FALSE(has("inceptionv3", "frn(eps=1e-6)+tlu", "AuxLogits.conv1.norm.eps"));
  EXPECT_TRUE(has("vgg-a-small", "frn+tlu", "classifier.0.norm.eps"));
  EXPECT_FALSE(has("vgg-a-small", "frn+tlu", "features.0.norm.eps"));
  EXPECT_FALSE(has("vgg-a-small", "gn+relu", "classifier.0.norm.eps"));
}

TEST(Models, TheAuxiliaryHeadSpeaksWhileTraining) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  const auto model = make_model("inceptionv3", options_of("frn+tlu"));
  const auto x = torch::randn({1, 3, 299, 299});
  EXPECT_EQ(model->forward(x).auxiliary.sizes(), (std::vector<int64_t>{1, kClasses}));
  model->eval();
  EXPECT_FALSE(model->forward(x).auxiliary.defined());
}

TEST(Models, TheActivationAfterTheAdditionHasItsOwnThreshold) {
  const auto model = make("resnetv1-18", "frn+tlu");
  const auto parameters = model->named_parameters();
  EXPECT_TRUE(parameters.contains("layer1.0.act.tau"));
  EXPECT_TRUE(parameters.contains("layer1.0.norm1.tau"));
  EXPECT_FALSE(parameters.contains("layer1.0.norm2.tau"));
}

TEST(Models, StartFromHesNumbers) {
  torch::manual_seed(6);
  const auto model = make_model("resnetv2-50", {.norm = NormActSpec::parse("frn+prelu")});
  const auto parameters = model->named_parameters();
  const auto& weight = parameters["stages.3.blocks.0.conv2.weight"];  // [512, 512, 3, 3]
  const double expected = std::sqrt(2.0 / (512 * 9));
  // 2.4 million draws: the deviation of their standard deviation is expected/sqrt(2*2.4e6), of their mean
  // expected/sqrt(2.4e6). Five deviations are allowed.
  const auto draws = static_cast<double>(weight.numel());
  EXPECT_NEAR(weight.std().item<double>(), expected, 5 * expected / std::sqrt(2 * draws));
  EXPECT_NEAR(weight.mean().item<double>(), 0, 5 * expected / std::sqrt(draws));
  EXPECT_TRUE(parameters["norm.weight"].eq(1).all().item<bool>());
  EXPECT_TRUE(parameters["norm.bias"].eq(0).all().item<bool>());
  EXPECT_TRUE(parameters["norm.kappa"].eq(0.25).all().item<bool>());
  EXPECT_TRUE(parameters["head.fc.bias"].eq(0).all().item<bool>());
}

TEST(ParameterGroups, NormsAndBiasesAreOutUnlessAskedFor) {
  const auto model = make("vgg-a-small", "frn+affine_tlu");
  const auto names = [](const ParameterGroups::List& list) {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : list) out.push_back(name);
    return out;
  };
  const auto groups = parameter_groups(*model);
  EXPECT_EQ(groups.decayed.size() + groups.not_decayed.size(), model->parameters().size());
  for (const auto& name : names(groups.decayed)) {
    EXPECT_TRUE(name.ends_with("conv.weight") || name.ends_with("fc.weight")) << name;
  }
  const auto contains = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const auto* name : {"features.0.norm.weight", "features.0.norm.tau", "features.0.norm.kappa",
                           "classifier.0.norm.eps", "features.0.conv.bias", "classifier.2.fc.bias"}) {
    EXPECT_TRUE(contains(names(groups.not_decayed), name)) << name;
  }
  const auto with_norms = parameter_groups(*model, {.norms = true});
  EXPECT_TRUE(contains(names(with_norms.decayed), "classifier.0.norm.eps"));
  EXPECT_TRUE(contains(names(with_norms.decayed), "features.0.norm.bias"));
  EXPECT_TRUE(contains(names(with_norms.not_decayed), "features.0.conv.bias"));
  EXPECT_TRUE(parameter_groups(*model, {.norms = true, .biases = true}).not_decayed.empty());
}

}  // namespace
}  // namespace frn
