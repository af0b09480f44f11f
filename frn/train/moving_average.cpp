#include "frn/train/moving_average.h"

#include <torch/types.h>

#include <algorithm>

#include "frn/core/error.h"

namespace frn::train {

MovingAverage::MovingAverage(const torch::nn::Module& model, double decay) : decay_(decay), weights_(state_of(model)) {
  for (const auto& [name, weight] : weights_) averages_.emplace(name, weight.detach().clone());
}

void MovingAverage::update(int64_t step) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<double>(step);
  const double decay = std::min(decay_, (1 + count) / (10 + count));
  for (auto& [name, weight] : weights_) {
    auto& average = averages_.at(name);
    if (weight.is_floating_point()) {
      average.lerp_(weight, 1 - decay);
    } else {
      average.copy_(weight);
    }
  }
}

void MovingAverage::load(const NamedTensors& averages) {
  for (const auto& [name, average] : averages_) {
    const auto found = averages.find(name);
    if (found == averages.end() || found->second.sizes() != average.sizes()) {
      throw Error("moving_average",
                  "an average of the weight's shape must be there for '" + name +
                      "' but is missing or has another shape; the checkpoint belongs to another model");
    }
  }
  for (auto& [name, average] : averages_) average.copy_(averages.at(name));
}

void MovingAverage::swap() {
  const torch::NoGradGuard no_grad;
  for (auto& [name, weight] : weights_) {
    auto& average = averages_.at(name);
    const auto kept = weight.detach().clone();
    weight.copy_(average);
    average.copy_(kept);
  }
}

}  // namespace frn::train
