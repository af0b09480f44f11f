#include "frn/train/sgd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros_like.h>
#include <torch/types.h>

#include "frn/core/error.h"
#include "frn/train/update_loops.h"
#include "frn/train/walk.h"

namespace frn::train {
namespace {

constexpr const char* kMomentum = "momentum.";

void update_tensor(at::Tensor& w, at::Tensor& v, const at::Tensor& gradient, double lr, const Sgd::Options& options,
                   double weight_decay) {
  auto g = laid_out_as(w, gradient);
  if (!lie_alike(w, v, g)) {
    if (weight_decay != 0) g = g.add(w, weight_decay);
    v.mul_(options.momentum).add_(g);
    w.add_(options.nesterov ? g.add(v, options.momentum) : v, -lr);
    return;
  }
  const SgdUpdate update{static_cast<float>(lr), static_cast<float>(options.momentum), static_cast<float>(weight_decay),
                         options.nesterov};
  float* const w0 = w.mutable_data_ptr<float>();
  float* const v0 = v.mutable_data_ptr<float>();
  const float* const g0 = g.const_data_ptr<float>();
  at::parallel_for(0, w.numel(), kGrain, [&](int64_t begin, int64_t end) {
    update_floats(w0 + begin, v0 + begin, g0 + begin, end - begin, update);
  });
}

}  // namespace

Sgd::Sgd(const ParameterGroups& groups, const Options& options) : options_(options) {
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
    if (gradient.defined()) update_tensor(slot.parameter, slot.velocity, gradient, lr, options_, slot.weight_decay);
  }
}

NamedTensors Sgd::state() const {
  NamedTensors out;
  for (const auto& slot : slots_) out.emplace(kMomentum + slot.name, slot.velocity);
  return out;
}

void Sgd::load(const NamedTensors& state) {
  for (const auto& slot : slots_) {
    const auto found = state.find(kMomentum + slot.name);
    if (found == state.end() || found->second.sizes() != slot.velocity.sizes()) {
      throw Error("sgd", "a velocity of the parameter's shape must be there for '" + slot.name +
                             "' but is missing or has another shape; the checkpoint belongs to another model or "
                             "optimizer");
    }
  }
  for (auto& slot : slots_) slot.velocity.copy_(state.at(kMomentum + slot.name));
}

}  // namespace frn::train
