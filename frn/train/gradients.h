// What stands between backward and the optimiser: norm, clipping, and which one went bad.
#pragma once

#include <string>

#include "frn/nn/parameter_groups.h"

namespace frn::train {

// The gradients of a model's parameters, as one vector.
class Gradients {
 public:
  explicit Gradients(const ParameterGroups& groups);

  void clear();
  // As torch's clip_grad_norm_ takes it; not finite when a gradient is not.
  double norm() const;
  void scale(double factor);
  // The name of the first parameter with a gradient that is not finite; empty when there is none.
  std::string first_bad() const;

 private:
  ParameterGroups::List parameters_;
};

}  // namespace frn::train
