#include "frn/nn/detail/bare_layers.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include "frn/nn/layer_watch.h"
#include "frn/nn/layers.h"

namespace frn::detail {

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

}  // namespace frn::detail
