// One step of a cell's network, measured: what the plan of a study is reckoned from.
#pragma once

#include "frn/cli/study_plan.h"

namespace frn::cli {

struct MeasuredStep {
  double seconds_per_image = 0;
  double bytes_per_image = 0;  // beyond weights and gradients
  int64_t multiply_adds = 0;   // of the network that was measured
};

// Trains on noise for a moment with the cell's threads: its whole step when that is small, else a few images.
MeasuredStep measure_step(const PlannedCell& cell);

}  // namespace frn::cli
