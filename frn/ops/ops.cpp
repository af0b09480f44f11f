// The C++ face of the operators: thin calls through the dispatcher.
#include "frn/ops/ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>

#include "frn/core/error.h"
#include "frn/kernels/kernels.h"
#include "frn/ops/internal.h"
#include "frn/ops/last_implementation.h"

namespace frn::ops {
namespace {

template <typename Signature>
c10::TypedOperatorHandle<Signature> handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

template <typename Result>
Result call(const c10::TypedOperatorHandle<NormActSignature<Result>>& op, const NormActArguments& a) {
  return op.call(a.x, a.weight, a.bias, a.eps, a.tau, a.kappa, a.groups, a.centered, a.activation);
}

// A view's address and length, kept apart so that a reader never sees half of a change: names are literals.
std::atomic<const char*> last_name{""};

}  // namespace

void set_last_implementation(std::string_view name) { last_name.store(name.data(), std::memory_order_relaxed); }

at::Tensor call_norm_act(const NormActArguments& arguments) {
  static const auto op = handle<NormActSignature<at::Tensor>>("frn::norm_act");
  return call(op, arguments);
}
NormActResult call_norm_act_forward(const NormActArguments& arguments) {
  static const auto op = handle<NormActSignature<NormActResult>>("frn::_norm_act_forward");
  return call(op, arguments);
}
NormActGradients call_norm_act_backward(const NormActArguments& a, const BackwardArguments& b) {
  static const auto op = handle<NormActBackwardSignature>("frn::_norm_act_backward");
  return op.call(b.dz, a.x, b.mean, b.rstd, a.weight, a.bias, a.eps, a.tau, a.kappa, a.groups, a.centered, a.activation,
                 b.needs);
}
at::Tensor call_frn_tlu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& tau,
                        const at::Tensor& eps) {
  static const auto op = handle<decltype(call_frn_tlu)>("frn::frn_tlu");
  return op.call(x, weight, bias, tau, eps);
}
at::Tensor call_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                    std::string_view activation) {
  static const auto op = handle<decltype(call_act)>("frn::act");
  return op.call(y, tau, kappa, activation);
}
at::Tensor call_act_forward(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                            std::string_view activation) {
  static const auto op = handle<decltype(call_act_forward)>("frn::_act_forward");
  return op.call(y, tau, kappa, activation);
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> call_act_backward(const at::Tensor& dz, const at::Tensor& y,
                                                                 const OptionalTensor& tau, const OptionalTensor& kappa,
                                                                 std::string_view activation,
                                                                 std::array<bool, 3> needs) {
  static const auto op = handle<decltype(call_act_backward)>("frn::_act_backward");
  return op.call(dz, y, tau, kappa, activation, needs);
}

}  // namespace frn::ops

namespace frn {

at::Tensor norm_act(const at::Tensor& x, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                    const at::Tensor& eps, const std::optional<at::Tensor>& tau, const std::optional<at::Tensor>& kappa,
                    int64_t groups, bool centered, std::string_view activation) {
  return ops::call_norm_act({x, weight, bias, eps, tau, kappa, groups, centered, activation});
}
at::Tensor frn_tlu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& tau,
                   const at::Tensor& eps) {
  return ops::call_frn_tlu(x, weight, bias, tau, eps);
}
at::Tensor act(const at::Tensor& y, const std::optional<at::Tensor>& tau, const std::optional<at::Tensor>& kappa,
               std::string_view activation) {
  return ops::call_act(y, tau, kappa, activation);
}

std::vector<ImplementationInfo> implementations() {
  std::vector<ImplementationInfo> out;
  for (const auto& implementation : kernels::implementations()) {
    out.push_back({std::string(implementation.name), std::string(implementation.why_not)});
  }
  return out;
}
std::string chosen_implementation() { return std::string(kernels::chosen_implementation().name); }
void force_implementation(const std::string& name) {
  try {
    kernels::force_implementation(name);
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}
std::string last_implementation() { return ops::last_name.load(std::memory_order_relaxed); }

}  // namespace frn
