#include "frn/train/memory_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "frn/core/error.h"
#include "frn/nn/layers.h"

namespace frn::train {
namespace {

// What a convolution gives is what the norm after it keeps. In ResNetV2 it is added to the shortcut first, and the
// convolutions of shortcuts go into the same sum: an eighth of all is not kept.
constexpr double kKeptShare = 0.8;

int64_t results_of_an_image(Model& model, int64_t image_size) {
  const at::NoGradGuard no_grad;
  const bool training = model.is_training();
  model.eval();  // an auxiliary head asks for larger images
  const MultiplyAddCounter counter;
  model.forward(at::empty({1, model.options().input_channels, image_size, image_size}, at::device(at::kMeta)));
  model.train(training);
  return counter.results();
}

double bytes_of_weights(const Model& model, const TrainSettings& settings) {
  double values = 0;
  for (const auto& parameter : model.parameters()) values += static_cast<double>(parameter.numel());
  const int state = settings.optimizer == OptimizerKind::kAdamW ? 2 : settings.momentum > 0 ? 1 : 0;
  const int copies = 2 + state + (settings.ema_decay > 0 ? 1 : 0);  // weights and gradients
  return values * copies * static_cast<double>(sizeof(float));
}

double kept_by_an_image(Model& model, const TrainSettings& settings, int64_t image_size) {
  const double bytes = settings.bfloat16() ? 2 : 4;
  return kKeptShare * bytes * static_cast<double>(results_of_an_image(model, image_size));
}

int64_t images_at_once(const TrainSettings& settings, int64_t processes) {
  const int64_t all = settings.batch_per_device * std::max<int64_t>(1, settings.devices / processes);
  if (settings.images_at_once == 0) return all;
  return std::min(all, settings.images_at_once / settings.batch_per_device * settings.batch_per_device);
}

}  // namespace

int64_t least_step_bytes(Model& model, const TrainSettings& settings, int64_t image_size, int64_t processes) {
  const auto images = static_cast<double>(images_at_once(settings, processes));
  return static_cast<int64_t>(bytes_of_weights(model, settings) +
                              images * kept_by_an_image(model, settings, image_size));
}

void check_memory(Model& model, const TrainSettings& settings, int64_t image_size, int64_t processes,
                  std::optional<int64_t> free) {
  if (!free) return;
  const auto needed = least_step_bytes(model, settings, image_size, processes);
  if (needed <= *free) return;
  const double room = static_cast<double>(*free) - bytes_of_weights(model, settings);
  const auto fitting = static_cast<int64_t>(room / kept_by_an_image(model, settings, image_size));
  const int64_t images = images_at_once(settings, processes);
  std::string remedy = "take a smaller --image-size or another --model";
  if (fitting >= 1 && images > settings.batch_per_device && fitting >= settings.batch_per_device) {
    remedy = fmt::format("give --images-at-once {} or less",
                         fitting / settings.batch_per_device * settings.batch_per_device);
  } else if (fitting >= 1) {
    remedy =
        fmt::format("give a --batch-per-device of at most {}, with --accumulate for as many images in a step", fitting);
  }
  throw Error("train",
              fmt::format("a step must fit into the {:.1f} GB of memory that are free but takes at least {:.1f} "
                          "GB with {} image{} of {} px at once; {}",
                          static_cast<double>(*free) * 1e-9, static_cast<double>(needed) * 1e-9, images,
                          images == 1 ? "" : "s", image_size, remedy));
}

}  // namespace frn::train
