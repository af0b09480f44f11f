// The Autograd key. Only x and the statistics of its groups are kept for backward (and the parameters, which exist
// anyway). First derivatives run the fused kernels; when a graph of them is asked for, the composite formulas, which
// ATen can differentiate again.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/functorch/DynamicLayer.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "frn/ops/composite.h"
#include "frn/ops/internal.h"

namespace frn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

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
    const auto value = [](const OptionalTensor& t) { return t ? *t : at::Tensor(); };
    context->save_for_backward({x, value(weight), value(bias), eps, value(tau), value(kappa), mean, rstd});
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

struct Act : torch::autograd::Function<Act> {
  static Variable forward(AutogradContext* context, const Variable& y, const OptionalTensor& tau,
                          const OptionalTensor& kappa, const std::string& activation) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({y, tau ? *tau : at::Tensor(), kappa ? *kappa : at::Tensor()});
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

bool in_function_transform() { return at::functorch::maybeCurrentDynamicLayer().has_value(); }

}  // namespace frn::ops

TORCH_LIBRARY_IMPL(frn, Autograd, m) {
  m.impl("norm_act", frn::ops::as_operator<frn::ops::norm_act_autograd>);
  m.impl("act", frn::ops::act_autograd);
  for (const char* name : {"_norm_act_forward", "_norm_act_backward", "_act_forward", "_act_backward"}) {
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
  }
}

TORCH_LIBRARY_IMPL(frn, CompositeExplicitAutograd, m) {
  m.impl("norm_act", frn::ops::as_operator<frn::ops::norm_act_plain>);
  m.impl("act", frn::ops::call_act_forward);
}

TORCH_LIBRARY_IMPL(frn, CompositeImplicitAutograd, m) { m.impl("frn_tlu", frn::ops::frn_tlu_composed); }
