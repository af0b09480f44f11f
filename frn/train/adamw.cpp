#include "frn/train/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/types.h>

#include <cmath>

#include "frn/core/error.h"
#include "frn/train/update_loops.h"
#include "frn/train/walk.h"

namespace frn::train {
namespace {

constexpr const char* kMean = "exp_avg.";
constexpr const char* kSquare = "exp_avg_sq.";
constexpr const char* kSteps = "steps";

// What changes from step to step, in double.
struct Rates {
  double decay;
  double rate;
  double square_scale;
};

Rates rates_of(const AdamW::Options& options, double weight_decay, double lr, int64_t step) {
  const auto t = static_cast<double>(step);
  return {1 - lr * weight_decay, lr / (1 - std::pow(options.beta1, t)), 1 / std::sqrt(1 - std::pow(options.beta2, t))};
}

}  // namespace

AdamW::AdamW(const ParameterGroups& groups, const Options& options)
    : options_(options), steps_(at::zeros({}, at::kLong)) {
  const auto add = [&](const ParameterGroups::List& list, double weight_decay) {
    for (const auto& [name, parameter] : list) {
      if (!parameter.requires_grad()) continue;
      const auto weight = parameter.detach();
      slots_.push_back({name, parameter, at::zeros_like(weight), at::zeros_like(weight), weight_decay});
    }
  };
  add(groups.decayed, options.weight_decay);
  add(groups.not_decayed, 0);
}

void AdamW::step(double lr) {
  const torch::NoGradGuard no_grad;
  steps_.add_(1);
  const auto step = steps_.item<int64_t>();
  for (auto& [name, w, m, v, weight_decay] : slots_) {
    if (!w.grad().defined()) continue;
    const auto g = laid_out_as(w, w.grad());
    const auto rates = rates_of(options_, weight_decay, lr, step);
    if (!lie_alike(w, m, v, g)) {
      w.mul_(rates.decay);
      m.mul_(options_.beta1).add_(g, 1 - options_.beta1);
      v.mul_(options_.beta2).addcmul_(g, g, 1 - options_.beta2);
      w.addcdiv_(m, v.sqrt().mul_(rates.square_scale).add_(options_.eps), -rates.rate);
      continue;
    }
    const AdamWUpdate update{static_cast<float>(options_.beta1), static_cast<float>(options_.beta2),
                             static_cast<float>(options_.eps),   static_cast<float>(rates.decay),
                             static_cast<float>(rates.rate),     static_cast<float>(rates.square_scale)};
    float* const w0 = w.mutable_data_ptr<float>();
    float* const m0 = m.mutable_data_ptr<float>();
    float* const v0 = v.mutable_data_ptr<float>();
    const float* const g0 = g.const_data_ptr<float>();
    at::parallel_for(0, w.numel(), kGrain, [&](int64_t begin, int64_t end) {
      update_floats(w0 + begin, m0 + begin, v0 + begin, g0 + begin, end - begin, update);
    });
  }
}

NamedTensors AdamW::state() const {
  NamedTensors out{{kSteps, steps_}};
  for (const auto& slot : slots_) {
    out.emplace(kMean + slot.name, slot.mean);
    out.emplace(kSquare + slot.name, slot.square);
  }
  return out;
}

void AdamW::load(const NamedTensors& state) {
  const auto own = this->state();
  for (const auto& [name, tensor] : own) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.sizes() != tensor.sizes()) {
      throw Error("adamw", "a tensor of shape " + std::to_string(tensor.numel()) + " values must be there for '" +
                               name +
                               "' but is missing or has another shape; the checkpoint belongs to another model or "
                               "optimizer");
    }
  }
  for (const auto& [name, tensor] : own) at::Tensor(tensor).copy_(state.at(name));
}

}  // namespace frn::train
