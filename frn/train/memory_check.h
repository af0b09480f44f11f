// Tells before a training starts that it cannot fit into memory: otherwise the kernel ends it somewhere in the first
// step, without a word.
#pragma once

#include <optional>

#include "frn/models/model.h"
#include "frn/train/settings.h"

namespace frn::train {

// The least that a step of a process takes, in bytes: weights, gradients, the optimiser's state, and of what is kept
// for the gradients the part that no setting saves. Real steps take more.
int64_t least_step_bytes(Model& model, const TrainSettings& settings, int64_t image_size, int64_t processes);

// Throws frn::Error when that is more than `free` bytes. `processes`: that share the settings' devices.
void check_memory(Model& model, const TrainSettings& settings, int64_t image_size, int64_t processes,
                  std::optional<int64_t> free);

}  // namespace frn::train
