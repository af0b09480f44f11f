// One step of a cell's network, measured: the basis of a study's plan.
#pragma once

#include "frn/cli/study_plan.h"

namespace frn::cli {

struct MeasuredStep {
  double seconds_per_image = 0;
  double bytes_per_image = 0;  // beyond weights and gradients
  int64_t multiply_adds = 0;   // of the network that was measured
};

// How many images measure_step takes: the cell's whole step when that is small, else a few.
int64_t images_to_measure(const PlannedCell& cell);

// Trains on noise for a moment with the cell's threads.
MeasuredStep measure_step(const PlannedCell& cell);

}  // namespace frn::cli
