// An exponential moving average of a model's weights: average = decay*average + (1 - decay)*weight after every step.
#pragma once

#include <torch/nn/module.h>

#include "frn/nn/weights.h"

namespace frn::train {

// Running statistics are averaged like weights; counters are copied.
class MovingAverage {
 public:
  // Starts at the model's weights.
  MovingAverage(const torch::nn::Module& model, double decay);

  // The first steps count more (decay at most (1 + step)/(10 + step)), so that the start is forgotten early.
  void update(int64_t step);

  // By the names of state_of(model), sharing memory.
  const NamedTensors& averages() const { return averages_; }
  // Throws frn::Error when names or shapes differ.
  void load(const NamedTensors& averages);

  // Exchanges the model's weights with the averages; twice is as before.
  void swap();

 private:
  double decay_;
  NamedTensors weights_;
  NamedTensors averages_;
};

}  // namespace frn::train
