// train/ turns a model, data and a task into a trained model: settings (settings, config), the rate (schedule), what is
// learned (task), one update (step, optimizer), the loop around it (trainer), and what survives a kill (checkpoint).
#pragma once

#include <cstdint>
#include <vector>

namespace frn::train {

enum class Decay { kCosine, kStep, kConstant };

// The learning rate of every step, counted from 0: a cosine from 0 to lr_peak over the warm-up (section 3.5 of the
// paper), then the decay. Cosine decay has no restarts and would reach 0 at `steps`.
struct Schedule {
  Decay decay = Decay::kCosine;
  double lr_peak = 0.1;
  int64_t steps = 1;
  int64_t warmup_steps = 0;
  std::vector<double> drops{};  // of step decay: the shares of `steps` after which the rate is multiplied
  double drop_factor = 0.1;

  double rate(int64_t step) const;
};

}  // namespace frn::train
