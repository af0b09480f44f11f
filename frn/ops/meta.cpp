// The Meta key: shapes, types and strides of the results without computing them; what torch.compile and FakeTensor ask.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "frn/ops/composite.h"
#include "frn/ops/internal.h"
#include "frn/ops/kernel_call.h"
#include "frn/ops/norm_add_act.h"

namespace frn::ops {
namespace {

at::Tensor like_if(bool needed, const OptionalTensor& parameter, const at::Tensor& x) {
  return needed && parameter ? at::empty_like(*parameter) : not_needed(x);
}

// The kernels write dense results: a dense input keeps its strides, any other gets those of its memory format.
at::Tensor result_like(const at::Tensor& x) {
  return x.is_non_overlapping_and_dense() ? at::empty_like(x) : at::empty_like(x, x.suggest_memory_format());
}

NormActResult norm_act_forward(const NormActArguments& a) {
  check_norm_act(a);
  const auto options = a.x.options().dtype(accumulate_type(a.x.scalar_type()));
  const auto rstd = at::empty_symint({a.x.sym_size(0), a.groups}, options);
  return {result_like(a.x), a.centered ? at::empty_like(rstd) : at::empty({0}, options), rstd};
}

NormActGradients norm_act_backward(const NormActArguments& a, const BackwardArguments& backward) {
  check_norm_act(a);
  const auto& needs = backward.needs;
  return {needs[kX] ? result_like(a.x) : not_needed(a.x),
          like_if(needs[kWeight], a.weight, a.x),
          like_if(needs[kBias], a.bias, a.x),
          like_if(needs[kEps], a.eps, a.x),
          like_if(needs[kTau], a.tau, a.x),
          like_if(needs[kKappa], a.kappa, a.x)};
}

NormActResult norm_add_act_forward(const NormAddActArguments& a) {
  a.check();
  auto [z, mean, rstd] = norm_act_forward(a.norm_alone());
  if (z.scalar_type() != a.sum_type()) z = at::empty_like(z, z.options().dtype(a.sum_type()));
  return {z, mean, rstd};
}

NormAddActGradients norm_add_act_backward(const NormAddActArguments& a, const AddBackwardArguments& backward) {
  a.check();
  const auto& n = a.norm;
  const auto& x = n.x;
  const auto& needs = backward.needs;
  const auto like_x = [&](bool needed, at::ScalarType type) {
    if (!needed) return not_needed(x);
    const auto like = result_like(x);
    return like.scalar_type() == type ? like : at::empty_like(like, like.options().dtype(type));
  };
  return {like_x(needs[kAddX], x.scalar_type()),   like_x(needs[kAddShortcut], a.shortcut.scalar_type()),
          like_if(needs[kAddWeight], n.weight, x), like_if(needs[kAddBias], n.bias, x),
          like_if(needs[kAddEps], n.eps, x),       like_if(needs[kAddTau], n.tau, x),
          like_if(needs[kAddKappa], n.kappa, x)};
}

at::Tensor act_forward(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                       std::string_view activation) {
  check_act(y, tau, kappa, activation);
  return result_like(y);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> act_backward(const at::Tensor&, const at::Tensor& y,
                                                            const OptionalTensor& tau, const OptionalTensor& kappa,
                                                            std::string_view activation, std::array<bool, 3> needs) {
  check_act(y, tau, kappa, activation);
  return {needs[0] ? result_like(y) : not_needed(y), like_if(needs[1], tau, y), like_if(needs[2], kappa, y)};
}

}  // namespace
}  // namespace frn::ops

TORCH_LIBRARY_IMPL(frn, Meta, m) {
  m.impl("_norm_act_forward", frn::ops::as_operator<frn::ops::norm_act_forward>);
  m.impl("_norm_act_backward", frn::ops::as_backward_operator<frn::ops::norm_act_backward>);
  m.impl("_norm_add_act_forward", frn::ops::as_add_operator<frn::ops::norm_add_act_forward>);
  m.impl("_norm_add_act_backward", frn::ops::as_add_backward_operator<frn::ops::norm_add_act_backward>);
  m.impl("_act_forward", frn::ops::act_forward);
  m.impl("_act_backward", frn::ops::act_backward);
}
