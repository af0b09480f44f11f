// What an export refuses, what it leaves alone, and networks of one's own. That files say what networks do, with an
// engine that reads them, is in tests/parity/test_onnx.py.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>

#include "frn/core/error.h"
#include "frn/nn/norm_act.h"
#include "frn/onnx/export.h"
#include "frn/onnx/graph.h"
#include "frn/onnx/recording.h"
#include "frn/onnx/translate.h"

namespace frn::onnx {
namespace {

namespace nn = torch::nn;

bool knows(const std::string& name) { return find_row(name) != nullptr; }

Graph graph_of(const torch::nn::Module& module, const Forward& forward) {
  std::map<std::string, at::Tensor> names;
  for (const auto& parameter : module.named_parameters()) names[parameter.key()] = parameter.value();
  for (const auto& buffer : module.named_buffers()) names[buffer.key()] = buffer.value();
  const std::vector<std::string> outputs{"logits"};
  const auto recording = record(forward, {.sample = {3, 8, 8}, .names = names, .knows = knows});
  return Translation(recording).run("images", outputs);
}

Graph graph_of(nn::Sequential& network) {
  network->eval();
  return graph_of(*network, [&](const at::Tensor& x) { return std::vector{network->forward(x)}; });
}

Graph graph_of(const Forward& forward) { return graph_of(nn::LinearImpl(1, 1), forward); }

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const auto& node : graph.nodes) ops.push_back(node.op);
  return ops;
}

std::string refusal(const Forward& forward) {
  try {
    graph_of(forward);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

using Ops = std::vector<std::string>;

TEST(OnnxGraph, WritesFrnAsEightOperators) {
  nn::Sequential network(NormAct("frn+tlu", 3));
  EXPECT_EQ(ops_of(graph_of(network)), (Ops{"Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add", "Max"}));
}

TEST(OnnxGraph, WritesAResidualAdditionBetweenTheNormAndItsActivation) {
  auto norm = NormAct("frn+none", 3);
  auto act = NormAct("none+tlu", 3);
  const auto graph = graph_of(*nn::Sequential(norm, act),
                              [&](const at::Tensor& x) { return std::vector{norm->forward_added(x, x, *act)}; });
  EXPECT_EQ(ops_of(graph), (Ops{"Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add", "Add", "Max"}));
}

TEST(OnnxGraph, FoldsBatchNormIntoTheConvolutionBeforeIt) {
  nn::Sequential network(nn::Conv2d(nn::Conv2dOptions(3, 4, 3).bias(false)), nn::BatchNorm2d(4));
  const auto graph = graph_of(network);
  EXPECT_EQ(ops_of(graph), Ops{"Conv"});
  EXPECT_EQ(graph.nodes.front().inputs, (Ops{"images", "0.weight", "0.bias"}));
}

TEST(OnnxGraph, LeavesAConvolutionAloneThatOthersSeeToo) {
  nn::Conv2d conv(nn::Conv2dOptions(3, 4, 1));
  nn::BatchNorm2d norm(4);
  nn::Sequential both(conv, norm);
  both->eval();
  const auto graph = graph_of(*both, [&](const at::Tensor& x) {
    const auto y = conv->forward(x);
    return std::vector{y + norm->forward(y)};
  });
  EXPECT_EQ(ops_of(graph), (Ops{"Conv", "Mul", "Add", "Add"}));
  EXPECT_TRUE(graph.constants.at("0.weight").equal(conv->weight));
}

TEST(OnnxGraph, StoresWeightsThatTwoLayersShareOnce) {
  nn::Conv2d conv(nn::Conv2dOptions(3, 3, 1));
  nn::BatchNorm2d norm(3);
  nn::Sequential both(conv, norm);
  both->eval();
  const auto graph =
      graph_of(*both, [&](const at::Tensor& x) { return std::vector{norm->forward(conv->forward(conv->forward(x)))}; });
  EXPECT_EQ(ops_of(graph), (Ops{"Conv", "Conv", "Mul", "Add"}));
}

TEST(OnnxGraph, KeepsTheNumberOfSamplesOpen) {
  const auto graph = graph_of([](const at::Tensor& x) {
    return std::vector{x.permute({0, 2, 3, 1}).reshape({x.size(0), -1, 3})};
  });
  EXPECT_EQ(graph.inputs.front().shape.front(), Dimension("batch"));
  EXPECT_EQ(graph.outputs.front().shape, (std::vector<Dimension>{"batch", int64_t{64}, int64_t{3}}));
  EXPECT_TRUE(graph.constants.at("shape_0_-1_3").equal(at::tensor({0, -1, 3}, at::kLong)));
}

TEST(OnnxGraph, TakesUnknownOperatorsApart) {
  // frn_tlu calls norm_act.
  const auto layer = NormAct("frn+tlu", 3);
  const auto graph = graph_of(*layer, [&](const at::Tensor& x) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("frn::frn_tlu", "")
                               .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                 const at::Tensor&, const at::Tensor&)>();
    return std::vector{op.call(x, layer->weight, layer->bias, layer->tau, at::full({}, 1e-6))};
  });
  EXPECT_EQ(ops_of(graph), (Ops{"Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add", "Max"}));
}

TEST(OnnxGraph, FollowsWritesInPlace) {
  const auto graph = graph_of([](const at::Tensor& x) {
    auto y = x + x;
    y.relu_();
    return std::vector{y.add_(x)};
  });
  EXPECT_EQ(ops_of(graph), (Ops{"Add", "Relu", "Add"}));
  EXPECT_EQ(graph.nodes[2].inputs.front(), graph.nodes[1].output);
}

TEST(OnnxGraph, WritesWholeNumbersBesideFloatsAsFloats) {
  const auto graph = graph_of([](const at::Tensor& x) { return std::vector{x * 2 + 1}; });
  EXPECT_EQ(ops_of(graph), (Ops{"Mul", "Add"}));
  for (const auto& node : graph.nodes) {
    EXPECT_EQ(graph.constants.at(node.inputs.at(1)).scalar_type(), at::kFloat) << node.op;
  }
}

TEST(OnnxGraph, WritesPoolingToAnySizeAsMatrices) {
  const auto graph = graph_of([](const at::Tensor& x) { return std::vector{at::adaptive_avg_pool2d(x, {3, 5})}; });
  EXPECT_EQ(ops_of(graph), (Ops{"MatMul", "MatMul"}));
  const auto x = at::arange(2 * 3 * 8 * 8, at::kFloat).reshape({2, 3, 8, 8}).sin();
  const auto found = graph.constants.at("means_of_rows").matmul(x).matmul(graph.constants.at("means_of_columns"));
  // Means of at most 9 values below 1, each sum rounded to float32.
  EXPECT_LT((found - at::adaptive_avg_pool2d(x, {3, 5})).abs().max().item<float>(), 9 * 6e-8);
}

TEST(OnnxGraph, GivesAResultTwiceWhenAsked) {
  const auto recording = record(
      [](const at::Tensor& x) {
        const auto y = x.relu();
        return std::vector{y, y};
      },
      {.sample = {3, 8, 8}, .names = {}, .knows = knows});
  const std::vector<std::string> outputs{"a", "b"};
  const auto graph = Translation(recording).run("images", outputs);
  EXPECT_EQ(ops_of(graph), (Ops{"Relu", "Identity"}));
  EXPECT_EQ(graph.nodes[0].output, "a");
  EXPECT_EQ(graph.nodes[1].output, "b");
}

TEST(OnnxRefusal, NamesTheOperatorThatHasNoTranslation) {
  EXPECT_EQ(refusal([](const at::Tensor& x) { return std::vector{x.erfinv()}; }),
            "[export] the network's operator aten::erfinv has no translation to ONNX; docs/export.md lists the "
            "operators that have one");
}

TEST(OnnxRefusal, SaysThatSamplesAreMixed) {
  EXPECT_EQ(refusal([](const at::Tensor& x) {
              return std::vector{x.reshape({3 * x.size(0), 64})};
            }),
            "[export] the network's operator aten::reshape mixes samples with other axes, which cannot be exported");
}

TEST(OnnxRefusal, SaysThatTheNetworkDependsOnTheNumberOfSamples) {
  EXPECT_EQ(refusal([](const at::Tensor& x) { return std::vector{x.size(0) == 1 ? x.relu() : x.sigmoid()}; }),
            "[export] a network must do the same for any number of samples but runs aten::sigmoid with 2 instead of 1; "
            "such a network cannot be exported");
}

TEST(OnnxRefusal, SeesNumbersThatNoOperatorMade) {
  // As a layer would that computes on the memory of its input.
  const auto refused = refusal([](const at::Tensor& x) {
    auto own = at::empty({3, 8, 8});
    std::copy_n(x.const_data_ptr<float>(), own.numel(), own.mutable_data_ptr<float>());
    return std::vector{x + own};
  });
  EXPECT_NE(refused.find("aten::add.Tensor takes other numbers"), std::string::npos) << refused;
}

TEST(OnnxRefusal, SeesWritesToSharedMemory) {
  const auto refused = refusal([](const at::Tensor& x) {
    auto y = x + x;
    const auto part = y.permute({0, 2, 3, 1});
    y.relu_();
    return std::vector{part + y.permute({0, 2, 3, 1})};
  });
  EXPECT_NE(refused.find("aten::relu_ writes to memory that another tensor shares"), std::string::npos) << refused;
}

TEST(OnnxRefusal, WantsEvalMode) {
  nn::Sequential network(nn::BatchNorm2d(3));
  const auto path = std::filesystem::temp_directory_path() / "frn-onnx-refused.onnx";
  try {
    write_onnx(path, *network, [&](const at::Tensor& x) { return std::vector{network->forward(x)}; },
               {.sample = {3, 8, 8}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[export] the network must be in eval mode but is in training mode; call eval() first");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OnnxRecording, LeavesTheCallersRandomNumbersAlone) {
  const nn::LinearImpl drawn(1, 1);
  const auto& generator = at::detail::getDefaultCPUGenerator();
  const auto before = generator.get_state().clone();
  graph_of(drawn, [](const at::Tensor& x) { return std::vector{x.relu()}; });
  EXPECT_TRUE(generator.get_state().equal(before));
}

}  // namespace
}  // namespace frn::onnx
