// frn bench train --processes: how the speed of training grows with processes, and how much of the reduction of
// gradients backward hides.
#pragma once

#include <vector>

#include "frn/cli/bench_step.h"
#include "frn/dist/group.h"

namespace frn::cli {

struct ProcessesOptions {
  StepOptions step;
  std::vector<int64_t> counts;
  int rounds = 7;
  int threads = 1;  // of each process
  bool as_json = false;
};

// Starts each number of processes after another, one alone first, and prints a table.
void bench_processes(const ProcessesOptions& options);

// One of those processes, or of torchrun's: rank 0 prints what all of them measured, as JSON.
void bench_as_rank(const ProcessesOptions& options, const dist::Place& place);

}  // namespace frn::cli
