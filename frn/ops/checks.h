// The arguments of norm_act in one struct, and the checks that every dispatch key runs before anything is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "frn/spec/norm_table.h"

namespace frn::ops {

using OptionalTensor = std::optional<at::Tensor>;

// The activation of that name; an unknown name is an error that lists the known ones.
Activation parse_activation(std::string_view operation, std::string_view name);

// `activation` must outlive it.
struct NormActArguments {
  at::Tensor x;
  OptionalTensor weight;
  OptionalTensor bias;
  at::Tensor eps;
  OptionalTensor tau;
  OptionalTensor kappa;
  int64_t groups;
  bool centered;
  std::string_view activation;

  int64_t channels() const { return x.size(1); }
  bool eps_per_channel() const { return eps.dim() == 1 && eps.size(0) == channels() && channels() > 1; }
  Activation kind() const { return parse_activation("norm_act", activation); }
};

// Throws, with one sentence, unless shapes, types, devices, groups and the activation's parameters fit together.
void check_norm_act(const NormActArguments& arguments, const char* operation = "norm_act");

// The same for norm_add_act(), whose shortcut has x's shape.
void check_norm_add_act(const NormActArguments& arguments, const at::Tensor& shortcut);

// The same for act(); returns the activation.
Activation check_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                     std::string_view activation);

// Throws unless the gradient of z has the shape and type of the input of that name.
void check_gradient(std::string_view operation, std::string_view name, const at::Tensor& dz, const at::Tensor& input);

// The type that x's arithmetic is in: float64 for float64, else float32.
at::ScalarType accumulate_type(at::ScalarType type);

}  // namespace frn::ops
