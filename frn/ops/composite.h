// The operators written with ATen's own: the definition of what they compute, and their gradients by the paper's
// formulas. The truth that the kernels are tested against, the path for devices without a kernel, and, being
// differentiable, the second derivative.
#pragma once

#include <array>

#include "frn/ops/checks.h"

namespace frn::ops {

struct ForwardResult {
  at::Tensor z;
  at::Tensor mean;  // [N, groups], empty unless centered
  at::Tensor rstd;  // [N, groups]
};
ForwardResult composite_forward(const NormActArguments& arguments);
// z alone, in whatever layout the operations give; nothing is written in place, which torch.func's vmap may refuse.
at::Tensor composite_result(const NormActArguments& arguments);

enum NormActInput : int { kX, kWeight, kBias, kEps, kTau, kKappa, kNormActInputs };
using Needs = std::array<bool, kNormActInputs>;
using Gradients = std::array<at::Tensor, kNormActInputs>;

// Undefined where not needed.
Gradients composite_backward(const NormActArguments& arguments, const at::Tensor& dz, const Needs& needs);

at::Tensor composite_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                         Activation activation);
// As composite_result().
at::Tensor composite_act_result(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                                Activation activation);

// dy, dtau, dkappa.
std::array<at::Tensor, 3> composite_act_backward(const at::Tensor& dz, const at::Tensor& y, const OptionalTensor& tau,
                                                 const OptionalTensor& kappa, Activation activation,
                                                 std::array<bool, 3> needs);

}  // namespace frn::ops
