// How the dispatcher calls the functions of the dispatch keys, and calls through it, so that the next key down is the
// one that answers.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>
#include <tuple>

#include "frn/ops/checks.h"

namespace frn::ops {

using NormActResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // z, mean, rstd
// Of x, weight, bias, eps, tau and kappa; no elements where not needed.
using NormActGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// What backward gets besides forward's arguments.
struct BackwardArguments {
  at::Tensor dz;
  at::Tensor mean;
  at::Tensor rstd;
  std::array<bool, 6> needs;
};

// The arguments in the order of the schemas. Everything else passes them as one.
template <typename Result>
using NormActSignature = Result(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                                const at::Tensor& eps, const OptionalTensor& tau, const OptionalTensor& kappa,
                                int64_t groups, bool centered, std::string_view activation);
using NormActBackwardSignature = NormActGradients(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& mean,
                                                  const at::Tensor& rstd, const OptionalTensor& weight,
                                                  const OptionalTensor& bias, const at::Tensor& eps,
                                                  const OptionalTensor& tau, const OptionalTensor& kappa,
                                                  int64_t groups, bool centered, std::string_view activation,
                                                  std::array<bool, 6> needs);

// kFunction(NormActArguments) as the dispatcher calls it, for m.impl.
template <auto kFunction>
auto as_operator(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, const at::Tensor& eps,
                 const OptionalTensor& tau, const OptionalTensor& kappa, int64_t groups, bool centered,
                 std::string_view activation) {
  return kFunction(NormActArguments{x, weight, bias, eps, tau, kappa, groups, centered, activation});
}
// kFunction(NormActArguments, BackwardArguments).
template <auto kFunction>
auto as_backward_operator(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                          const OptionalTensor& weight, const OptionalTensor& bias, const at::Tensor& eps,
                          const OptionalTensor& tau, const OptionalTensor& kappa, int64_t groups, bool centered,
                          std::string_view activation, std::array<bool, 6> needs) {
  return kFunction(NormActArguments{x, weight, bias, eps, tau, kappa, groups, centered, activation},
                   BackwardArguments{dz, mean, rstd, needs});
}

// Whether torch.func's grad, vjp or vmap is at work. They refuse autograd functions written in C++: there the composite
// form runs, which ATen differentiates by itself.
bool in_function_transform();

at::Tensor call_norm_act(const NormActArguments& arguments);
NormActResult call_norm_act_forward(const NormActArguments& arguments);
NormActGradients call_norm_act_backward(const NormActArguments& arguments, const BackwardArguments& backward);

at::Tensor call_frn_tlu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& tau,
                        const at::Tensor& eps);
at::Tensor call_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                    std::string_view activation);

at::Tensor call_act_forward(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                            std::string_view activation);
std::tuple<at::Tensor, at::Tensor, at::Tensor> call_act_backward(const at::Tensor& dz, const at::Tensor& y,
                                                                 const OptionalTensor& tau, const OptionalTensor& kappa,
                                                                 std::string_view activation,
                                                                 std::array<bool, 3> needs);

}  // namespace frn::ops
