#include "frn/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "frn/core/error.h"

namespace frn::train {
namespace {

// Section 4.2 of the paper: 125,000 steps of 64 images, rate for 64; 2,000 steps of warm-up in the configuration of
// TensorFlow's Object Detection API that its numbers fit.
constexpr double kDetectorSteps = 125'000;
constexpr double kDetectorImages = 64;
constexpr double kDetectorWarmup = 2'000;
constexpr double kCocoImages = 118'287;
constexpr double kMostEpochs = 1e6;  // times batches, these still are a number of steps

void must(bool holds, std::string_view key, std::string_view expected, const auto& got) {
  if (!holds) throw Error("train", fmt::format("{} must be {} but is {}", key, expected, got));
}

void at_least(int64_t least, std::string_view key, int64_t value) {
  must(value >= least, key, fmt::format("at least {}", least), value);
}

void check_counts(const TrainSettings& config) {
  at_least(1, "batch_per_device", config.batch_per_device);
  at_least(1, "devices", config.devices);
  at_least(1, "accumulate", config.accumulate);
  at_least(0, "images_at_once", config.images_at_once);
  if (config.steps) at_least(1, "steps", *config.steps);
  if (config.warmup_steps) at_least(0, "warmup_steps", *config.warmup_steps);
  at_least(0, "max_steps", config.max_steps);
  at_least(0, "threads", config.threads);
  at_least(0, "workers", config.workers);
  at_least(0, "log_every", config.log_every);
  at_least(0, "validate_every", config.validate_every);
  at_least(0, "layers_every", config.layers_every);
  at_least(0, "checkpoint_every", config.checkpoint_every);
  at_least(1, "checkpoints_kept", config.checkpoints_kept);
  at_least(0, "broken_limit", config.broken_limit);
  at_least(0, "seed", config.seed);
  if (config.images_at_once > 0 && config.images_at_once < config.batch_per_device) {
    throw Error("train", fmt::format("images_at_once must hold at least one device's batch, {} images, but is {}; a "
                                     "smaller batch_per_device with accumulate needs less memory",
                                     config.batch_per_device, config.images_at_once));
  }
}

void check_numbers(const TrainSettings& config) {
  must(config.epochs > 0 && config.epochs <= kMostEpochs, "epochs", "more than 0 and at most 1e6", config.epochs);
  must(!config.lr_base || (std::isfinite(*config.lr_base) && *config.lr_base >= 0), "lr_base", "0 or more",
       config.lr_base.value_or(0));
  must(config.momentum >= 0 && config.momentum < 1, "momentum", "from 0 to below 1", config.momentum);
  must(std::isfinite(config.weight_decay) && config.weight_decay >= 0, "weight_decay", "0 or more",
       config.weight_decay);
  must(config.adam_beta1 >= 0 && config.adam_beta1 < 1, "adam_beta1", "from 0 to below 1", config.adam_beta1);
  must(config.adam_beta2 >= 0 && config.adam_beta2 < 1, "adam_beta2", "from 0 to below 1", config.adam_beta2);
  must(std::isfinite(config.adam_eps) && config.adam_eps > 0, "adam_eps", "more than 0", config.adam_eps);
  if (config.nesterov && config.momentum == 0) {
    throw Error("train", "nesterov must come with a momentum above 0 but momentum is 0");
  }
  must(std::isfinite(config.clip_gradient_norm) && config.clip_gradient_norm >= 0, "clip_gradient_norm",
       "0 (off) or more", config.clip_gradient_norm);
  must(config.timeout >= 1 && config.timeout <= 1e6, "timeout", "from 1 to 1e6 seconds", config.timeout);
  must(config.ema_decay >= 0 && config.ema_decay < 1, "ema_decay", "from 0 (off) to below 1", config.ema_decay);
  must(std::isfinite(config.lr_images) && config.lr_images > 0, "lr_images", "more than 0", config.lr_images);
  must(config.warmup_share >= 0 && config.warmup_share <= 1, "warmup_share", "from 0 to 1", config.warmup_share);
  must(config.lr_drop_factor > 0 && config.lr_drop_factor <= 1, "lr_drop_factor", "above 0 and at most 1",
       config.lr_drop_factor);
  for (const double drop : config.lr_drops) must(drop > 0 && drop < 1, "lr_drops", "shares between 0 and 1", drop);
}

}  // namespace

double TrainSettings::lr_peak() const {
  return lr_base.value_or(default_rate()) * static_cast<double>(batch_global()) / lr_images;
}

namespace {

constexpr std::array<std::string_view, 8> kOfDetectors{
    "style",      "backbone",        "he_initialisation", "loss_normaliser",
    "drop_crowd", "score_threshold", "nms_threshold",     "detections_per_image"};
constexpr std::array<std::string_view, 2> kOfClassifiers{"label_smoothing", "dropout"};

bool is_in(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

bool is_general(std::string_view key) {
  static constexpr std::array<std::string_view, 9> kOfConfig{
      "model",      "norm",         "data",   "weights",        "weights_standardised",
      "image_size", "augmentation", "colour", "evaluation_crop"};
  return !is_in(kOfConfig, key) && !is_in(kOfDetectors, key) && !is_in(kOfClassifiers, key);
}

TrainConfig detector_defaults(OptimizerKind optimizer) {
  TrainConfig config;
  config.optimizer = optimizer;
  if (optimizer == OptimizerKind::kSgd) config.lr_base = 0.05;  // the middle of the three that the paper tries
  config.lr_images = kDetectorImages;
  config.warmup_share = kDetectorWarmup / kDetectorSteps;
  config.epochs = std::round(10 * kDetectorSteps * kDetectorImages / kCocoImages) / 10;
  config.weight_decay = 4e-4;
  return config;
}

std::vector<IdleSetting> idle_settings(const TrainConfig& config, bool detects) {
  std::vector<IdleSetting> out;
  for (const auto key : detects ? std::span<const std::string_view>(kOfClassifiers) : kOfDetectors) {
    out.push_back({key, "model", config.model, detects ? "the name of a classifier" : "the name of a detector"});
  }
  if (config.schedule != Decay::kStep) {
    const auto* const is = config.schedule == Decay::kCosine ? "cosine" : "constant";
    for (const auto* key : {"lr_drops", "lr_drop_factor"}) out.push_back({key, "schedule", is, "step"});
  }
  if (config.optimizer == OptimizerKind::kSgd) {
    for (const auto* key : {"adam_beta1", "adam_beta2", "adam_eps"}) out.push_back({key, "optimizer", "sgd", "adamw"});
  } else {
    for (const auto* key : {"momentum", "nesterov"}) out.push_back({key, "optimizer", "adamw", "sgd"});
  }
  if (config.steps) out.push_back({"epochs", "steps", std::to_string(*config.steps), "0"});
  if (config.weight_decay == 0) {
    for (const auto* key : {"decay_norms", "decay_biases"}) out.push_back({key, "weight_decay", "0", "more than 0"});
  }
  return out;
}

void check_devices(const TrainSettings& settings, int64_t processes, bool resumed) {
  if (settings.devices % processes == 0) return;
  throw Error("train",
              fmt::format("devices must be a multiple of the {} processes but is {}{}", processes, settings.devices,
                          resumed ? ", which a resumed run keeps; go on with a number of processes that divides it"
                                  : "; change one of the two"));
}

void check(const TrainSettings& settings) {
  check_counts(settings);
  check_numbers(settings);
}

void check(const TrainConfig& config) {
  check(static_cast<const TrainSettings&>(config));
  if (config.image_size) at_least(1, "image_size", *config.image_size);
  must(config.label_smoothing >= 0 && config.label_smoothing < 1, "label_smoothing", "from 0 to below 1",
       config.label_smoothing);
  must(!config.dropout || (*config.dropout >= 0 && *config.dropout < 1), "dropout",
       "from 0 to below 1, or -1 for the model's own", config.dropout.value_or(0));
  must(config.evaluation_crop >= 0 && config.evaluation_crop <= 1, "evaluation_crop", "from 0 (off) to 1",
       config.evaluation_crop);
  const auto share_or_none = [](std::string_view key, const std::optional<double>& value) {
    must(!value || (*value >= 0 && *value < 1), key, "from 0 to below 1, or -1 for the style's own", value.value_or(0));
  };
  share_or_none("score_threshold", config.score_threshold);
  share_or_none("nms_threshold", config.nms_threshold);
  if (config.detections_per_image) at_least(1, "detections_per_image", *config.detections_per_image);
}

Schedule schedule_of(const TrainSettings& settings, int64_t batches_per_epoch) {
  Schedule schedule;
  schedule.decay = settings.schedule;
  schedule.lr_peak = settings.lr_peak();
  const auto by_epochs = std::llround(settings.epochs * static_cast<double>(batches_per_epoch));
  schedule.steps = settings.steps.value_or(std::max<int64_t>(1, by_epochs));
  schedule.warmup_steps =
      settings.warmup_steps.value_or(std::llround(settings.warmup_share * static_cast<double>(schedule.steps)));
  schedule.drops = settings.lr_drops;
  schedule.drop_factor = settings.lr_drop_factor;
  return schedule;
}

}  // namespace frn::train
