// ops/ registers the fused operators with PyTorch's dispatcher: schemas, checks, and one file per dispatch key (cpu,
// cuda, meta, autocast, autograd), beside the composite form that defines what they compute and serves devices without
// a kernel.
//
// For sample n and a group g of channels, over its m values x (section 3.1 of the paper and its relatives):
//   mu = mean(x) if centered else 0      s2 = mean((x-mu)^2)      xhat = (x-mu)/sqrt(s2+eps)
//   y = weight_c*xhat + bias_c           z = max(y, kappa_c*y + tau_c)
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "frn/ops/export.h"

namespace frn {

// x [N, C, *] of rank >= 2, contiguous or channels-last, float32, float64, bfloat16 or float16. weight, bias, tau and
// kappa are [C], of x's type or float32, on x's device; a missing weight is 1, a missing bias 0. eps > 0 is one number,
// or [C] when groups == C. activation: none, relu, tlu (needs tau), prelu (needs kappa), affine_tlu (needs both). The
// result has x's type and layout. Differentiable twice in all tensors.
FRN_API at::Tensor norm_act(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const at::Tensor& eps,
                            const std::optional<at::Tensor>& tau, const std::optional<at::Tensor>& kappa,
                            int64_t groups, bool centered, std::string_view activation);

// A convolution as ATen describes it. stride, padding and dilation have a number for each dimension of a map.
struct Convolution {
  at::Tensor filters;              // [out, in / groups, *]
  std::optional<at::Tensor> bias;  // [out]
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
};

// The convolution of norm_act's result z, for x [N, C, *] of rank 3 to 5, with half of the memory: for the gradients x
// is kept, and z is computed again when they need it. The same bits as the two operators, forward and every gradient.
FRN_API at::Tensor norm_act_conv(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                                 const std::optional<at::Tensor>& bias, const at::Tensor& eps,
                                 const std::optional<at::Tensor>& tau, const std::optional<at::Tensor>& kappa,
                                 int64_t groups, bool centered, std::string_view activation, const Convolution& reader);
// The same for several convolutions that read one z: it is computed again once.
FRN_API std::vector<at::Tensor> norm_act_convs(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                                               const std::optional<at::Tensor>& bias, const at::Tensor& eps,
                                               const std::optional<at::Tensor>& tau,
                                               const std::optional<at::Tensor>& kappa, int64_t groups, bool centered,
                                               std::string_view activation, const std::vector<Convolution>& readers);

// z = act(y + shortcut) with norm_act's y of x, without an activation of its own: the end of a residual block, in one
// pass over memory where the three operators make three. shortcut has x's shape and, where it is fast, x's type and
// layout; tau and kappa are the sum's activation's. For the gradients x, the shortcut and a few numbers per channel are
// kept, not the sum. In float32 and float64 every result has the bits of the three; 16-bit results are rounded once.
// At y + shortcut == kappa*(y + shortcut) + tau the gradient goes to the sum.
FRN_API at::Tensor norm_add_act(const at::Tensor& x, const at::Tensor& shortcut,
                                const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                                const at::Tensor& eps, const std::optional<at::Tensor>& tau,
                                const std::optional<at::Tensor>& kappa, int64_t groups, bool centered,
                                std::string_view activation);
// The same with ReLU as PyTorch's networks have it, whose gradient at 0 is 0. It needs no more than the result, which
// the next layer keeps anyway: that is kept in place of the shortcut.
FRN_API at::Tensor norm_add_relu(const at::Tensor& x, const at::Tensor& shortcut,
                                 const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                                 const at::Tensor& eps, int64_t groups, bool centered);

// The paper's listing: max(weight*x/sqrt(mean(x^2) + |eps|) + bias, tau), statistics per sample and channel.
FRN_API at::Tensor frn_tlu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& tau,
                           const at::Tensor& eps);

// The activation alone, for use after a batch norm or a residual addition.
FRN_API at::Tensor act(const at::Tensor& y, const std::optional<at::Tensor>& tau,
                       const std::optional<at::Tensor>& kappa, std::string_view activation);

// Proxy normalisation (Labatie et al. 2021): the weight, bias and tau with which norm_act also brings its results to
// the mean 0 and the deviation 1 (of variance + 0.03) that they would have for normal numbers in place of xhat. All are
// [C]; a missing tau or kappa is 0, and kappa stays as it is. Pass them to norm_act with activation tlu, or affine_tlu
// where there is a kappa. In float32, or float64 for float64. Differentiable twice.
FRN_API std::tuple<at::Tensor, at::Tensor, at::Tensor> proxy(const at::Tensor& weight, const at::Tensor& bias,
                                                             const std::optional<at::Tensor>& tau,
                                                             const std::optional<at::Tensor>& kappa);

// Weight standardisation (Qiao et al. 2019): each filter of weight [filters, inputs, *] with mean 0 and deviation 1 (of
// variance + eps), or 1/sqrt(fan-in) where it is scaled, times its gain ([filters] numbers of any shape). In weight's
// type and layout. Differentiable twice in both.
FRN_API at::Tensor standardise(const at::Tensor& weight, const std::optional<at::Tensor>& gain, bool scaled,
                               double eps);

// The names of `activation`, in the order of the paper's table 5.
FRN_API const std::vector<std::string_view>& activation_names();

struct ImplementationInfo {
  std::string name;
  std::string why_not;  // empty when this machine can run it
};
// The CPU implementations, best first.
FRN_API std::vector<ImplementationInfo> implementations();
// The one that the next call on a CPU will use.
FRN_API std::string chosen_implementation();
// Forces one by name (empty: back to the default). The environment variable FRN_IMPLEMENTATION does the same at start.
FRN_API void force_implementation(const std::string& name);
// The one that ran last in this process: a CPU implementation's name, "cuda", "composite", or "" before the first call.
FRN_API std::string last_implementation();

}  // namespace frn
