#include "frn/cli/study_twins.h"

#include <algorithm>

#include "frn/cli/study_plan.h"
#include "frn/core/error.h"
#include "frn/nn/norm_act_spec.h"

namespace frn::cli {
namespace {

using report::StudyCell;
using report::StudyFolder;

bool sees_single_images(const train::TrainConfig& config) {
  return !NormActSpec::parse(config.norm).norm().batch_method;
}

// What is the same for cells that are the same training, and for no others. Where each image is seen by itself, a step
// is its images and the pieces in which they go through the network, which round the gradient's sum. A last batch that
// is cut to a multiple of the devices depends on them.
std::string training_of(const StudyCell& cell) {
  auto config = config_of(cell);
  if (sees_single_images(config) && config.last_batch == train::LastBatch::kDrop) {
    config.images_at_once = images_at_once(config);
    config.batch_per_device *= config.devices;
    config.devices = 1;
  }
  return train::to_toml(config);
}

}  // namespace

std::map<std::string, std::string> same_trainings(const StudyFolder& folder, const std::vector<StudyCell>& cells) {
  std::map<std::string, std::vector<const StudyCell*>> together;
  for (const auto& cell : cells) {
    try {
      together[training_of(cell)].push_back(&cell);
    } catch (const Error&) {
      continue;  // its settings cannot be trained; who plans it says why
    }
  }
  const auto is_there = [&](const StudyCell* cell) { return folder.has_cell(cell->name); };
  std::map<std::string, std::string> out;
  for (const auto& [training, same] : together) {
    const auto begun = std::find_if(same.begin(), same.end(), is_there);
    const auto* const trained = begun == same.end() ? same.front() : *begun;
    for (const auto* cell : same) {
      if (cell != trained && !is_there(cell)) out[cell->name] = trained->name;
    }
  }
  return out;
}

}  // namespace frn::cli
