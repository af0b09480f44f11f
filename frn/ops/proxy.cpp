// The operator frn::proxy: the parameters with which a layer also normalises its activations (frn/kernels/proxy.h has
// the formulas). [C] numbers alone, so all its dispatch keys are in this file.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <limits>

#include "frn/kernels/proxy.h"
#include "frn/ops/checks.h"
#include "frn/ops/ops.h"

namespace frn::ops::proxy_operator {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;             // weight', bias', tau'
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;  // of weight, bias, tau, kappa

constexpr int kInputs = 4;

void check(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau, const OptionalTensor& kappa) {
  TORCH_CHECK(weight.dim() == 1, "[proxy] weight must have shape [C] but has ", weight.sym_sizes());
  const auto like_weight = [&](const char* name, const OptionalTensor& one) {
    if (!one) return;
    TORCH_CHECK(one->dim() == 1 && one->sym_size(0) == weight.sym_size(0), "[proxy] ", name, " must have shape [",
                weight.sym_size(0), "] (as weight) but has ", one->sym_sizes());
    TORCH_CHECK(one->device() == weight.device(), "[proxy] ", name, " must be on weight's device ", weight.device(),
                " but is on ", one->device(), "; move the module with .to()");
  };
  TORCH_CHECK_TYPE(weight.is_floating_point(), "[proxy] weight must be a floating-point tensor but is ",
                   weight.scalar_type());
  like_weight("bias", bias);
  like_weight("tau", tau);
  like_weight("kappa", kappa);
}

// --- The CPU's: one loop ---

using Columns = std::array<at::Tensor, kInputs>;  // in float64; undefined: zeros

Columns columns_of(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                   const OptionalTensor& kappa) {
  const auto wide = [](const OptionalTensor& t) { return t ? t->to(at::kDouble).contiguous() : at::Tensor(); };
  return {wide(weight), wide(bias), wide(tau), wide(kappa)};
}

kernels::ProxyParameters row(const std::array<const double*, kInputs>& columns, int64_t c) {
  const auto value = [&](int i) { return columns[i] != nullptr ? columns[i][c] : 0.0; };
  return {.gamma = value(0), .beta = value(1), .tau = value(2), .kappa = value(3)};
}

std::array<const double*, kInputs> pointers(const Columns& columns) {
  std::array<const double*, kInputs> out{};
  for (int i = 0; i < kInputs; ++i) out[i] = columns[i].defined() ? columns[i].const_data_ptr<double>() : nullptr;
  return out;
}

Three forward_cpu(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                  const OptionalTensor& kappa) {
  check(weight, bias, tau, kappa);
  const auto columns = columns_of(weight, bias, tau, kappa);
  const auto in = pointers(columns);
  const int64_t channels = weight.size(0);
  const auto out = at::empty({3, channels}, columns[0].options());
  auto* const values = out.mutable_data_ptr<double>();
  for (int64_t c = 0; c < channels; ++c) {
    const auto result = kernels::proxy_forward(row(in, c));
    values[c] = result.gamma;
    values[channels + c] = result.beta;
    values[2 * channels + c] = result.tau;
  }
  const auto narrow = out.to(accumulate_type(weight.scalar_type()));
  return {narrow[0].clone(), narrow[1].clone(), narrow[2].clone()};
}

Four backward_cpu(const at::Tensor& dweight, const at::Tensor& dbias, const at::Tensor& dtau, const at::Tensor& weight,
                  const at::Tensor& bias, const OptionalTensor& tau, const OptionalTensor& kappa) {
  check(weight, bias, tau, kappa);
  const auto columns = columns_of(weight, bias, tau, kappa);
  const auto in = pointers(columns);
  const auto gradients = columns_of(dweight, dbias, dtau, std::nullopt);
  const auto d = pointers(gradients);
  const int64_t channels = weight.size(0);
  const auto out = at::empty({kInputs, channels}, columns[0].options());
  auto* const values = out.mutable_data_ptr<double>();
  for (int64_t c = 0; c < channels; ++c) {
    const auto g = kernels::proxy_backward(row(in, c), {.gamma = d[0][c], .beta = d[1][c], .tau = d[2][c]});
    values[c] = g.gamma;
    values[channels + c] = g.beta;
    values[2 * channels + c] = g.tau;
    values[3 * channels + c] = g.kappa;
  }
  const auto as = [&](int i, const OptionalTensor& parameter) {
    return out[i].to((parameter ? *parameter : weight).scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  };
  return {as(0, weight), as(1, bias), as(2, tau), as(3, kappa)};
}

// --- The same with ATen's operators: for other devices, and differentiable for the second derivative ---

Three composite(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                const OptionalTensor& kappa) {
  using kernels::kProxyFarAway;
  // Not every device has float64.
  const auto type = weight.device().is_mps() ? at::kFloat : at::kDouble;
  const auto gamma = weight.to(type);
  const auto beta = bias.to(type);
  const auto zero = at::zeros_like(gamma);
  const auto t = tau ? tau->to(type) : zero;
  const auto k = kappa ? kappa->to(type) : zero;
  const auto below = 1 - k;
  const auto bends = below != 0;
  const auto falls = below > 0;
  const auto s = gamma.abs();
  const auto l = at::where(falls, k, at::ones_like(k));
  const auto u = at::where(falls, at::ones_like(k), k);
  const auto w = below.abs();
  const auto c = at::where(falls.logical_or(bends.logical_not().logical_and(t > 0)), t, zero);
  // Each division by what is never 0: a gradient through the side that where() drops must not be infinite.
  const auto m = beta - at::where(bends, t / at::where(bends, below, at::ones_like(below)), zero);
  const auto spreads = s > 0;
  const auto far = at::full_like(m, kProxyFarAway);
  const auto alpha =
      at::where(spreads, (m / at::where(spreads, s, at::ones_like(s))).clamp(-kProxyFarAway, kProxyFarAway),
                at::where(m >= 0, far, -far));
  const double root_half = std::sqrt(0.5);
  const auto above = 0.5 * (-alpha * root_half).erfc();
  const auto rest = 0.5 * (alpha * root_half).erfc();
  const auto density = std::sqrt(0.5 / M_PI) * (-0.5 * alpha * alpha).exp();
  const auto v = alpha * alpha * above * rest + alpha * density * (rest - above) - density * density;
  const auto mean = l * beta + c + w * (m * above + s * density);
  const auto variance = s * s * (l * l * rest + u * u * above + w * w * v).clamp_min(0);
  const auto a = (variance + kernels::kProxyEps).rsqrt();
  const auto narrow = accumulate_type(weight.scalar_type());
  return {(a * gamma).to(narrow), (a * (beta - mean)).to(narrow), (a * (t - below * mean)).to(narrow)};
}

Three forward_composite(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                        const OptionalTensor& kappa) {
  check(weight, bias, tau, kappa);
  return composite(weight, bias, tau, kappa);
}

// Gradients by ATen's own differentiation of the composite form; of all four, zeros for those not given.
std::array<at::Tensor, kInputs> differentiate(const std::array<at::Tensor, 3>& d, const at::Tensor& weight,
                                              const at::Tensor& bias, const OptionalTensor& tau,
                                              const OptionalTensor& kappa, bool create_graph) {
  const at::AutoGradMode with_graph(true);
  std::array<at::Tensor, kInputs> inputs{weight, bias, tau.value_or(at::zeros_like(weight)),
                                         kappa.value_or(at::zeros_like(weight))};
  for (auto& input : inputs) {
    if (!create_graph) input = input.detach();
    if (!input.requires_grad()) input = input.detach().requires_grad_();
  }
  const auto [w, b, t] = composite(inputs[0], inputs[1], inputs[2], inputs[3]);
  const auto out = torch::autograd::grad({w, b, t}, {inputs[0], inputs[1], inputs[2], inputs[3]},
                                         {d[0].to(w.scalar_type()), d[1].to(w.scalar_type()), d[2].to(w.scalar_type())},
                                         /*retain_graph=*/create_graph, create_graph);
  return {out[0], out[1], out[2], out[3]};
}

Four backward_composite(const at::Tensor& dweight, const at::Tensor& dbias, const at::Tensor& dtau,
                        const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                        const OptionalTensor& kappa) {
  check(weight, bias, tau, kappa);
  const auto g = differentiate({dweight, dbias, dtau}, weight, bias, tau, kappa, /*create_graph=*/false);
  return {g[0], g[1], g[2], g[3]};
}

// --- Meta ---

Three forward_meta(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                   const OptionalTensor& kappa) {
  check(weight, bias, tau, kappa);
  const auto make = [&] {
    return at::empty_symint(weight.sym_sizes(), weight.options().dtype(accumulate_type(weight.scalar_type())));
  };
  return {make(), make(), make()};
}

Four backward_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor& weight,
                   const at::Tensor& bias, const OptionalTensor& tau, const OptionalTensor& kappa) {
  const auto like = [&](const OptionalTensor& t) { return at::empty_like(t ? *t : weight); };
  return {like(weight), like(bias), like(tau), like(kappa)};
}

// --- Autograd ---

template <typename Signature>
c10::TypedOperatorHandle<Signature> handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

Three call_forward(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                   const OptionalTensor& kappa) {
  static const auto op = handle<decltype(forward_cpu)>("frn::_proxy_forward");
  return op.call(weight, bias, tau, kappa);
}

struct Proxy : torch::autograd::Function<Proxy> {
  static variable_list forward(AutogradContext* context, const Variable& weight, const Variable& bias,
                               const OptionalTensor& tau, const OptionalTensor& kappa) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({weight, bias, tau ? *tau : at::Tensor(), kappa ? *kappa : at::Tensor()});
    const auto [w, b, t] = call_forward(weight, bias, tau, kappa);
    return {w, b, t};
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const auto saved = context->get_saved_variables();
    const auto given = [&](int i) { return saved[i].defined() ? OptionalTensor(saved[i]) : std::nullopt; };
    for (auto& one : d) {
      if (!one.defined())
        one = at::zeros_like(saved[0], saved[0].options().dtype(accumulate_type(saved[0].scalar_type())));
    }
    variable_list out(kInputs);
    if (at::GradMode::is_enabled()) {
      const auto g = differentiate({d[0], d[1], d[2]}, saved[0], saved[1], given(2), given(3), /*create_graph=*/true);
      for (int i = 0; i < kInputs; ++i) out[i] = saved[i].defined() ? g[i] : at::Tensor();
      return out;
    }
    static const auto op = handle<decltype(backward_cpu)>("frn::_proxy_backward");
    const auto [dw, db, dt, dk] = op.call(d[0], d[1], d[2], saved[0], saved[1], given(2), given(3));
    const std::array<at::Tensor, kInputs> g{dw, db, dt, dk};
    for (int i = 0; i < kInputs; ++i) out[i] = saved[i].defined() ? g[i] : at::Tensor();
    return out;
  }
};

Three proxy_autograd(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                     const OptionalTensor& kappa) {
  const auto out = Proxy::apply(weight, bias, tau, kappa);
  return {out[0], out[1], out[2]};
}

}  // namespace
}  // namespace frn::ops::proxy_operator

TORCH_LIBRARY_IMPL(frn, CPU, m) {
  m.impl("_proxy_forward", frn::ops::proxy_operator::forward_cpu);
  m.impl("_proxy_backward", frn::ops::proxy_operator::backward_cpu);
}
TORCH_LIBRARY_IMPL(frn, Meta, m) {
  m.impl("_proxy_forward", frn::ops::proxy_operator::forward_meta);
  m.impl("_proxy_backward", frn::ops::proxy_operator::backward_meta);
}
TORCH_LIBRARY_IMPL(frn, CompositeExplicitAutograd, m) {
  m.impl("proxy", frn::ops::proxy_operator::call_forward);
  m.impl("_proxy_forward", frn::ops::proxy_operator::forward_composite);
  m.impl("_proxy_backward", frn::ops::proxy_operator::backward_composite);
}
TORCH_LIBRARY_IMPL(frn, Autograd, m) {
  m.impl("proxy", frn::ops::proxy_operator::proxy_autograd);
  for (const char* name : {"_proxy_forward", "_proxy_backward"}) {
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
  }
}

namespace frn {

std::tuple<at::Tensor, at::Tensor, at::Tensor> proxy(const at::Tensor& weight, const at::Tensor& bias,
                                                     const std::optional<at::Tensor>& tau,
                                                     const std::optional<at::Tensor>& kappa) {
  static const auto op = ops::proxy_operator::handle<decltype(ops::proxy_operator::forward_cpu)>("frn::proxy");
  return op.call(weight, bias, tau, kappa);
}

}  // namespace frn
