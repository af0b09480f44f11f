// FRN, GFRN, LFRN, IN, GN and LN: the per-sample methods, each one call of the fused operator frn::norm_act.
#pragma once

#include "frn/nn/norm_act.h"

namespace frn {

class PerSampleNormImpl : public NormActImpl {
 public:
  // Throws frn::Error when the spec's groups do not divide the channels.
  PerSampleNormImpl(const NormActSpec& spec, int64_t channels);

  // The eps that the normalisation adds, differentiable in eps_l when it is learned: one number or [channels], on x's
  // device.
  at::Tensor current_eps(const torch::Device& device);

  at::Tensor threshold() const override;

  at::Tensor eps;  // eps_l, one number or [channels]; undefined when eps is fixed

 protected:
  at::Tensor run(const at::Tensor& x) override;
  bool can_add() const override { return true; }
  at::Tensor run_added(const at::Tensor& x, const at::Tensor& shortcut, const NormActImpl& act) override;
  bool can_compute_again() const override { return true; }
  std::vector<at::Tensor> run_into(const at::Tensor& x, const std::vector<Convolution>& readers) override;

 private:
  // call(weight, bias, tau, activation) with those that the operator gets.
  template <typename Call>
  auto with_parameters(const Call& call) const;

  int64_t groups_;
  at::Tensor fixed_eps_;  // float64, no part of the state dict
};

}  // namespace frn
