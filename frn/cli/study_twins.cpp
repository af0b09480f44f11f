#include "frn/cli/study_twins.h"

#include "frn/cli/study_plan.h"
#include "frn/models/model.h"
#include "frn/nn/norm_act_spec.h"

namespace frn::cli {
namespace {

// Whether it does not matter to a training which images share a device.
bool sees_single_images(const train::TrainConfig& config) {
  const bool losses_do = !find_model(config.model).detects || config.loss_normaliser != train::LossNormaliser::kDevice;
  return losses_do && !NormActSpec::parse(config.norm).norm().batch_method;
}

}  // namespace

std::string training_of(const study::Cell& cell) {
  auto config = config_of(cell);
  if (sees_single_images(config) && config.last_batch == train::LastBatch::kDrop) {
    config.images_at_once = images_at_once(config);
    config.batch_per_device *= config.devices;
    config.devices = 1;
  }
  return train::to_toml(config);
}

}  // namespace frn::cli
