// The operator frn::proxy: the parameters with which a layer also normalises its activations (frn/kernels/proxy.h has
// the formulas). [C] numbers alone, so all its dispatch keys are in this file.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <cmath>

#include "frn/kernels/proxy.h"
#include "frn/ops/checks.h"
#include "frn/ops/internal.h"
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

using Wide = std::array<at::Tensor, kInputs>;  // gamma, beta, tau, kappa and what is derived by each of them

// kernels::proxy_moments, line by line.
struct Moments {
  at::Tensor mean;
  at::Tensor variance;
  Wide dmean;
  Wide dvariance;
};

Wide widened(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau, const OptionalTensor& kappa) {
  // Not every device has float64.
  const auto type = weight.device().is_mps() ? at::kFloat : at::kDouble;
  const auto gamma = weight.to(type);
  const auto zero = at::zeros_like(gamma);
  return {gamma, bias.to(type), tau ? tau->to(type) : zero, kappa ? kappa->to(type) : zero};
}

Moments moments_of(const Wide& parameters) {
  using kernels::kProxyFarAway;
  const auto& [gamma, beta, tau, kappa] = parameters;
  const auto zero = at::zeros_like(gamma);
  const auto one = at::ones_like(gamma);
  const auto below = 1 - kappa;
  const auto bends = below != 0;
  const auto falls = below > 0;
  const auto s = gamma.abs();
  const auto ds = gamma.sign();
  const auto l = at::where(falls, kappa, one);
  const auto u = at::where(falls, one, kappa);
  const auto w = below.abs();
  const auto dl = falls.to(gamma.scalar_type());
  const auto du = (below < 0).to(gamma.scalar_type());
  const auto lifts = falls.logical_or(bends.logical_not().logical_and(tau > 0));
  // Each division by what is never 0: a gradient through the side that where() drops must not be infinite.
  const auto per_below = at::where(bends, 1 / at::where(bends, below, one), zero);
  const auto theta = tau * per_below;
  const auto m = beta - theta;
  const auto spreads = s > 0;
  const auto far = at::full_like(m, kProxyFarAway);
  const auto alpha = at::where(spreads, (m / at::where(spreads, s, one)).clamp(-kProxyFarAway, kProxyFarAway),
                               at::where(m >= 0, far, -far));
  const double root_half = std::sqrt(0.5);
  const auto above = 0.5 * (-alpha * root_half).erfc();
  const auto rest = 0.5 * (alpha * root_half).erfc();
  const auto density = std::sqrt(0.5 / M_PI) * (-0.5 * alpha * alpha).exp();
  const auto v = alpha * alpha * above * rest + alpha * density * (rest - above) - density * density;
  const auto dv = 2 * rest * (alpha * above + density) - density;
  const auto ramp = m * above + s * density;
  const auto share = (l * l * rest + u * u * above + w * w * v).clamp_min(0);
  const auto mean_by_m = w * above;
  const auto share_by_alpha = (u * u - l * l) * density + w * w * dv;
  const auto variance_by_m = s * share_by_alpha;
  const auto theta_by_kappa = theta * per_below;
  return {
      .mean = l * beta + at::where(lifts, tau, zero) + w * ramp,
      .variance = s * s * share,
      .dmean = {w * density * ds, l + mean_by_m, lifts.to(gamma.scalar_type()) - mean_by_m * per_below,
                dl * beta + (du - dl) * ramp - mean_by_m * theta_by_kappa},
      .dvariance = {(2 * s * share - s * alpha * share_by_alpha) * ds, variance_by_m, -variance_by_m * per_below,
                    2 * s * s * (l * dl * rest + u * du * above + w * (du - dl) * v) - variance_by_m * theta_by_kappa},
  };
}

Three forward_composite(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                        const OptionalTensor& kappa) {
  check(weight, bias, tau, kappa);
  const auto p = widened(weight, bias, tau, kappa);
  const auto moments = moments_of(p);
  const auto a = (moments.variance + kernels::kProxyEps).rsqrt();
  const auto type = accumulate_type(weight.scalar_type());
  return {(a * p[0]).to(type), (a * (p[1] - moments.mean)).to(type), (a * (p[2] - (1 - p[3]) * moments.mean)).to(type)};
}

// Of all four, whether given or not.
Four backward_composite(const at::Tensor& dweight, const at::Tensor& dbias, const at::Tensor& dtau,
                        const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                        const OptionalTensor& kappa) {
  check(weight, bias, tau, kappa);
  const auto p = widened(weight, bias, tau, kappa);
  const auto d = widened(dweight, dbias, dtau, std::nullopt);
  const auto moments = moments_of(p);
  const auto a = (moments.variance + kernels::kProxyEps).rsqrt();
  const auto below = 1 - p[3];
  const auto da = d[0] * p[0] + d[1] * (p[1] - moments.mean) + d[2] * (p[2] - below * moments.mean);
  const auto dmean = -a * (d[1] + d[2] * below);
  const auto dvariance = -0.5 * a * a * a * da;
  const Wide direct{a * d[0], a * d[1], a * d[2], a * moments.mean * d[2]};
  const auto gradient = [&](int i, const OptionalTensor& parameter) {
    const auto whole = direct[i] + dmean * moments.dmean[i] + dvariance * moments.dvariance[i];
    return whole.to((parameter ? *parameter : weight).scalar_type());
  };
  return {gradient(0, weight), gradient(1, bias), gradient(2, tau), gradient(3, kappa)};
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
    static const auto op = handle<decltype(backward_cpu)>("frn::_proxy_backward");
    const auto [dw, db, dt, dk] = at::GradMode::is_enabled()
                                      ? backward_composite(d[0], d[1], d[2], saved[0], saved[1], given(2), given(3))
                                      : op.call(d[0], d[1], d[2], saved[0], saved[1], given(2), given(3));
    return {dw, db, saved[2].defined() ? dt : at::Tensor(), saved[3].defined() ? dk : at::Tensor()};
  }
};

Three proxy_autograd(const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& tau,
                     const OptionalTensor& kappa) {
  if (in_function_transform()) return forward_composite(weight, bias, tau, kappa);
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
