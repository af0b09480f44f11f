// Lets tests/parity/test_onnx.py compare our networks with what an engine makes of their ONNX files.
//
// --out DIR: model.onnx; case.safetensors with x1, x2, x5 [1, 2, 5 samples] and, for each, what the network gives:
// logits1, ... and of a detector codes1, ...; logits_float64 and codes_float64: of the 5 samples, in float64.
// --serve: for bench/onnx_inference.py. Instead of case.safetensors, every line "SAMPLES REPEATS" on standard input is
// answered by the seconds that the network itself took for one batch.
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "frn/models/model.h"
#include "frn/nn/layers.h"
#include "frn/nn/norm_act_spec.h"
#include "frn/nn/weights.h"
#include "frn/onnx/export.h"

namespace {

struct Options {
  std::string model;
  std::string norm = "frn+tlu";
  std::string weights_standardised = "off";
  std::string style = "paper";
  std::string out;
  int64_t size = 32;
  int64_t classes = 5;
  int64_t channels = 3;
  int threads = 1;
  bool channels_last = false;
  bool serve = false;
};

void declare(CLI::App& program, Options& options) {
  program.add_option("--model", options.model)->required();
  program.add_option("--norm", options.norm);
  program.add_option("--weights-standardised", options.weights_standardised);
  program.add_option("--style", options.style)->check(CLI::IsMember({"paper", "torchvision"}));
  program.add_option("--out", options.out)->required();
  program.add_option("--size", options.size);
  program.add_option("--classes", options.classes);
  program.add_option("--channels", options.channels);
  program.add_option("--threads", options.threads);
  program.add_flag("--channels-last", options.channels_last);
  program.add_flag("--serve", options.serve);
}

// Away from where training starts: a gamma of 1, a beta of 0 or a mean of 0 would hide that one was forgotten.
void randomise_norms(torch::nn::Module& model) {
  const auto end = [](const std::string& name, const char* last) { return name.ends_with(std::string(".") + last); };
  const auto draw = [&](const std::string& name, const at::Tensor& tensor, bool of_norm) {
    if (end(name, "running_mean") || end(name, "tau") || (of_norm && end(name, "bias"))) tensor.normal_(0, 0.2);
    if (end(name, "running_var") || end(name, "gain") || (of_norm && end(name, "weight"))) tensor.uniform_(0.5, 1.5);
    if (end(name, "kappa")) tensor.uniform_(0.1, 0.5);
    // Large enough to be seen, and for maps of one value not to be steps.
    if (end(name, "eps")) tensor.uniform_(0.05, 0.2);
  };
  for (auto& parameter : model.named_parameters()) draw(parameter.key(), *parameter, parameter->dim() == 1);
  for (auto& buffer : model.named_buffers()) draw(buffer.key(), *buffer, false);
}

std::shared_ptr<frn::Model> make(const Options& options) {
  const bool torchvision = options.style == "torchvision";
  const auto model = frn::make_model(
      options.model,
      {.norm = frn::NormActSpec::parse(options.norm),
       .classes = options.classes,
       .input_channels = options.channels,
       .weights_standardised = frn::WeightSpec::parse(options.weights_standardised),
       .detector = {.style = torchvision ? frn::detection::Style::kTorchvision : frn::detection::Style::kPaper,
                    .image_size = options.size}});
  randomise_norms(*model);
  if (options.channels_last) frn::set_memory_format(*model, at::MemoryFormat::ChannelsLast);
  model->eval();
  return model;
}

std::vector<at::Tensor> outputs_of(frn::Model& model, const at::Tensor& x) {
  const auto out = model.forward(x);
  return out.codes.defined() ? std::vector{out.logits, out.codes} : std::vector{out.logits};
}

void answer_requests(const Options& options, frn::Model& model) {
  int64_t samples = 0;
  int repeats = 0;
  const auto format = options.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  while (std::cin >> samples >> repeats) {
    const auto x = at::randn({samples, options.channels, options.size, options.size}).contiguous(format);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) outputs_of(model, x);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::cout << took.count() / repeats << "\n" << std::flush;
  }
}

int run(int argc, char** argv) {
  CLI::App program("One of our networks as an ONNX file, and what it gives for random images", "onnx_case");
  Options options;
  declare(program, options);
  CLI11_PARSE(program, argc, argv);
  const c10::NoGradGuard no_grad;
  at::set_num_threads(options.threads);
  torch::manual_seed(1);
  const auto model = make(options);
  std::vector<std::string> names{"logits"};
  if (model->row().detects) names.emplace_back("codes");
  const std::filesystem::path folder(options.out);
  frn::onnx::write_onnx(folder / "model.onnx", *model, [&](const at::Tensor& x) { return outputs_of(*model, x); },
                        {.name = options.model,
                         .sample = {options.channels, options.size, options.size},
                         .output_names = names,
                         .metadata = {{"frn.model", options.model}}});
  if (options.serve) {
    answer_requests(options, *model);
    return 0;
  }
  frn::NamedTensors tensors;
  for (const int64_t samples : {1, 2, 5}) {
    const auto x = at::randn({samples, options.channels, options.size, options.size});
    const auto outputs = outputs_of(*model, x);
    tensors["x" + std::to_string(samples)] = x;
    for (size_t i = 0; i < names.size(); ++i) tensors[names[i] + std::to_string(samples)] = outputs[i];
  }
  // The same in float64, for how far float32 may be off.
  model->to(at::kDouble);
  const auto truth = outputs_of(*model, tensors["x5"].to(at::kDouble));
  for (size_t i = 0; i < names.size(); ++i) tensors[names[i] + "_float64"] = truth[i];
  frn::write_weights(folder / "case.safetensors", tensors);
  return 0;
}

int complain(const char* what) {
  std::fprintf(stderr, "onnx_case: %s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const c10::Error& error) {
    return complain(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}
