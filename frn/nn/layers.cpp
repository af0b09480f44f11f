#include "frn/nn/layers.h"

#include <torch/nn/modules/conv.h>

#include <cmath>

#include "frn/nn/detail/bare_layers.h"

namespace frn {
namespace {

thread_local MultiplyAddCounter* counter = nullptr;

constexpr double kLinearDeviation = 0.01;  // "Very deep convolutional networks", section 3.1

}  // namespace

void initialise(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  module.apply([](torch::nn::Module& layer) {
    if (auto* conv = dynamic_cast<detail::Conv2dImpl*>(&layer)) {
      const auto& weight = conv->weight;
      const auto fan_out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
      conv->weight.normal_(0, std::sqrt(2.0 / fan_out));
      if (conv->bias.defined()) conv->bias.zero_();
      if (conv->gain.defined()) conv->gain.fill_(1);
    }
    if (auto* linear = dynamic_cast<detail::LinearImpl*>(&layer)) {
      linear->weight.normal_(0, kLinearDeviation);
      linear->bias.zero_();
    }
  });
}

void standardise_weights(torch::nn::Module& module, const WeightSpec& spec) {
  if (spec.form == WeightForm::kOff) return;
  module.apply([&](torch::nn::Module& layer) {
    if (auto* conv = dynamic_cast<detail::Conv2dImpl*>(&layer)) conv->standardise(spec);
  });
}

void set_memory_format(torch::nn::Module& module, at::MemoryFormat format) {
  const torch::NoGradGuard no_grad;
  module.apply([format](torch::nn::Module& layer) {
    const bool is_convolution = dynamic_cast<detail::Conv2dImpl*>(&layer) != nullptr ||
                                dynamic_cast<torch::nn::Conv2dImpl*>(&layer) != nullptr ||
                                dynamic_cast<torch::nn::ConvTranspose2dImpl*>(&layer) != nullptr;
    if (!is_convolution) return;
    for (auto& parameter : layer.parameters(/*recurse=*/false)) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(format));
    }
  });
}

MultiplyAddCounter::MultiplyAddCounter() : outer_(counter) { counter = this; }
MultiplyAddCounter::~MultiplyAddCounter() { counter = outer_; }
void MultiplyAddCounter::add(int64_t multiply_adds, int64_t results) {
  if (counter == nullptr) return;
  counter->count_ += multiply_adds;
  counter->results_ += results;
}

}  // namespace frn
