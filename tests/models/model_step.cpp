// Lets tests/parity/test_models.py train one of our models: weights and batches come from safetensors files, and what a
// step of training computes goes into another.
//
// --batch: x [steps, N, C, H, W], target int64 [steps, N].
// --out:   logits and auxiliary [N, classes] of the first step, loss float64 [steps], `grad.NAME` of every parameter
//          after the first backward, `after.NAME` of the whole state after the last step.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "frn/core/error.h"
#include "frn/models/model.h"
#include "frn/nn/norm_act_spec.h"
#include "frn/nn/weights.h"

namespace {

struct Options {
  std::string model;
  std::string norm;
  std::string weights_standardised = "off";
  std::string weights, batch, out;
  std::string dtype = "float32";
  std::string layout = "contiguous";
  int64_t classes = 1000;
  int64_t input_channels = 3;
  double lr = 0.1;
  double momentum = 0.9;
  std::optional<double> dropout;
  bool no_auxiliary = false;
};

void declare(CLI::App& program, Options& options) {
  program.add_option("--model", options.model)->required();
  program.add_option("--norm", options.norm)->required();
  program.add_option("--weights-standardised", options.weights_standardised);
  program.add_option("--classes", options.classes);
  program.add_option("--input-channels", options.input_channels);
  program.add_option("--weights", options.weights)->required()->check(CLI::ExistingFile);
  program.add_option("--batch", options.batch)->required()->check(CLI::ExistingFile);
  program.add_option("--out", options.out)->required();
  program.add_option("--dtype", options.dtype)->check(CLI::IsMember({"float32", "float64"}));
  program.add_option("--layout", options.layout)->check(CLI::IsMember({"contiguous", "channels-last"}));
  program.add_option("--lr", options.lr);
  program.add_option("--momentum", options.momentum);
  program.add_option("--dropout", options.dropout);
  program.add_flag("--no-auxiliary", options.no_auxiliary);
}

at::ScalarType dtype_of(const Options& options) { return options.dtype == "float64" ? at::kDouble : at::kFloat; }

at::MemoryFormat memory_format_of(const Options& options) {
  return options.layout == "channels-last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

std::shared_ptr<frn::Model> load_model(const Options& options) {
  const frn::ModelOptions model_options{.norm = frn::NormActSpec::parse(options.norm),
                                        .classes = options.classes,
                                        .input_channels = options.input_channels,
                                        .dropout = options.dropout,
                                        .auxiliary = !options.no_auxiliary,
                                        .weights_standardised = frn::WeightSpec::parse(options.weights_standardised)};
  auto model = frn::make_uninitialised_model(options.model, model_options);
  model->to(dtype_of(options));  // first, so that float64 weights are not rounded on their way
  frn::load_state(*model, frn::read_weights(options.weights));
  model->train();
  return model;
}

at::Tensor loss_of(const frn::ModelOutput& output, const at::Tensor& target, double auxiliary_weight) {
  auto loss = at::cross_entropy_loss(output.logits, target);
  if (output.auxiliary.defined()) loss = loss + auxiliary_weight * at::cross_entropy_loss(output.auxiliary, target);
  return loss;
}

// What torch.optim.SGD does: the velocity starts as the first gradient.
class MomentumDescent {
 public:
  MomentumDescent(double lr, double momentum) : lr_(lr), momentum_(momentum) {}

  void step(torch::nn::Module& model) {
    const c10::NoGradGuard no_grad;
    for (auto& parameter : model.named_parameters()) {
      const auto gradient = parameter->grad();
      const auto [velocity, is_new] = velocities_.try_emplace(parameter.key());
      if (is_new) {
        velocity->second = gradient.clone();
      } else {
        velocity->second.mul_(momentum_).add_(gradient);
      }
      parameter->add_(velocity->second, -lr_);
    }
  }

 private:
  double lr_, momentum_;
  frn::NamedTensors velocities_;
};

void add_gradients(const torch::nn::Module& model, frn::NamedTensors& results) {
  for (const auto& parameter : model.named_parameters()) {
    if (!parameter->grad().defined()) {
      throw frn::Error("model_step", "every parameter must take part in the loss but '" + parameter.key() +
                                         "' has no gradient after backward");
    }
    results["grad." + parameter.key()] = parameter->grad();  // zero_grad lets go of it, the next step makes another
  }
}

frn::NamedTensors train(frn::Model& model, const at::Tensor& x, const at::Tensor& target, const Options& options) {
  frn::NamedTensors results;
  MomentumDescent descent(options.lr, options.momentum);
  auto losses = at::empty({x.size(0)}, at::kDouble);
  for (int64_t step = 0; step < x.size(0); ++step) {
    model.zero_grad();
    const auto output = model.forward(x[step].to(dtype_of(options)).contiguous(memory_format_of(options)));
    const auto loss = loss_of(output, target[step], model.row().auxiliary_weight);
    loss.backward();
    losses[step].fill_(loss.item<double>());
    if (step == 0) {
      results["logits"] = output.logits.detach();
      if (output.auxiliary.defined()) results["auxiliary"] = output.auxiliary.detach();
      add_gradients(model, results);
    }
    descent.step(model);
  }
  results["loss"] = losses;
  for (const auto& [name, tensor] : frn::state_of(model)) results["after." + name] = tensor.detach();
  return results;
}

int run(int argc, char** argv) {
  CLI::App program("One of our models, trained for a few steps on given batches", "model_step");
  Options options;
  declare(program, options);
  CLI11_PARSE(program, argc, argv);
  const auto model = load_model(options);
  const auto batches = frn::read_weights(options.batch);
  frn::write_weights(options.out, train(*model, batches.at("x"), batches.at("target"), options));
  return 0;
}

int complain(const char* what) {
  std::fprintf(stderr, "model_step: %s\n", what);
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
