// What the networks are made of, and the few rules they share.
#pragma once

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>

#include <utility>

#include "frn/models/model.h"
#include "frn/nn/detail/bare_layers.h"
#include "frn/nn/dropout.h"
#include "frn/nn/norm_act.h"

namespace frn::models {

using detail::Conv2d;
using detail::ConvShape;
using detail::Linear;
using detail::same_conv;

// A module that only holds numbered or named children.
using Holder = torch::nn::Module;

// Filter counts that the norm's groups do not divide are rounded up (section 4.1 of the paper).
int64_t filters(const NormActSpec& norm, int64_t count);

// The layer for maps that are, or may be, a single value: there FRN with a small fixed eps is a step function, so eps
// is learned unless the spec says otherwise (section 3.3).
NormActSpec for_single_values(const NormActSpec& norm);

// The activation of a spec without its norm, for use after a residual addition.
NormActSpec activation_alone(const NormActSpec& norm);

// A convolution, its norm and its activation, under the names `conv` and `norm`.
class ConvNormActImpl : public torch::nn::Module {
 public:
  ConvNormActImpl(const NormActSpec& norm, const ConvShape& shape);
  at::Tensor forward(const at::Tensor& x) { return norm_->forward(conv_->forward(x)); }
  Conv2d& conv() { return conv_; }
  NormAct& norm() { return norm_; }

 private:
  Conv2d conv_;
  NormAct norm_;
};
// NOLINTNEXTLINE(readability-identifier-naming)
TORCH_MODULE(ConvNormAct);

// conv(norm(x)), and the same for two convolutions that read one result. Unlike the layers one by one, the result is
// not kept for the convolutions' gradients where the norm is set to computing it again.
at::Tensor conv_of(NormAct& norm, const Conv2d& conv, const at::Tensor& x);
std::pair<at::Tensor, at::Tensor> convs_of(NormAct& norm, const Conv2d& first, const Conv2d& second,
                                           const at::Tensor& x);

// The same for an x that nobody else reads, not even a gradient: norms may write into it.
at::Tensor conv_of_own(NormAct& norm, const Conv2d& conv, const at::Tensor& filters, const at::Tensor& x);

// y + x in y's own memory, where types allow: for a y that nobody else reads, not even a gradient.
at::Tensor added_to(const at::Tensor& y, const at::Tensor& x);

// [N, C, H, W] -> [N, C]
at::Tensor average_over_map(const at::Tensor& x);
// [N, C, H, W] -> [N, C, size, size]
at::Tensor average_to(const at::Tensor& x, int64_t size);

}  // namespace frn::models
