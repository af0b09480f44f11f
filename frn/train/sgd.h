// Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD computes it:
//   g = grad + weight_decay*w        v = momentum*v + g        w = w - lr*v        (Nesterov: w = w - lr*(g +
//   momentum*v))
// with v starting at 0, in one pass over memory.
#pragma once

#include "frn/train/optimizer.h"

namespace frn::train {

class Sgd : public Optimizer {
 public:
  struct Options {
    double momentum = 0.9;
    double weight_decay = 0;  // on the decayed group
    bool nesterov = false;
  };

  Sgd(const ParameterGroups& groups, const Options& options);

  void step(double lr) override;
  NamedTensors state() const override;  // "momentum.NAME"
  void load(const NamedTensors& state) override;

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor velocity;
    double weight_decay;
  };

  Options options_;
  std::vector<Slot> slots_;
};

}  // namespace frn::train
