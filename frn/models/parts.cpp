#include "frn/models/parts.h"

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
