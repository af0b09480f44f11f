#include "frn/train/sgd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>
#include <torch/types.h>

#include <cmath>

#include "frn/core/error.h"
#include "frn/train/sgd_loop.h"

namespace frn::train {
namespace {

constexpr int64_t kGrain = 16384;  // values a thread takes at least: below that starting threads costs more

// Memory can be walked as it lies when all three lie alike and without holes.
bool lie_alike(const at::Tensor& w, const at::Tensor& v, const at::Tensor& g) {
  return w.is_cpu() && w.scalar_type() == at::kFloat && g.scalar_type() == at::kFloat &&
         w.is_non_overlapping_and_dense() && w.strides() == v.strides() && w.strides() == g.strides();
}

void update_tensor(at::Tensor& w, at::Tensor& v, const at::Tensor& gradient, double lr, double momentum,
                   double weight_decay) {
  auto g = gradient;
  // A convolution may give its gradient in another layout than its weight has.
  if (g.strides() != w.strides()) g = at::empty_like(w).copy_(gradient);
  if (!lie_alike(w, v, g)) {
    if (weight_decay != 0) g = g.add(w, weight_decay);
    v.mul_(momentum).add_(g);
    w.add_(v, -lr);
    return;
  }
  const SgdUpdate update{static_cast<float>(lr), static_cast<float>(momentum), static_cast<float>(weight_decay)};
  float* const w0 = w.mutable_data_ptr<float>();
  float* const v0 = v.mutable_data_ptr<float>();
  const float* const g0 = g.const_data_ptr<float>();
  at::parallel_for(0, w.numel(), kGrain, [&](int64_t begin, int64_t end) {
    update_floats(w0 + begin, v0 + begin, g0 + begin, end - begin, update);
  });
}

}  // namespace

Sgd::Sgd(const ParameterGroups& groups, const Options& options) : momentum_(options.momentum) {
  const auto add = [&](const ParameterGroups::List& list, double weight_decay) {
    for (const auto& [name, parameter] : list) {
      if (!parameter.requires_grad()) continue;
      slots_.push_back({name, parameter, at::zeros_like(parameter.detach()), weight_decay});
    }
  };
  add(groups.decayed, options.weight_decay);
  add(groups.not_decayed, 0);
}

void Sgd::step(double lr) {
  const torch::NoGradGuard no_grad;
  for (auto& slot : slots_) {
    const auto& gradient = slot.parameter.grad();
    if (gradient.defined()) {
      update_tensor(slot.parameter, slot.velocity, gradient, lr, momentum_, slot.weight_decay);
    }
  }
}

void Sgd::clear_gradients() {
  for (auto& slot : slots_) slot.parameter.mutable_grad() = at::Tensor();
}

double Sgd::gradient_norm() const {
  double squares = 0;
  for (const auto& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    const auto& gradient = slot.parameter.grad();
    auto norm = at::linalg_vector_norm(gradient).item<double>();
    // Squares of large float32 values overflow where the values do not.
    if (!std::isfinite(norm)) norm = at::linalg_vector_norm(gradient.to(at::kDouble)).item<double>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

std::string Sgd::first_bad_gradient() const {
  for (const auto& slot : slots_) {
    const auto& gradient = slot.parameter.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>()) return slot.name;
  }
  return "";
}

void Sgd::scale_gradients(double factor) {
  const torch::NoGradGuard no_grad;
  for (auto& slot : slots_) {
    if (slot.parameter.grad().defined()) slot.parameter.mutable_grad().mul_(factor);
  }
}

NamedTensors Sgd::velocities() const {
  NamedTensors out;
  for (const auto& slot : slots_) out.emplace(slot.name, slot.velocity);
  return out;
}

void Sgd::load_velocities(const NamedTensors& velocities) {
  for (const auto& slot : slots_) {
    const auto found = velocities.find(slot.name);
    if (found == velocities.end() || found->second.sizes() != slot.velocity.sizes()) {
      throw Error("sgd", "a velocity of the parameter's shape must be there for '" + slot.name +
                             "' but is missing or has another shape; the checkpoint belongs to another model");
    }
  }
  for (auto& slot : slots_) slot.velocity.copy_(velocities.at(slot.name));
}

}  // namespace frn::train
