#include "frn/ops/norm_add_act.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <algorithm>

#include "frn/ops/composite.h"
#include "frn/ops/kernel_call.h"
#include "frn/ops/ops.h"

namespace frn::ops {

NormActArguments NormAddActArguments::norm_alone() const {
  auto alone = norm;
  alone.tau.reset();
  alone.kappa.reset();
  alone.activation = "none";
  return alone;
}

at::ScalarType NormAddActArguments::sum_type() const {
  return c10::promoteTypes(norm.x.scalar_type(), shortcut.scalar_type());
}

namespace {

bool norm_needs(const AddNeeds& needs) {
  return needs[kAddX] || needs[kAddWeight] || needs[kAddBias] || needs[kAddEps];
}

// y + shortcut in y's layout, in y's own memory where the type allows.
at::Tensor sum_of(const NormAddActArguments& a, const at::Tensor& y) {
  if (y.scalar_type() == a.sum_type()) return y.add_(a.shortcut);
  auto sum = at::empty_like(y, y.options().dtype(a.sum_type()));
  return at::add_out(sum, y, a.shortcut);
}

// A parameter of x's type, where the sum has another, is brought to the one that act always takes.
OptionalTensor beside_sum(const OptionalTensor& parameter, at::ScalarType sum_type) {
  if (!parameter || parameter->scalar_type() == sum_type) return parameter;
  return parameter->to(at::kFloat);
}

}  // namespace

NormActResult composed_forward(const NormAddActArguments& a) {
  a.check();
  const auto [y, mean, rstd] = call_norm_act_forward(a.norm_alone());
  const auto sum = sum_of(a, y);
  if (a.norm.kind() == Activation::kNone) return {sum, mean, rstd};
  const auto type = a.sum_type();
  return {call_act_forward(sum, beside_sum(a.norm.tau, type), beside_sum(a.norm.kappa, type), a.norm.activation), mean,
          rstd};
}

NormAddActGradients composed_backward(const NormAddActArguments& a, const AddBackwardArguments& b) {
  a.check();
  const auto& x = a.norm.x;
  const bool needs_sum = norm_needs(b.needs) || b.needs[kAddShortcut];
  auto dsum = b.dz;
  auto dtau = not_needed(x);
  auto dkappa = not_needed(x);
  if (a.norm.kind() != Activation::kNone) {
    const auto sum = sum_of(a, std::get<0>(call_norm_act_forward(a.norm_alone())));
    const auto type = a.sum_type();
    std::tie(dsum, dtau, dkappa) =
        call_act_backward(b.dz, sum, beside_sum(a.norm.tau, type), beside_sum(a.norm.kappa, type), a.norm.activation,
                          {needs_sum, b.needs[kAddTau], b.needs[kAddKappa]});
    if (b.needs[kAddTau] && a.norm.tau) dtau = dtau.to(a.norm.tau->scalar_type());
    if (b.needs[kAddKappa] && a.norm.kappa) dkappa = dkappa.to(a.norm.kappa->scalar_type());
  } else if (b.needs[kAddShortcut]) {
    dsum = at::empty_like(x, x.options().dtype(b.dz.scalar_type())).copy_(b.dz);  // not the argument itself
  }
  auto dx = not_needed(x);
  auto dweight = not_needed(x);
  auto dbias = not_needed(x);
  auto deps = not_needed(x);
  if (norm_needs(b.needs)) {
    const auto& n = b.needs;
    std::tie(dx, dweight, dbias, deps, std::ignore, std::ignore) = call_norm_act_backward(
        a.norm_alone(), {.dz = dsum.to(x.scalar_type()),
                         .mean = b.mean,
                         .rstd = b.rstd,
                         .needs = {n[kAddX], n[kAddWeight], n[kAddBias], n[kAddEps], false, false}});
  }
  return {dx,    b.needs[kAddShortcut] ? dsum.to(a.shortcut.scalar_type()) : not_needed(x), dweight, dbias, deps, dtau,
          dkappa};
}

namespace {

template <typename Signature>
c10::TypedOperatorHandle<Signature> add_handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Without autograd (inference mode, or below it) the statistics are dropped.
at::Tensor norm_add_act_plain(const NormAddActArguments& arguments) {
  return std::get<0>(call_norm_add_act_forward(arguments));
}

template <typename Result>
Result call_add(const c10::TypedOperatorHandle<NormAddActSignature<Result>>& op, const NormAddActArguments& a) {
  const auto& n = a.norm;
  return op.call(n.x, a.shortcut, n.weight, n.bias, n.eps, n.tau, n.kappa, n.groups, n.centered, n.activation);
}

}  // namespace

at::Tensor call_norm_add_act(const NormAddActArguments& arguments) {
  static const auto op = add_handle<NormAddActSignature<at::Tensor>>("frn::norm_add_act");
  return call_add(op, arguments);
}
NormActResult call_norm_add_act_forward(const NormAddActArguments& arguments) {
  static const auto op = add_handle<NormAddActSignature<NormActResult>>("frn::_norm_add_act_forward");
  return call_add(op, arguments);
}
NormAddActGradients call_norm_add_act_backward(const NormAddActArguments& a, const AddBackwardArguments& b) {
  static const auto op = add_handle<NormAddActBackwardSignature>("frn::_norm_add_act_backward");
  const auto& n = a.norm;
  return op.call(b.dz, n.x, a.shortcut, b.mean, b.rstd, n.weight, n.bias, n.eps, n.tau, n.kappa, n.groups, n.centered,
                 n.activation, b.needs);
}

}  // namespace frn::ops

namespace frn {

at::Tensor norm_add_act(const at::Tensor& x, const at::Tensor& shortcut, const std::optional<at::Tensor>& weight,
                        const std::optional<at::Tensor>& bias, const at::Tensor& eps,
                        const std::optional<at::Tensor>& tau, const std::optional<at::Tensor>& kappa, int64_t groups,
                        bool centered, std::string_view activation) {
  return ops::call_norm_add_act({{x, weight, bias, eps, tau, kappa, groups, centered, activation}, shortcut});
}

}  // namespace frn

TORCH_LIBRARY_IMPL(frn, CompositeExplicitAutograd, m) {
  using namespace frn::ops;
  m.impl("_norm_add_act_forward", as_add_operator<composed_forward>);
  m.impl("_norm_add_act_backward", as_add_backward_operator<composed_backward>);
  m.impl("norm_add_act", as_add_operator<norm_add_act_plain>);
}
