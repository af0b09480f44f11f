#include "frn/ops/checks.h"

#include <array>
#include <string>

#include "frn/core/text.h"
#include "frn/ops/ops.h"

namespace frn {

const std::vector<std::string_view>& activation_names() {
  static const auto names = [] {
    std::vector<std::string_view> out;
    for (const auto& row : activation_table()) out.push_back(row.name);
    return out;
  }();
  return names;
}

}  // namespace frn

namespace frn::ops {
namespace {

bool supported(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
}

void check_input(const char* operation, const char* name, const at::Tensor& x) {
  TORCH_CHECK(x.layout() == at::kStrided, "[", operation, "] ", name, " must be a dense tensor but has layout ",
              x.layout(), "; call .to_dense() first");
  TORCH_CHECK(x.dim() >= 2, "[", operation, "] ", name,
              " must have shape [N, C, *] with at least 2 dimensions but has ", x.sizes(),
              "; add the batch dimension with .unsqueeze(0)");
  TORCH_CHECK_TYPE(supported(x.scalar_type()), "[", operation, "] ", name,
                   " must be float32, float64, bfloat16 or float16 but is ", x.scalar_type(),
                   "; convert it with .to()");
  TORCH_CHECK(x.sym_size(1) > 0, "[", operation, "] ", name, " must have at least one channel but has shape ",
              x.sizes());
}

void check_device_and_type(const char* operation, const char* name, const at::Tensor& parameter, const at::Tensor& x) {
  TORCH_CHECK(parameter.device() == x.device(), "[", operation, "] ", name, " must be on x's device ", x.device(),
              " but is on ", parameter.device(), "; move the module with .to()");
  TORCH_CHECK_TYPE(parameter.scalar_type() == x.scalar_type() || parameter.scalar_type() == at::kFloat, "[", operation,
                   "] ", name, " must be ", x.scalar_type(), " (as x) or Float but is ", parameter.scalar_type(),
                   "; convert it with .to()");
}

void check_parameter(const char* operation, const char* name, const OptionalTensor& parameter, const at::Tensor& x) {
  if (!parameter.has_value()) return;
  TORCH_CHECK(parameter->dim() == 1 && parameter->sym_size(0) == x.sym_size(1), "[", operation, "] ", name,
              " must have shape [", x.sym_size(1), "] (channels of x ", x.sym_sizes(), ") but has ",
              parameter->sym_sizes());
  check_device_and_type(operation, name, *parameter, x);
}

void check_activation_parameter(const char* operation, const char* name, std::string_view activation, bool used,
                                const OptionalTensor& parameter, const at::Tensor& x) {
  TORCH_CHECK(!used || parameter.has_value(), "[", operation, "] activation '", activation, "' needs ", name,
              " of shape [", x.sym_size(1), "] but got none; pass it or choose another activation");
  TORCH_CHECK(used || !parameter.has_value(), "[", operation, "] activation '", activation, "' takes no ", name,
              " but got one; leave it out or choose another activation");
  check_parameter(operation, name, parameter, x);
}

}  // namespace

Activation parse_activation(std::string_view operation, std::string_view name) {
  const auto& names = activation_names();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Activation>(i);
  }
  TORCH_CHECK_VALUE(false, "[", operation, "] activation must be one of ", join(names), " but is '", name, "'",
                    suggestion(name, names));
}

at::ScalarType accumulate_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

void check_norm_act(const NormActArguments& arguments, const char* op) {
  const auto& [x, weight, bias, eps, tau, kappa, groups, centered, activation] = arguments;
  check_input(op, "x", x);
  const auto channels = x.sym_size(1);
  TORCH_CHECK_VALUE(groups >= 1, "[", op, "] groups must be at least 1 but is ", groups);
  TORCH_CHECK_VALUE(channels % groups == 0, "[", op, "] groups must divide the ", channels, " channels of x ",
                    x.sym_sizes(), " but is ", groups);
  check_parameter(op, "weight", weight, x);
  check_parameter(op, "bias", bias, x);
  TORCH_CHECK(eps.sym_numel() == 1 || (eps.dim() == 1 && eps.sym_size(0) == channels), "[", op,
              "] eps must be one number or have shape [", channels, "] (channels of x ", x.sym_sizes(), ") but has ",
              eps.sym_sizes());
  TORCH_CHECK(eps.sym_numel() == 1 || channels == groups, "[", op,
              "] eps must be one number when a group has more than one channel (", channels, " channels in ", groups,
              " groups) but has shape ", eps.sym_sizes());
  TORCH_CHECK(eps.device() == x.device(), "[", op, "] eps must be on x's device ", x.device(), " but is on ",
              eps.device(), "; move the module with .to()");
  TORCH_CHECK_TYPE(supported(eps.scalar_type()), "[", op, "] eps must be a floating-point number but is ",
                   eps.scalar_type());
  const Activation a = parse_activation(op, activation);
  check_activation_parameter(op, "tau", activation, row_of(a).uses_tau, tau, x);
  check_activation_parameter(op, "kappa", activation, row_of(a).uses_kappa, kappa, x);
}

void check_norm_add_act(const NormActArguments& arguments, const at::Tensor& shortcut) {
  const char* const op = "norm_add_act";
  check_norm_act(arguments, op);
  const auto& x = arguments.x;
  TORCH_CHECK(shortcut.layout() == at::kStrided, "[", op, "] shortcut must be a dense tensor but has layout ",
              shortcut.layout(), "; call .to_dense() first");
  TORCH_CHECK(shortcut.sym_sizes() == x.sym_sizes(), "[", op, "] shortcut must have x's shape ", x.sym_sizes(),
              " but has ", shortcut.sym_sizes(), "; bring it there with a convolution of its own, or .expand_as(x)");
  TORCH_CHECK(shortcut.device() == x.device(), "[", op, "] shortcut must be on x's device ", x.device(), " but is on ",
              shortcut.device());
  TORCH_CHECK_TYPE(supported(shortcut.scalar_type()), "[", op,
                   "] shortcut must be float32, float64, bfloat16 or float16 but is ", shortcut.scalar_type(),
                   "; convert it with .to()");
}

Activation check_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                     std::string_view activation) {
  check_input("act", "y", y);
  const Activation a = parse_activation("act", activation);
  check_activation_parameter("act", "tau", activation, row_of(a).uses_tau, tau, y);
  check_activation_parameter("act", "kappa", activation, row_of(a).uses_kappa, kappa, y);
  return a;
}

void check_gradient(std::string_view operation, std::string_view name, const at::Tensor& dz, const at::Tensor& input) {
  TORCH_CHECK(dz.sizes() == input.sizes() && dz.scalar_type() == input.scalar_type(), "[", operation,
              "] the gradient of z must have ", name, "'s shape and type, ", input.sizes(), " ", input.scalar_type(),
              ", but has ", dz.sizes(), " ", dz.scalar_type());
}

}  // namespace frn::ops
