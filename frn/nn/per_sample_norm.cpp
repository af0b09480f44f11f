#include "frn/nn/per_sample_norm.h"

#include <cmath>

#include "frn/ops/ops.h"

namespace frn {

PerSampleNormImpl::PerSampleNormImpl(const NormActSpec& spec, int64_t channels)
    : NormActImpl(spec, channels), groups_(spec.groups(channels)) {
  if (spec.eps_form() == EpsForm::kFixed) return;
  // Both forms start from the same eps.
  const bool exponential = spec.eps_form() == EpsForm::kLearnedExponential;
  const double start = exponential ? std::log(spec.eps_start()) : spec.eps_start();
  const auto shape = spec.eps_per_channel() ? std::vector<int64_t>{channels} : std::vector<int64_t>{};
  eps = register_parameter("eps", torch::full(shape, start));
}

at::Tensor PerSampleNormImpl::current_eps(const torch::Device& device) {
  if (!eps.defined()) {
    // Made anew, not moved: a tensor that went to the meta device has no value to bring back.
    if (!fixed_eps_.defined() || fixed_eps_.device() != device) {
      fixed_eps_ = torch::full({}, spec().eps(), torch::dtype(torch::kFloat64).device(device));
    }
    return fixed_eps_;
  }
  // 16 bits hold eps_l, but not 1e-6 beside 1e-4.
  const auto wide = eps.scalar_type() == torch::kFloat64 ? eps : eps.to(torch::kFloat32);
  return (spec().eps_form() == EpsForm::kLearnedExponential ? wide.exp() : wide.abs()) + kEpsFloor;
}

at::Tensor PerSampleNormImpl::threshold() const {
  if (!spec().proxy()) return tau;
  const torch::NoGradGuard no_grad;
  return std::get<2>(proxy(weight, bias, defined_or_none(tau), defined_or_none(kappa)));
}

template <typename Call>
auto PerSampleNormImpl::with_parameters(const Call& call) const {
  const auto& act = spec().activation();
  if (!spec().proxy()) return call(weight, bias, tau, act.name);
  // The same layer with other parameters, of which the threshold is one.
  const auto [gamma, beta, threshold] = proxy(weight, bias, defined_or_none(tau), defined_or_none(kappa));
  return call(gamma, beta, threshold, row_of(act.uses_kappa ? Activation::kAffineTlu : Activation::kTlu).name);
}

at::Tensor PerSampleNormImpl::run(const at::Tensor& x) {
  return with_parameters(
      [&](const at::Tensor& gamma, const at::Tensor& beta, const at::Tensor& threshold, std::string_view activation) {
        return norm_act(x, gamma, beta, current_eps(x.device()), defined_or_none(threshold), defined_or_none(kappa),
                        groups_, spec().norm().centered, activation);
      });
}

at::Tensor PerSampleNormImpl::run_added(const at::Tensor& x, const at::Tensor& shortcut, const NormActImpl& act) {
  const auto now = current_eps(x.device());
  const bool centered = spec().norm().centered;
  // As activated() has it: ReLU's result is kept by the next layer anyway, and its gradient at 0 is PyTorch's.
  if (act.spec().activation().name == "relu") {
    return norm_add_relu(x, shortcut, weight, bias, now, groups_, centered);
  }
  return norm_add_act(x, shortcut, weight, bias, now, defined_or_none(act.tau), defined_or_none(act.kappa), groups_,
                      centered, act.spec().activation().name);
}

std::vector<at::Tensor> PerSampleNormImpl::run_into(const at::Tensor& x, const std::vector<Convolution>& readers) {
  return with_parameters(
      [&](const at::Tensor& gamma, const at::Tensor& beta, const at::Tensor& threshold, std::string_view activation) {
        return norm_act_convs(x, gamma, beta, current_eps(x.device()), defined_or_none(threshold),
                              defined_or_none(kappa), groups_, spec().norm().centered, activation, readers);
      });
}

}  // namespace frn
