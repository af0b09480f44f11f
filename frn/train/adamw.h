// AdamW (Loshchilov and Hutter 2019), as torch.optim.AdamW computes it, with the step's number t from 1:
//   w = w - lr*weight_decay*w        m = beta1*m + (1 - beta1)*grad        v = beta2*v + (1 - beta2)*grad^2
//   w = w - lr/(1 - beta1^t) * m/(sqrt(v)/sqrt(1 - beta2^t) + eps)
// in one pass over memory.
#pragma once

#include "frn/train/optimizer.h"

namespace frn::train {

class AdamW : public Optimizer {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0;  // on the decayed group
  };

  AdamW(const ParameterGroups& groups, const Options& options);

  void step(double lr) override;
  NamedTensors state() const override;  // "exp_avg.NAME", "exp_avg_sq.NAME", "steps"
  void load(const NamedTensors& state) override;

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor mean;    // m
    at::Tensor square;  // v
    double weight_decay;
  };

  Options options_;
  std::vector<Slot> slots_;
  at::Tensor steps_;  // int64: steps done
};

}  // namespace frn::train
