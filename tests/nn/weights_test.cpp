// Weights go to a file and come back; what does not fit is named, all of it, and nothing is loaded.
#include "frn/nn/weights.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/utils.h>

#include <array>

#include "frn/nn/norm_act.h"
#include "tests/core/safetensors_file.h"

namespace frn {
namespace {

class Weights : public FolderTest {
 protected:
  const std::filesystem::path path_ = folder_ / "weights.safetensors";
};

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_EQ(tensor.scalar_type(), b.at(name).scalar_type()) << name;
    EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name << "\n" << tensor << "\n" << b.at(name);
  }
}

// The tensors of tests/core/make_python_file.py.
NamedTensors pythons_tensors() {
  return {{"mask", torch::tensor({1, 0, 1}, at::kBool)},
          {"u8", torch::tensor({1, 255}, at::kByte)},
          {"i8", torch::tensor({-1, 127}, at::kChar)},
          {"i16", torch::tensor({-2, 300}, at::kShort)},
          {"f16", torch::tensor({1.5, -2.0}, at::kHalf)},
          {"bf16", torch::tensor({1.5, -2.0}, at::kBFloat16)},
          {"i32", torch::tensor({{-3, 70000}}, at::kInt)},
          {"conv.weight", torch::arange(8, at::kFloat).reshape({2, 2, 1, 2})},
          {"a \"b\\c\"\n\u00e9", torch::tensor({0.5}, at::kFloat)},
          {"empty", torch::zeros({0, 3})},
          {"f64", torch::tensor({0.1}, at::kDouble)},
          {"num_batches_tracked", torch::tensor(7, at::kLong)}};
}

class NetImpl : public torch::nn::Module {
 public:
  explicit NetImpl(int64_t channels = 4)
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, channels, 3).bias(false)))),
        norm(register_module("norm", NormActSpec::parse("bn+prelu").make(channels))) {}
  torch::nn::Conv2d conv;
  NormAct norm;
};
TORCH_MODULE(Net);

NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.detach().clone();
  return copies;
}

// Another value of the same type in every element.
NamedTensors altered(const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, tensor] : tensors) out[name] = tensor.detach() + 3;
  return out;
}

TEST_F(Weights, OfEveryTypeAreTheBytesThatPythonWritesAndComeBack) {
  write_weights(path_, pythons_tensors(), {{"format", "pt"}});
  EXPECT_EQ(contents(path_), python_file());
  expect_same(pythons_tensors(), read_weights(path_));
}

TEST_F(Weights, InAnyLayoutAreWrittenInRowMajorOrder) {
  auto tensors = pythons_tensors();
  const auto weight = tensors.at("conv.weight");
  const std::array layouts{
      weight.contiguous(at::MemoryFormat::ChannelsLast),
      weight.permute({3, 2, 1, 0}).contiguous().permute({3, 2, 1, 0}),
      torch::stack({weight, weight}, -1).select(-1, 1),
      weight.clone().requires_grad_(),
  };
  for (const auto& layout : layouts) {
    tensors["conv.weight"] = layout;
    write_weights(path_, tensors, {{"format", "pt"}});
    EXPECT_EQ(contents(path_), python_file()) << layout.strides();
  }
  tensors["conv.weight"] = weight;
  tensors["f64"] = torch::tensor({0.1}, at::kDouble).expand({5});
  write_weights(path_, tensors);
  expect_same(tensors, read_weights(path_));
}

TEST_F(Weights, OfAModuleAreItsParametersAndBuffersByName) {
  const Net net;
  const auto state = state_of(*net);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv.weight", "norm.bias", "norm.kappa", "norm.num_batches_tracked",
                                             "norm.running_mean", "norm.running_var", "norm.weight"}));
  EXPECT_EQ(state.at("norm.num_batches_tracked").scalar_type(), at::kLong);
  EXPECT_TRUE(state.at("conv.weight").is_same(net->conv->weight));
}

TEST_F(Weights, ThroughAFileMakeAnotherModuleTheSame) {
  Net from;
  Net to;
  from->norm->forward(torch::randn({2, 4, 5, 5}));  // counts a batch
  write_weights(path_, state_of(*from));
  const auto memory = state_of(*to);
  const auto report = load_state(*to, read_weights(path_));
  EXPECT_EQ(report.to_string(), "");
  EXPECT_EQ(report.loaded.size(), memory.size());
  expect_same(state_of(*from), state_of(*to));
  for (const auto& [name, tensor] : state_of(*to)) {
    EXPECT_TRUE(tensor.is_same(memory.at(name))) << name << ": the module's own memory, which an optimizer knows";
    EXPECT_EQ(tensor.requires_grad(), memory.at(name).requires_grad()) << name;
  }
}

TEST_F(Weights, KeepTheLayoutAndTypeOfTheModule) {
  Net net;
  net->to(at::kDouble);
  net->conv->weight.set_data(net->conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  auto tensors = copy_of(state_of(*net));
  tensors["conv.weight"] = torch::arange(4 * 27).reshape({4, 3, 3, 3}).to(at::kBFloat16);
  load_state(*net, tensors);
  EXPECT_TRUE(net->conv->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(net->conv->weight.scalar_type(), at::kDouble);
  EXPECT_TRUE(torch::equal(net->conv->weight, torch::arange(4 * 27).reshape({4, 3, 3, 3}).to(at::kDouble)));
}

// One tensor missing, one unexpected, one of another shape, two of another kind, one fit after conversion.
NamedTensors unfit(const Net& net) {
  auto tensors = altered(state_of(*net));
  tensors.erase("norm.kappa");
  tensors["head.bias"] = torch::zeros({2});
  tensors["norm.bias"] = torch::zeros({5});
  tensors["norm.weight"] = torch::zeros({4}, at::kLong);
  tensors["norm.num_batches_tracked"] = torch::zeros({});
  tensors["norm.running_mean"] = torch::full({4}, 2.0, at::kHalf);
  return tensors;
}

TEST_F(Weights, StrictNameEverythingThatDoesNotFitAndLoadNothing) {
  Net net;
  const auto before = copy_of(state_of(*net));
  const auto message = error_of([&] { load_state(*net, unfit(net)); });
  for (const auto* part : {
           "missing in the file (1): norm.kappa",
           "not in the model (1): head.bias",
           "of another shape or type (3): norm.bias: [5] in the file, [4] in the model",
           "norm.num_batches_tracked: float32 [] in the file, int64 [] in the model",
           "norm.weight: int64 [4] in the file, float32 [4] in the model",
       }) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  expect_same(before, state_of(*net));
}

TEST_F(Weights, PartialLoadWhatFitsAndReportTheRest) {
  Net net;
  const auto before = copy_of(state_of(*net));
  const auto report = load_state(*net, unfit(net), LoadMode::kPartial);
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"conv.weight", "norm.running_mean", "norm.running_var"}));
  EXPECT_EQ(report.missing, std::vector<std::string>{"norm.kappa"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"head.bias"});
  EXPECT_EQ(report.misfits.size(), 3);
  auto expected = before;
  expected["conv.weight"] = before.at("conv.weight") + 3;
  expected["norm.running_mean"] = torch::full({4}, 2.0);
  expected["norm.running_var"] = before.at("norm.running_var") + 3;
  expect_same(expected, state_of(*net));
}

TEST_F(Weights, OfIntegersOfAnotherWidthOrWithoutValuesAreMisfits) {
  Net net;
  auto tensors = copy_of(state_of(*net));
  tensors["norm.num_batches_tracked"] = torch::zeros({}, at::kInt);
  tensors["norm.bias"] = at::Tensor();
  tensors["norm.weight"] = torch::empty({4}, at::kMeta);
  const auto report = load_state(*net, tensors, LoadMode::kPartial);
  EXPECT_EQ(report.misfits, (std::vector<std::string>{"norm.bias: no dense tensor with values",
                                                      "norm.num_batches_tracked: int32 [] in the file, int64 [] in "
                                                      "the model",
                                                      "norm.weight: no dense tensor with values"}));
}

TEST_F(Weights, ThatAFileCannotHoldAreRefusedAndTheOldFileRemains) {
  put(path_, "old");
  const auto message = [&](const at::Tensor& tensor) {
    return error_of([&] { write_weights(path_, {{"ok", torch::ones({2})}, {"x", tensor}}); });
  };
  EXPECT_NE(message(torch::zeros({2}, at::kComplexFloat)).find("'x' must be of a floating-point"), std::string::npos);
  EXPECT_NE(message(at::Tensor()).find("'x' must be a dense tensor with values but is undefined"), std::string::npos);
  EXPECT_NE(message(torch::empty({2}, at::kMeta)).find("'x' must be a dense tensor"), std::string::npos);
  EXPECT_NE(message(torch::eye(2).to_sparse()).find("'x' must be a dense tensor"), std::string::npos);
  EXPECT_EQ(contents(path_), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(Weights, OfADamagedOrMissingFileSaySo) {
  EXPECT_NE(error_of([&] { read_weights(path_); }).find("No such file"), std::string::npos);
  const auto file = python_file();
  put(path_, file.substr(0, file.size() - 1));
  const auto message = error_of([&] { read_weights(path_); });
  EXPECT_NE(message.find("tensor 'mask': it ends at byte"), std::string::npos) << message;
}

}  // namespace
}  // namespace frn
