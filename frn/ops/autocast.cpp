// The Autocast keys. The kernels read 16-bit values and compute in float32, so x keeps the type it comes in; only
// parameters of a third type are brought to float32, which every kernel takes.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "frn/ops/norm_add_act.h"

namespace frn::ops {
namespace {

OptionalTensor fit(const OptionalTensor& parameter, const at::Tensor& x) {
  if (!parameter || parameter->scalar_type() == x.scalar_type() || parameter->scalar_type() == at::kFloat)
    return parameter;
  return parameter->to(at::kFloat);
}

template <c10::DeviceType kDevice>
c10::impl::ExcludeDispatchKeyGuard below_autocast() {
  return c10::impl::ExcludeDispatchKeyGuard(at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
}

template <c10::DeviceType kDevice>
at::Tensor norm_act(NormActArguments a) {
  const auto guard = below_autocast<kDevice>();
  for (auto* parameter : {&a.weight, &a.bias, &a.tau, &a.kappa}) *parameter = fit(*parameter, a.x);
  return call_norm_act(a);
}

template <c10::DeviceType kDevice>
at::Tensor norm_add_act(NormAddActArguments a) {
  const auto guard = below_autocast<kDevice>();
  auto& norm = a.norm;
  for (auto* parameter : {&norm.weight, &norm.bias, &norm.tau, &norm.kappa}) *parameter = fit(*parameter, norm.x);
  return call_norm_add_act(a);
}

template <c10::DeviceType kDevice>
at::Tensor act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
               std::string_view activation) {
  const auto guard = below_autocast<kDevice>();
  return call_act(y, fit(tau, y), fit(kappa, y), activation);
}

}  // namespace
}  // namespace frn::ops

TORCH_LIBRARY_IMPL(frn, AutocastCPU, m) {
  m.impl("norm_act", frn::ops::as_operator<frn::ops::norm_act<at::kCPU>>);
  m.impl("norm_add_act", frn::ops::as_add_operator<frn::ops::norm_add_act<at::kCPU>>);
  m.impl("act", frn::ops::act<at::kCPU>);
}

TORCH_LIBRARY_IMPL(frn, AutocastCUDA, m) {
  m.impl("norm_act", frn::ops::as_operator<frn::ops::norm_act<at::kCUDA>>);
  m.impl("norm_add_act", frn::ops::as_add_operator<frn::ops::norm_add_act<at::kCUDA>>);
  m.impl("act", frn::ops::act<at::kCUDA>);
}
