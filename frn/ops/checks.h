// The arguments of norm_act in one struct, and the checks that every dispatch key runs before anything is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace frn::ops {

using OptionalTensor = std::optional<at::Tensor>;

enum class Activation { kNone, kRelu, kTlu, kPrelu, kAffineTlu };

// The activation of that name; an unknown name is an error that lists the known ones.
Activation parse_activation(std::string_view operation, std::string_view name);
constexpr bool uses_tau(Activation a) { return a == Activation::kTlu || a == Activation::kAffineTlu; }
constexpr bool uses_kappa(Activation a) { return a == Activation::kPrelu || a == Activation::kAffineTlu; }

struct NormActArguments {
  at::Tensor x;
  OptionalTensor weight;
  OptionalTensor bias;
  at::Tensor eps;
  OptionalTensor tau;
  OptionalTensor kappa;
  int64_t groups;
  bool centered;
  Activation activation;

  int64_t channels() const { return x.size(1); }
  bool eps_per_channel() const { return eps.dim() == 1 && eps.size(0) == channels() && channels() > 1; }
};

// Throws, with one sentence, unless shapes, types, devices, groups and the activation's parameters fit together.
NormActArguments check_norm_act(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                                const at::Tensor& eps, const OptionalTensor& tau, const OptionalTensor& kappa,
                                int64_t groups, bool centered, std::string_view activation);

// The same for act(); returns the activation.
Activation check_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                     std::string_view activation);

// The type that x's arithmetic is in: float64 for float64, else float32.
at::ScalarType accumulate_type(at::ScalarType type);

}  // namespace frn::ops
