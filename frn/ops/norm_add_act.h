// norm_add_act, z = act(norm(x) + shortcut): its arguments, how the dispatcher calls it, and the three operators that
// it is made of, which run wherever there are no kernels for the whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>
#include <tuple>

#include "frn/ops/internal.h"

namespace frn::ops {

struct NormAddActArguments {
  NormActArguments norm;  // with the sum's activation
  at::Tensor shortcut;

  void check() const { check_norm_add_act(norm, shortcut); }
  // The norm's own part: no activation.
  NormActArguments norm_alone() const;
  // Of the sum, and so of z.
  at::ScalarType sum_type() const;
};

enum NormAddActInput : int {
  kAddX,
  kAddShortcut,
  kAddWeight,
  kAddBias,
  kAddEps,
  kAddTau,
  kAddKappa,
  kNormAddActInputs
};
using AddNeeds = std::array<bool, kNormAddActInputs>;
// In the order of the inputs; undefined where not needed.
using AddGradients = std::array<at::Tensor, kNormAddActInputs>;

// What backward gets besides forward's arguments.
struct AddBackwardArguments {
  at::Tensor dz;
  at::Tensor mean;
  at::Tensor rstd;
  AddNeeds needs;
};

// In the order of the inputs; no elements where not needed.
using NormAddActGradients =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

template <typename Result>
using NormAddActSignature = Result(const at::Tensor& x, const at::Tensor& shortcut, const OptionalTensor& weight,
                                   const OptionalTensor& bias, const at::Tensor& eps, const OptionalTensor& tau,
                                   const OptionalTensor& kappa, int64_t groups, bool centered,
                                   std::string_view activation);
using NormAddActBackwardSignature = NormAddActGradients(const at::Tensor& dz, const at::Tensor& x,
                                                        const at::Tensor& shortcut, const at::Tensor& mean,
                                                        const at::Tensor& rstd, const OptionalTensor& weight,
                                                        const OptionalTensor& bias, const at::Tensor& eps,
                                                        const OptionalTensor& tau, const OptionalTensor& kappa,
                                                        int64_t groups, bool centered, std::string_view activation,
                                                        AddNeeds needs);

// kFunction(NormAddActArguments) as the dispatcher calls it, for m.impl.
template <auto kFunction>
auto as_add_operator(const at::Tensor& x, const at::Tensor& shortcut, const OptionalTensor& weight,
                     const OptionalTensor& bias, const at::Tensor& eps, const OptionalTensor& tau,
                     const OptionalTensor& kappa, int64_t groups, bool centered, std::string_view activation) {
  return kFunction(NormAddActArguments{{x, weight, bias, eps, tau, kappa, groups, centered, activation}, shortcut});
}
// kFunction(NormAddActArguments, AddBackwardArguments).
template <auto kFunction>
auto as_add_backward_operator(const at::Tensor& dz, const at::Tensor& x, const at::Tensor& shortcut,
                              const at::Tensor& mean, const at::Tensor& rstd, const OptionalTensor& weight,
                              const OptionalTensor& bias, const at::Tensor& eps, const OptionalTensor& tau,
                              const OptionalTensor& kappa, int64_t groups, bool centered, std::string_view activation,
                              AddNeeds needs) {
  return kFunction(NormAddActArguments{{x, weight, bias, eps, tau, kappa, groups, centered, activation}, shortcut},
                   AddBackwardArguments{dz, mean, rstd, needs});
}

at::Tensor call_norm_add_act(const NormAddActArguments& arguments);
NormActResult call_norm_add_act_forward(const NormAddActArguments& arguments);
NormAddActGradients call_norm_add_act_backward(const NormAddActArguments& arguments,
                                               const AddBackwardArguments& backward);

// norm_act, the sum and act, one after the other. Backward computes the sum again: for it x, the shortcut and the
// statistics are enough.
NormActResult composed_forward(const NormAddActArguments& arguments);
NormAddActGradients composed_backward(const NormAddActArguments& arguments, const AddBackwardArguments& backward);

// Written with ATen's operators (composite.h), which ATen can differentiate.
at::Tensor composite_add_result(const NormAddActArguments& arguments);
AddGradients composite_add_backward(const NormAddActArguments& arguments, const at::Tensor& dz, const AddNeeds& needs);

}  // namespace frn::ops
