#include "frn/train/config.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn::train {
namespace {

constexpr double kImagesOfLrBase = 256;  // section 4.1
constexpr double kWarmupShare = 0.05;

void must(bool holds, std::string_view key, std::string_view expected, const auto& got) {
  if (!holds) throw Error("train", fmt::format("{} must be {} but is {}", key, expected, got));
}

void at_least(int64_t least, std::string_view key, int64_t value) {
  must(value >= least, key, fmt::format("at least {}", least), value);
}

void one_of(std::string_view key, const std::string& value, const std::vector<std::string_view>& known) {
  for (const auto word : known) {
    if (word == value) return;
  }
  throw Error("train",
              fmt::format("{} must be one of {} but is '{}'{}", key, join(known), value, suggestion(value, known)));
}

void check_counts(const TrainConfig& config) {
  at_least(0, "image_size", config.image_size);
  at_least(1, "batch_per_device", config.batch_per_device);
  at_least(1, "devices", config.devices);
  at_least(1, "accumulate", config.accumulate);
  at_least(0, "images_at_once", config.images_at_once);
  at_least(0, "steps", config.steps);
  at_least(-1, "warmup_steps", config.warmup_steps);
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

void check_numbers(const TrainConfig& config) {
  must(std::isfinite(config.epochs) && config.epochs > 0, "epochs", "more than 0", config.epochs);
  must(std::isfinite(config.lr_base) && config.lr_base >= 0, "lr_base", "0 or more", config.lr_base);
  must(config.momentum >= 0 && config.momentum < 1, "momentum", "from 0 to below 1", config.momentum);
  must(std::isfinite(config.weight_decay) && config.weight_decay >= 0, "weight_decay", "0 or more",
       config.weight_decay);
  must(config.label_smoothing >= 0 && config.label_smoothing < 1, "label_smoothing", "from 0 to below 1",
       config.label_smoothing);
  must(config.dropout == -1 || (config.dropout >= 0 && config.dropout < 1), "dropout",
       "from 0 to below 1, or -1 for the model's own", config.dropout);
  must(std::isfinite(config.clip_gradient_norm) && config.clip_gradient_norm >= 0, "clip_gradient_norm",
       "0 (off) or more", config.clip_gradient_norm);
  must(config.timeout >= 1 && config.timeout <= 1e6, "timeout", "from 1 to 1e6 seconds", config.timeout);
  must(config.ema_decay >= 0 && config.ema_decay < 1, "ema_decay", "from 0 (off) to below 1", config.ema_decay);
  must(config.lr_drop_factor > 0 && config.lr_drop_factor <= 1, "lr_drop_factor", "above 0 and at most 1",
       config.lr_drop_factor);
  for (const double drop : config.lr_drops) must(drop > 0 && drop < 1, "lr_drops", "shares between 0 and 1", drop);
}

}  // namespace

double TrainConfig::lr_peak() const { return lr_base * static_cast<double>(batch_global()) / kImagesOfLrBase; }

std::vector<Setting> settings_of(TrainConfig& c) {
  constexpr bool kFree = true;
  return {
      {"model", "a network of frn info models", &c.model},
      {"norm", "norm and activation, as frn info norms lists them", &c.norm},
      {"data", "fashion-mini, cifar10:DIR, cifar100:DIR, idx:DIR, imagefolder:DIR, random", &c.data, kFree},
      {"weights", "a safetensors file to start from; what does not fit is an error", &c.weights},
      {"image_size", "height and width that the network sees; 0: the data's own", &c.image_size},
      {"augmentation", "auto (the data's own), none, pad-crop-flip, inception", &c.augmentation},
      {"colour", "distort colours: auto (with inception), on, off", &c.colour},
      {"last_batch", "an epoch's last, smaller batch: drop, or keep (cut to a multiple of the devices)", &c.last_batch},
      {"batch_per_device", "images per device and step", &c.batch_per_device},
      {"devices", "virtual devices: batch methods take their statistics on each", &c.devices},
      {"accumulate", "micro-batches per update", &c.accumulate},
      {"images_at_once", "images in the network at a time, in whole devices; 0: all", &c.images_at_once, kFree},
      {"epochs", "passes over the training set", &c.epochs},
      {"steps", "updates, instead of epochs; 0: epochs count", &c.steps},
      {"lr_base", "learning rate for 256 images: lr_peak = lr_base*batch_global/256", &c.lr_base},
      {"schedule", "cosine, step, constant", &c.schedule},
      {"warmup_steps", "steps of cosine warm-up from 0; -1: 5 % of the steps", &c.warmup_steps},
      {"lr_drops", "schedule step: shares of the steps after which the rate drops", &c.lr_drops},
      {"lr_drop_factor", "schedule step: what the rate is multiplied by", &c.lr_drop_factor},
      {"momentum", "of SGD", &c.momentum},
      {"weight_decay", "on weights of convolutions and linear layers", &c.weight_decay},
      {"decay_norms", "weight decay on parameters of norms and activations too", &c.decay_norms},
      {"decay_biases", "weight decay on biases too", &c.decay_biases},
      {"label_smoothing", "share of the truth spread over all classes", &c.label_smoothing},
      {"dropout", "share of units dropped before the classifier; -1: the model's own", &c.dropout},
      {"clip_gradient_norm", "largest norm of the gradient; 0: no bound", &c.clip_gradient_norm},
      {"ema_decay", "moving average of the weights, which is then what is validated; 0: none", &c.ema_decay},
      {"device", "cpu, cuda (a GPU per process; the program must be built with CUDA)", &c.device},
      {"autocast", "none, bfloat16", &c.autocast},
      {"layout", "channels-last, contiguous", &c.layout},
      {"seed", "of weights, order, augmentation and dropout", &c.seed},
      {"max_steps", "stop after this step, as if interrupted; 0: never", &c.max_steps, kFree},
      {"threads", "threads of the network; 0: all processors. Other numbers round sums differently", &c.threads, kFree},
      {"workers", "threads that prepare images; 0: none of their own", &c.workers, kFree},
      {"log_every", "steps between lines of the log; 0: 200 lines a run", &c.log_every},
      {"validate_every", "steps between validations; 0: an epoch", &c.validate_every, kFree},
      {"layers_every", "steps between reports of activation scales and clipped shares; 0: none", &c.layers_every,
       kFree},
      {"checkpoint_every", "steps between checkpoints; 0: an epoch", &c.checkpoint_every, kFree},
      {"checkpoints_kept", "the last so many are kept", &c.checkpoints_kept, kFree},
      {"broken_limit", "unreadable images that end a run when there are more", &c.broken_limit, kFree},
      {"timeout", "seconds a process waits for the others before it names who does not answer", &c.timeout, kFree},
  };
}

void check(const TrainConfig& config) {
  check_counts(config);
  check_numbers(config);
  one_of("augmentation", config.augmentation, {"auto", "none", "pad-crop-flip", "inception"});
  one_of("colour", config.colour, {"auto", "on", "off"});
  one_of("last_batch", config.last_batch, {"drop", "keep"});
  one_of("schedule", config.schedule, {"cosine", "step", "constant"});
  one_of("device", config.device, {"cpu", "cuda"});
  one_of("autocast", config.autocast, {"none", "bfloat16"});
  one_of("layout", config.layout, {"channels-last", "contiguous"});
}

Schedule schedule_of(const TrainConfig& config, int64_t batches_per_epoch) {
  Schedule schedule;
  schedule.decay = config.schedule == "cosine" ? Decay::kCosine
                   : config.schedule == "step" ? Decay::kStep
                                               : Decay::kConstant;
  schedule.lr_peak = config.lr_peak();
  schedule.steps = config.steps > 0
                       ? config.steps
                       : std::max<int64_t>(1, std::llround(config.epochs * static_cast<double>(batches_per_epoch)));
  schedule.warmup_steps =
      config.warmup_steps >= 0 ? config.warmup_steps : std::llround(kWarmupShare * static_cast<double>(schedule.steps));
  schedule.drops = config.lr_drops;
  schedule.drop_factor = config.lr_drop_factor;
  return schedule;
}

}  // namespace frn::train
