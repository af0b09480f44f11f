#include "frn/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace frn::train {

double Schedule::rate(int64_t step) const {
  if (step < warmup_steps) {
    const double share = static_cast<double>(step) / static_cast<double>(warmup_steps);
    return lr_peak * 0.5 * (1 - std::cos(std::numbers::pi * share));
  }
  if (decay == Decay::kConstant) return lr_peak;
  if (decay == Decay::kCosine) {
    if (steps <= warmup_steps) return lr_peak;
    const double share = static_cast<double>(step - warmup_steps) / static_cast<double>(steps - warmup_steps);
    return lr_peak * 0.5 * (1 + std::cos(std::numbers::pi * std::min(share, 1.0)));
  }
  double rate = lr_peak;
  for (const double drop : drops) {
    if (static_cast<double>(step) >= drop * static_cast<double>(steps)) rate *= drop_factor;
  }
  return rate;
}

}  // namespace frn::train
