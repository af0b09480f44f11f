#include "frn/nn/detail/bare_layers.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include <mutex>

#include "frn/nn/layer_watch.h"
#include "frn/nn/layers.h"

namespace frn::detail {

ConvShape same_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {.in = in, .out = out, .kernel = {kernel, kernel}, .stride = stride, .padding = {kernel / 2, kernel / 2}};
}

struct Conv2dImpl::Kept {
  std::mutex mutex;
  at::Tensor filters;
  // Where weight and gain lay, and how often they had changed.
  std::array<std::pair<const void*, uint32_t>, 2> made_of{};
};

Conv2dImpl::Conv2dImpl(const ConvShape& shape) : Module("frn::Conv2d"), shape_(shape) {
  weight = register_parameter("weight", torch::empty({shape.out, shape.in, shape.kernel[0], shape.kernel[1]}));
  if (shape.bias) bias = register_parameter("bias", torch::empty({shape.out}));
}

void Conv2dImpl::standardise(const WeightSpec& spec) {
  if (shape_.gives_logits) return;
  standard_ = spec;
  kept_ = std::make_shared<Kept>();
  if (spec.form == WeightForm::kGain) gain = register_parameter("gain", torch::ones({shape_.out, 1, 1, 1}));
}

at::Tensor Conv2dImpl::filters() const {
  if (standard_.form == WeightForm::kOff) return weight;
  const std::lock_guard lock(kept_->mutex);
  if (at::GradMode::is_enabled() || weight.is_inference()) {
    // An optimiser may now write to the weights without telling.
    kept_->filters.reset();
    return standardised(weight, gain, standard_);
  }
  const auto state = [](const at::Tensor& t) {
    return t.defined() ? std::pair<const void*, uint32_t>(t.const_data_ptr(), t._version())
                       : std::pair<const void*, uint32_t>();
  };
  const std::array made_of{state(weight), state(gain)};
  if (!kept_->filters.defined() || kept_->made_of != made_of) {
    kept_->filters = standardised(weight, gain, standard_);
    kept_->made_of = made_of;
  }
  return kept_->filters;
}

at::Tensor Conv2dImpl::forward(const at::Tensor& x, const at::Tensor& filters) const {
  if (!x.is_meta()) {
    return LayerWatch::seen(*this, at::conv2d(x, filters, bias, {shape_.stride, shape_.stride}, shape_.padding));
  }
  // LibTorch has no convolution on the meta device outside Python.
  const auto size = [&](int i) {
    return (x.size(2 + i) + 2 * shape_.padding[i] - shape_.kernel[i]) / shape_.stride + 1;
  };
  auto y = at::empty({x.size(0), shape_.out, size(0), size(1)}, x.options());
  MultiplyAddCounter::add(y.numel() * shape_.in * shape_.kernel[0] * shape_.kernel[1], y.numel());
  return y;
}

Convolution Conv2dImpl::as_reader(const at::Tensor& filters) const {
  return {.filters = filters,
          .bias = bias.defined() ? std::optional(bias) : std::nullopt,
          .stride = {shape_.stride, shape_.stride},
          .padding = {shape_.padding.begin(), shape_.padding.end()},
          .dilation = {1, 1}};
}

LinearImpl::LinearImpl(int64_t in, int64_t out) : Module("frn::Linear") {
  weight = register_parameter("weight", torch::empty({out, in}));
  bias = register_parameter("bias", torch::empty({out}));
}

at::Tensor LinearImpl::forward(const at::Tensor& x) const {
  if (!x.is_meta()) return LayerWatch::seen(*this, at::linear(x, weight, bias));
  MultiplyAddCounter::add(x.numel() * weight.size(0), x.size(0) * weight.size(0));
  return at::empty({x.size(0), weight.size(0)}, x.options());
}

}  // namespace frn::detail
