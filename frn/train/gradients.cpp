#include "frn/train/gradients.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/types.h>

#include <cmath>

namespace frn::train {

Gradients::Gradients(const ParameterGroups& groups) {
  for (const auto* list : {&groups.decayed, &groups.not_decayed}) {
    for (const auto& item : *list) {
      if (item.second.requires_grad()) parameters_.push_back(item);
    }
  }
}

void Gradients::clear() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
}

double Gradients::norm() const {
  double squares = 0;
  for (const auto& [name, parameter] : parameters_) {
    const auto& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    auto norm = at::linalg_vector_norm(gradient).item<double>();
    // Squares of large float32 values overflow where the values do not.
    if (!std::isfinite(norm)) norm = at::linalg_vector_norm(gradient.to(at::kDouble)).item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

void Gradients::scale(double factor) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters_) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(factor);
  }
}

std::string Gradients::first_bad() const {
  for (const auto& [name, parameter] : parameters_) {
    const auto& gradient = parameter.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>()) return name;
  }
  return "";
}

}  // namespace frn::train
