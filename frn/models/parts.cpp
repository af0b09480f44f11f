#include "frn/models/parts.h"

#include "frn/nn/layer_watch.h"

#include <ATen/ops/empty.h>

namespace frn::models {

int64_t filters(const NormActSpec& norm, int64_t count) {
  const int64_t multiple = norm.channel_multiple();
  return (count + multiple - 1) / multiple * multiple;
}

NormActSpec for_single_values(const NormActSpec& norm) {
  const bool steps = norm.norm().group_rule == GroupRule::kChannel && !norm.norm().centered;
  return steps && !norm.has("eps") ? norm.with_learned_eps() : norm;
}

NormActSpec activation_alone(const NormActSpec& norm) {
  return NormActSpec::parse("none+" + std::string(norm.activation().name));
}

ConvNormActImpl::ConvNormActImpl(const NormActSpec& norm, const ConvShape& shape)
    : conv_(register_module("conv", Conv2d(shape))), norm_(register_module("norm", norm.make(shape.out))) {}

namespace {
// Meta tensors and watches go through the layers one by one.
bool as_one_step(const NormAct& norm, const at::Tensor& x) {
  return norm->computes_again() && !x.is_meta() && !LayerWatch::watching();
}
}  // namespace

at::Tensor conv_of(NormAct& norm, const Conv2d& conv, const at::Tensor& x) {
  if (!as_one_step(norm, x)) return conv->forward(norm->forward(x));
  return norm->forward_into(x, {conv->as_reader(conv->filters())})[0];
}

at::Tensor conv_of_own(NormAct& norm, const Conv2d& conv, const at::Tensor& filters, const at::Tensor& x) {
  if (!as_one_step(norm, x)) return conv->forward(norm->forward_own(x), filters);
  return norm->forward_into(x, {conv->as_reader(filters)})[0];
}

std::pair<at::Tensor, at::Tensor> convs_of(NormAct& norm, const Conv2d& first, const Conv2d& second,
                                           const at::Tensor& x) {
  if (!as_one_step(norm, x)) {
    const auto z = norm->forward(x);
    return {first->forward(z), second->forward(z)};
  }
  const auto out = norm->forward_into(x, {first->as_reader(first->filters()), second->as_reader(second->filters())});
  return {out[0], out[1]};
}

at::Tensor added_to(const at::Tensor& y, const at::Tensor& x) {
  return y.scalar_type() == x.scalar_type() ? y.add_(x) : y + x;
}

at::Tensor average_over_map(const at::Tensor& x) { return x.mean({2, 3}); }

at::Tensor average_to(const at::Tensor& x, int64_t size) {
  // LibTorch has no adaptive pooling on the meta device outside Python.
  if (x.is_meta()) return at::empty({x.size(0), x.size(1), size, size}, x.options());
  return at::adaptive_avg_pool2d(x, {size, size});
}

}  // namespace frn::models
