// What turns gradients into an update of the weights, with its state in checkpoints.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "frn/nn/parameter_groups.h"
#include "frn/nn/weights.h"

namespace torch::optim {
class Optimizer;  // its header takes seconds
}

namespace frn::train {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Parameters without a gradient stay as they are.
  virtual void step(double lr) = 0;
  // All that the next step depends on besides weights and gradients, by names such as "momentum.stem.weight" (none may
  // begin with "ema."); tensors may share the optimiser's memory.
  virtual NamedTensors state() const = 0;
  // Throws frn::Error when names or shapes differ from what state() would give.
  virtual void load(const NamedTensors& state) = 0;
};

// The caller's own optimiser of torch. The schedule sets the rate of all its parameter groups before each step (scaled:
// a group that was made with twice the rate of the first one keeps twice its rate). Its state passes through torch's
// own serialisation, so any optimiser of LibTorch resumes exactly, except LBFGS, which calls the model itself.
std::unique_ptr<Optimizer> wrap_optimizer(std::shared_ptr<torch::optim::Optimizer> optimizer);

}  // namespace frn::train
