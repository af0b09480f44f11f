#include "frn/nn/layers.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <cmath>

#include "frn/nn/layer_watch.h"

namespace frn {
namespace {

thread_local MultiplyAddCounter* counter = nullptr;

constexpr double kLinearDeviation = 0.01;  // "Very deep convolutional networks", section 3.1

}  // namespace

ConvShape same_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {.in = in, .out = out, .kernel = {kernel, kernel}, .stride = stride, .padding = {kernel / 2, kernel / 2}};
}

Conv2dImpl::Conv2dImpl(const ConvShape& shape) : Module("frn::Conv2d"), shape_(shape) {
  weight = register_parameter("weight", torch::empty({shape.out, shape.in, shape.kernel[0], shape.kernel[1]}));
  if (shape.bias) bias = register_parameter("bias", torch::empty({shape.out}));
}

at::Tensor Conv2dImpl::forward(const at::Tensor& x) const {
  if (!x.is_meta()) {
    return LayerWatch::seen(*this, at::conv2d(x, weight, bias, {shape_.stride, shape_.stride}, shape_.padding));
  }
  // LibTorch has no convolution on the meta device outside Python.
  const auto size = [&](int i) {
    return (x.size(2 + i) + 2 * shape_.padding[i] - shape_.kernel[i]) / shape_.stride + 1;
  };
  auto y = at::empty({x.size(0), shape_.out, size(0), size(1)}, x.options());
  MultiplyAddCounter::add(y.numel() * shape_.in * shape_.kernel[0] * shape_.kernel[1]);
  return y;
}

LinearImpl::LinearImpl(int64_t in, int64_t out) : Module("frn::Linear") {
  weight = register_parameter("weight", torch::empty({out, in}));
  bias = register_parameter("bias", torch::empty({out}));
}

at::Tensor LinearImpl::forward(const at::Tensor& x) const {
  if (!x.is_meta()) return LayerWatch::seen(*this, at::linear(x, weight, bias));
  MultiplyAddCounter::add(x.numel() * weight.size(0));
  return at::empty({x.size(0), weight.size(0)}, x.options());
}

void initialise(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  module.apply([](torch::nn::Module& layer) {
    if (auto* conv = dynamic_cast<Conv2dImpl*>(&layer)) {
      const auto& weight = conv->weight;
      const auto fan_out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
      conv->weight.normal_(0, std::sqrt(2.0 / fan_out));
      if (conv->bias.defined()) conv->bias.zero_();
    }
    if (auto* linear = dynamic_cast<LinearImpl*>(&layer)) {
      linear->weight.normal_(0, kLinearDeviation);
      linear->bias.zero_();
    }
  });
}

void set_memory_format(torch::nn::Module& module, at::MemoryFormat format) {
  const torch::NoGradGuard no_grad;
  module.apply([format](torch::nn::Module& layer) {
    if (auto* conv = dynamic_cast<Conv2dImpl*>(&layer)) conv->weight.set_data(conv->weight.contiguous(format));
  });
}

MultiplyAddCounter::MultiplyAddCounter() : outer_(counter) { counter = this; }
MultiplyAddCounter::~MultiplyAddCounter() { counter = outer_; }
void MultiplyAddCounter::add(int64_t multiply_adds) {
  if (counter != nullptr) counter->count_ += multiply_adds;
}

}  // namespace frn
