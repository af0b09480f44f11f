// Calls through the dispatcher, so that the next dispatch key down is the one that answers.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>
#include <tuple>

#include "frn/ops/checks.h"

namespace frn::ops {

at::Tensor call_norm_act(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                         const at::Tensor& eps, const OptionalTensor& tau, const OptionalTensor& kappa, int64_t groups,
                         bool centered, std::string_view activation);
at::Tensor call_frn_tlu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& tau,
                        const at::Tensor& eps);
at::Tensor call_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                    std::string_view activation);

std::tuple<at::Tensor, at::Tensor, at::Tensor> call_norm_act_forward(const at::Tensor& x, const OptionalTensor& weight,
                                                                     const OptionalTensor& bias, const at::Tensor& eps,
                                                                     const OptionalTensor& tau,
                                                                     const OptionalTensor& kappa, int64_t groups,
                                                                     bool centered, std::string_view activation);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> call_norm_act_backward(
    const at::Tensor& dz, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
    const OptionalTensor& weight, const OptionalTensor& bias, const at::Tensor& eps, const OptionalTensor& tau,
    const OptionalTensor& kappa, int64_t groups, bool centered, std::string_view activation, std::array<bool, 6> needs);
at::Tensor call_act_forward(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                            std::string_view activation);
std::tuple<at::Tensor, at::Tensor, at::Tensor> call_act_backward(const at::Tensor& dz, const at::Tensor& y,
                                                                 const OptionalTensor& tau, const OptionalTensor& kappa,
                                                                 std::string_view activation,
                                                                 std::array<bool, 3> needs);

}  // namespace frn::ops
