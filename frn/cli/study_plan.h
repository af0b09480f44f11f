// What a study will take: steps, memory and time of every cell, before hours are spent.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frn/study/cells.h"
#include "frn/train/config.h"

namespace frn::cli {

struct PlannedCell {
  study::Cell cell;
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
std::vector<PlannedCell> plan_cells(const std::vector<study::Cell>& cells);

// The settings of a cell as frn train reads them. Throws frn::Error for those that cannot be.
train::TrainConfig config_of(const study::Cell& cell);

// How many images are in the network at a time.
int64_t images_at_once(const train::TrainConfig& config);

// "30 trainings for 48 cells", "24 cells".
std::string amount_of_work(size_t trainings, size_t cells);

// Measures a step of each network and prints the table. `cells` is the number of cells that the trainings in `plan` are
// for, `same_as` names those of them that are the same training as another.
void print_plan(const study::Definition& study, const std::vector<PlannedCell>& plan, size_t cells, int64_t jobs,
                const std::map<std::string, std::string>& same_as);

}  // namespace frn::cli
