// What a study will take: steps, memory and time of every cell, before hours are spent.
#pragma once

#include "frn/cli/study_library.h"
#include "frn/report/study_cells.h"
#include "frn/train/config.h"

namespace frn::cli {

struct PlannedCell {
  report::StudyCell cell;
  train::TrainConfig config;
  int64_t steps = 0;  // of the whole training
  int64_t image_size = 0;
  int64_t channels = 0, classes = 0;
  int64_t multiply_adds = 0;  // of one image
  int64_t parameters = 0;

  int64_t steps_to_go() const;  // with max_steps
  double work() const;          // multiply-adds
};

// Checks the settings of every cell as frn train would. Throws frn::Error "[study] cell NAME: ..." for the first that
// cannot be trained.
std::vector<PlannedCell> plan_cells(const std::vector<report::StudyCell>& cells);

// Measures a step of each network and prints the table.
void print_plan(const report::StudyDefinition& study, const std::vector<PlannedCell>& plan, int64_t jobs);

}  // namespace frn::cli
