// The Autograd key. Only x and the statistics of its groups are kept for backward (and the parameters, which exist
// anyway). First derivatives run the fused kernels; when a graph of them is asked for, the composite formulas, which
// ATen can differentiate again.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/functorch/DynamicLayer.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "frn/ops/composite.h"
#include "frn/ops/internal.h"
#include "frn/ops/norm_add_act.h"
#include "frn/ops/ops.h"

namespace frn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

at::Tensor or_undefined(const OptionalTensor& t) { return t ? *t : at::Tensor(); }
OptionalTensor if_defined(const Variable& v) { return v.defined() ? OptionalTensor(v) : std::nullopt; }

// Which of the first kInputs saved tensors need a gradient. PyTorch numbers only the inputs that were given.
template <size_t kInputs>
std::array<bool, kInputs> needed_of(AutogradContext* context, const variable_list& saved) {
  std::array<bool, kInputs> needs{};
  size_t given = 0;
  for (size_t i = 0; i < kInputs; ++i) {
    if (saved[i].defined()) needs[i] = context->needs_input_grad(given++);
  }
  return needs;
}

// Gradients of the inputs that need one, in the order of forward's arguments; the others stay undefined.
template <size_t kInputs>
variable_list only_needed(const std::array<at::Tensor, kInputs>& gradients, const std::array<bool, kInputs>& needs,
                          size_t arguments) {
  variable_list out(arguments);
  for (size_t i = 0; i < kInputs; ++i) {
    if (needs[i]) out[i] = gradients[i];
  }
  return out;
}

struct NormAct : torch::autograd::Function<NormAct> {
  static Variable forward(AutogradContext* context, const Variable& x, const OptionalTensor& weight,
                          const OptionalTensor& bias, const Variable& eps, const OptionalTensor& tau,
                          const OptionalTensor& kappa, int64_t groups, bool centered, const std::string& activation) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [z, mean, rstd] =
        call_norm_act_forward({x, weight, bias, eps, tau, kappa, groups, centered, activation});
    context->save_for_backward(
        {x, or_undefined(weight), or_undefined(bias), eps, or_undefined(tau), or_undefined(kappa), mean, rstd});
    context->saved_data["groups"] = groups;
    context->saved_data["centered"] = centered;
    context->saved_data["activation"] = activation;
    return z;
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const auto saved = context->get_saved_variables();
    const auto& dz = grad_outputs[0];
    const auto needs = needed_of<kNormActInputs>(context, saved);
    const auto& activation = context->saved_data["activation"].toStringRef();
    const NormActArguments arguments{
        .x = saved[kX],
        .weight = if_defined(saved[kWeight]),
        .bias = if_defined(saved[kBias]),
        .eps = saved[kEps],
        .tau = if_defined(saved[kTau]),
        .kappa = if_defined(saved[kKappa]),
        .groups = context->saved_data["groups"].toInt(),
        .centered = context->saved_data["centered"].toBool(),
        .activation = activation,
    };
    constexpr size_t kArguments = 9;
    if (at::GradMode::is_enabled()) return only_needed(composite_backward(arguments, dz, needs), needs, kArguments);
    const auto [dx, dweight, dbias, deps, dtau, dkappa] =
        call_norm_act_backward(arguments, {.dz = dz, .mean = saved[6], .rstd = saved[7], .needs = needs});
    return only_needed(Gradients{dx, dweight, dbias, deps, dtau, dkappa}, needs, kArguments);
  }
};

// Keeps the shortcut beside x: in networks it is the block's input, which the block's first convolution keeps anyway.
struct NormAddAct : torch::autograd::Function<NormAddAct> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& shortcut,
                          const OptionalTensor& weight, const OptionalTensor& bias, const Variable& eps,
                          const OptionalTensor& tau, const OptionalTensor& kappa, int64_t groups, bool centered,
                          const std::string& activation) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [z, mean, rstd] =
        call_norm_add_act_forward({{x, weight, bias, eps, tau, kappa, groups, centered, activation}, shortcut});
    context->save_for_backward({x, shortcut, or_undefined(weight), or_undefined(bias), eps, or_undefined(tau),
                                or_undefined(kappa), mean, rstd});
    context->saved_data["groups"] = groups;
    context->saved_data["centered"] = centered;
    context->saved_data["activation"] = activation;
    return z;
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const auto saved = context->get_saved_variables();
    const auto needs = needed_of<kNormAddActInputs>(context, saved);
    const auto& activation = context->saved_data["activation"].toStringRef();
    const NormAddActArguments arguments{{.x = saved[kAddX],
                                         .weight = if_defined(saved[kAddWeight]),
                                         .bias = if_defined(saved[kAddBias]),
                                         .eps = saved[kAddEps],
                                         .tau = if_defined(saved[kAddTau]),
                                         .kappa = if_defined(saved[kAddKappa]),
                                         .groups = context->saved_data["groups"].toInt(),
                                         .centered = context->saved_data["centered"].toBool(),
                                         .activation = activation},
                                        saved[kAddShortcut]};
    constexpr size_t kArguments = 10;
    const auto& dz = grad_outputs[0];
    if (at::GradMode::is_enabled()) return only_needed(composite_add_backward(arguments, dz, needs), needs, kArguments);
    const auto [dx, dshortcut, dweight, dbias, deps, dtau, dkappa] = call_norm_add_act_backward(
        arguments, {.dz = dz, .mean = saved[kNormAddActInputs], .rstd = saved[kNormAddActInputs + 1], .needs = needs});
    return only_needed(AddGradients{dx, dshortcut, dweight, dbias, deps, dtau, dkappa}, needs, kArguments);
  }
};

// ReLU's gradient follows from its result, which is kept in place of the shortcut. Then the norm's, as without it.
struct NormAddRelu : torch::autograd::Function<NormAddRelu> {
  static Variable forward(AutogradContext* context, const Variable& x, const Variable& shortcut,
                          const OptionalTensor& weight, const OptionalTensor& bias, const Variable& eps, int64_t groups,
                          bool centered) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [z, mean, rstd] = call_norm_add_act_forward(
        {{x, weight, bias, eps, std::nullopt, std::nullopt, groups, centered, "relu"}, shortcut});
    context->save_for_backward({x, z, or_undefined(weight), or_undefined(bias), eps, mean, rstd});
    context->saved_data["groups"] = groups;
    context->saved_data["centered"] = centered;
    context->saved_data["type"] = shortcut.scalar_type();
    return z;
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const auto saved = context->get_saved_variables();  // z stands where the inputs have the shortcut
    const auto needs = needed_of<5>(context, saved);
    const auto& x = saved[0];
    const NormActArguments norm{.x = x,
                                .weight = if_defined(saved[2]),
                                .bias = if_defined(saved[3]),
                                .eps = saved[4],
                                .tau = std::nullopt,
                                .kappa = std::nullopt,
                                .groups = context->saved_data["groups"].toInt(),
                                .centered = context->saved_data["centered"].toBool(),
                                .activation = "none"};
    const Needs norm_needs{needs[0], needs[2], needs[3], needs[4], false, false};
    constexpr size_t kArguments = 7;
    const auto dsum = at::threshold_backward(grad_outputs[0], saved[1], 0);
    const auto dshortcut = dsum.to(context->saved_data["type"].toScalarType());
    Gradients of_norm;
    if (at::GradMode::is_enabled()) {
      of_norm = composite_backward(norm, dsum, norm_needs);
    } else if (std::find(norm_needs.begin(), norm_needs.end(), true) != norm_needs.end()) {
      const auto [dx, dweight, dbias, deps, dtau, dkappa] = call_norm_act_backward(
          norm, {.dz = dsum.to(x.scalar_type()), .mean = saved[5], .rstd = saved[6], .needs = norm_needs});
      of_norm = {dx, dweight, dbias, deps, dtau, dkappa};
    }
    return only_needed(
        std::array<at::Tensor, 5>{of_norm[kX], dshortcut, of_norm[kWeight], of_norm[kBias], of_norm[kEps]}, needs,
        kArguments);
  }
};

struct Act : torch::autograd::Function<Act> {
  static Variable forward(AutogradContext* context, const Variable& y, const OptionalTensor& tau,
                          const OptionalTensor& kappa, const std::string& activation) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({y, or_undefined(tau), or_undefined(kappa)});
    context->saved_data["activation"] = activation;
    return call_act_forward(y, tau, kappa, activation);
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const auto saved = context->get_saved_variables();
    const auto needs = needed_of<3>(context, saved);
    const auto activation = context->saved_data["activation"].toStringRef();
    const auto tau = if_defined(saved[1]);
    const auto kappa = if_defined(saved[2]);
    constexpr size_t kArguments = 4;
    if (at::GradMode::is_enabled()) {
      const auto kind = parse_activation("act", activation);
      return only_needed(composite_act_backward(grad_outputs[0], saved[0], tau, kappa, kind, needs), needs, kArguments);
    }
    const auto [dy, dtau, dkappa] = call_act_backward(grad_outputs[0], saved[0], tau, kappa, activation, needs);
    return only_needed(std::array<at::Tensor, 3>{dy, dtau, dkappa}, needs, kArguments);
  }
};

at::Tensor norm_act_autograd(const NormActArguments& a) {
  if (in_function_transform()) {
    check_norm_act(a);
    return composite_result(a);
  }
  // One by one: PyTorch looks among them for what the graph hangs on.
  return NormAct::apply(a.x, a.weight, a.bias, a.eps, a.tau, a.kappa, a.groups, a.centered, std::string(a.activation));
}

at::Tensor norm_add_act_autograd(const NormAddActArguments& a) {
  a.check();
  if (in_function_transform()) return composite_add_result(a);
  const auto& n = a.norm;
  // Without an activation the sum's gradient needs nothing of it: norm_act keeps what there is to keep.
  if (n.kind() == Activation::kNone) return call_norm_act(a.norm_alone()) + a.shortcut;
  return NormAddAct::apply(n.x, a.shortcut, n.weight, n.bias, n.eps, n.tau, n.kappa, n.groups, n.centered,
                           std::string(n.activation));
}

at::Tensor act_autograd(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                        std::string_view activation) {
  if (in_function_transform()) return composite_act_result(y, tau, kappa, check_act(y, tau, kappa, activation));
  return Act::apply(y, tau, kappa, std::string(activation));
}

// Without autograd (inference mode, or below it) the statistics are dropped.
at::Tensor norm_act_plain(const NormActArguments& arguments) { return std::get<0>(call_norm_act_forward(arguments)); }

at::Tensor frn_tlu_composed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& tau, const at::Tensor& eps) {
  TORCH_CHECK(x.dim() >= 2, "[frn_tlu] x must have shape [N, C, *] with at least 2 dimensions but has ", x.sizes());
  return call_norm_act({
      .x = x,
      .weight = weight,
      .bias = bias,
      .eps = eps.abs(),
      .tau = tau,
      .kappa = std::nullopt,
      .groups = x.size(1),
      .centered = false,
      .activation = "tlu",
  });
}

}  // namespace

}  // namespace frn::ops

namespace frn {

at::Tensor norm_add_relu(const at::Tensor& x, const at::Tensor& shortcut, const std::optional<at::Tensor>& weight,
                         const std::optional<at::Tensor>& bias, const at::Tensor& eps, int64_t groups, bool centered) {
  const ops::NormAddActArguments arguments{{x, weight, bias, eps, std::nullopt, std::nullopt, groups, centered, "relu"},
                                           shortcut};
  if (!at::GradMode::is_enabled() || ops::in_function_transform()) return ops::call_norm_add_act(arguments);
  arguments.check();
  return ops::NormAddRelu::apply(x, shortcut, weight, bias, eps, groups, centered);
}

}  // namespace frn

namespace frn::ops {

bool in_function_transform() { return at::functorch::maybeCurrentDynamicLayer().has_value(); }

}  // namespace frn::ops

TORCH_LIBRARY_IMPL(frn, Autograd, m) {
  m.impl("norm_act", frn::ops::as_operator<frn::ops::norm_act_autograd>);
  m.impl("norm_add_act", frn::ops::as_add_operator<frn::ops::norm_add_act_autograd>);
  m.impl("act", frn::ops::act_autograd);
  for (const char* name : {"_norm_act_forward", "_norm_act_backward", "_norm_add_act_forward", "_norm_add_act_backward",
                           "_act_forward", "_act_backward"}) {
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
  }
}

TORCH_LIBRARY_IMPL(frn, CompositeExplicitAutograd, m) {
  m.impl("norm_act", frn::ops::as_operator<frn::ops::norm_act_plain>);
  m.impl("act", frn::ops::call_act_forward);
}

TORCH_LIBRARY_IMPL(frn, CompositeImplicitAutograd, m) { m.impl("frn_tlu", frn::ops::frn_tlu_composed); }
