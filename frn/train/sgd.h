// Stochastic gradient descent with momentum and weight decay, as torch.optim.SGD computes it:
//   g = grad + weight_decay*w        v = momentum*v + g        w = w - lr*v
// with v starting at 0, in one pass over memory.
#pragma once

#include <string>
#include <vector>

#include "frn/nn/parameter_groups.h"
#include "frn/nn/weights.h"

namespace frn::train {

class Sgd {
 public:
  struct Options {
    double momentum = 0.9;
    double weight_decay = 0;  // on the decayed group
  };

  Sgd(const ParameterGroups& groups, const Options& options);

  // Parameters without a gradient stay as they are.
  void step(double lr);
  void clear_gradients();
  // The norm of all gradients together, as torch's clip_grad_norm_ takes it; not finite when a gradient is not.
  double gradient_norm() const;
  // The name of the first parameter with a gradient that is not finite; empty when there is none.
  std::string first_bad_gradient() const;
  void scale_gradients(double factor);

  // The velocities by parameter name, sharing memory.
  NamedTensors velocities() const;
  // Throws frn::Error when names or shapes differ.
  void load_velocities(const NamedTensors& velocities);

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor velocity;
    double weight_decay;
  };

  double momentum_;
  std::vector<Slot> slots_;
};

}  // namespace frn::train
