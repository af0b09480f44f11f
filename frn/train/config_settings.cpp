// The list of settings, a function per group of the help.
#include <optional>

#include "frn/train/config.h"

namespace frn::train {
namespace {

// An enum by its words, which stand in the order of its values.
template <typename Enum>
Setting::Word word(Enum& value) {
  return {[&value] { return static_cast<size_t>(value); }, [&value](size_t i) { value = static_cast<Enum>(i); }};
}

// The first word stands for a value that is missing.
template <typename T>
Setting::Word word_or_auto(std::optional<T>& value) {
  return {[&value] { return value ? 1 + static_cast<size_t>(*value) : 0; },
          [&value](size_t i) { value = i == 0 ? std::nullopt : std::optional(static_cast<T>(i - 1)); }};
}

std::vector<Setting> data_settings(TrainConfig& c) {
  return {
      {.key = "data",
       .help = "training and validation images: fashion-mini (built in), cifar10:DIR, cifar100:DIR, idx:DIR, "
               "imagefolder:DIR, coco:DIR, voc:DIR, shapes (made), or random (noise); `frn info data` says more",
       .value = &c.data,
       .value_name = "KIND:DIR",
       .free_on_resume = true},
      {.key = "image_size",
       .help = "height and width, in pixels, at which the network sees the images",
       .value = Setting::MaybeWhole{&c.image_size, 0},
       .default_text = "the data's own size"},
      {.key = "augmentation",
       .help = "random changes of training images; auto: what is usual for the kind of data",
       .value = word_or_auto(c.augmentation),
       .choices = {"auto", "none", "pad-crop-flip", "inception", "detection"}},
      {.key = "colour",
       .help = "distort the colours of training images; auto: when the augmentation is inception. Grey images stay as "
               "they are",
       .value = word_or_auto(c.colour),
       .choices = {"auto", "off", "on"}},
      {.key = "evaluation_crop",
       .help =
           "share of the shorter side that validation and `frn eval` see, as a square in the middle (torchvision and "
           "timm: 0.875); 0: the whole image, squashed to a square",
       .value = &c.evaluation_crop},
      {.key = "last_batch",
       .help = "what happens to the last batch of an epoch when it is smaller than the others; keep cuts it to a "
               "multiple of --devices",
       .value = word(c.last_batch),
       .choices = {"drop", "keep"}},
      {.key = "workers",
       .help = "threads that load and augment images; 0: the training thread does it",
       .value = &c.workers,
       .free_on_resume = true},
      {.key = "broken_limit",
       .help = "unreadable images that are skipped; one more stops the run",
       .value = &c.broken_limit,
       .free_on_resume = true},
  };
}

std::vector<Setting> model_settings(TrainConfig& c) {
  return {
      {.key = "model", .help = "the network; `frn info models` lists them", .value = &c.model},
      {.key = "norm",
       .help = "normalisation and activation of its layers, such as frn+tlu or bn+relu; `frn info norms` lists them",
       .value = &c.norm},
      {.key = "weights_standardised",
       .help = "standardise the weights of convolutions where they are used: off, plain (mean 0, deviation 1), scaled "
               "(divided by the root of the fan-in) or gain (scaled, times a learned gain per filter); plain(eps=1e-8) "
               "for another eps than 1e-6",
       .value = &c.weights_standardised,
       .value_name = "FORM"},
      {.key = "weights",
       .help = "safetensors file with the weights to start from; it must fit the network",
       .value = &c.weights,
       .default_text = "random weights",
       .value_name = "FILE"},
      {.key = "dropout",
       .help = "share of units dropped before the classifier",
       .value = Setting::MaybeNumber{&c.dropout, -1},
       .default_text = "the model's own"},
  };
}

std::vector<Setting> detection_settings(TrainConfig& c) {
  return {
      {.key = "style",
       .help = "constants of a detector: the paper's, or those of torchvision's RetinaNet",
       .value = word(c.style),
       .choices = {"paper", "torchvision"}},
      {.key = "backbone",
       .help = "weights to start a detector's backbone from: a safetensors file of a classifier (resnetv1-50 for "
               "retinanet-r50), or the folder of its run",
       .value = &c.backbone,
       .default_text = "random weights",
       .value_name = "FILE"},
      {.key = "he_initialisation",
       .help = "start a detector's backbone and pyramid with He's random weights instead of the style's own",
       .value = &c.he_initialisation},
      {.key = "loss_normaliser",
       .help =
           "what losses are divided by: the positive anchors of a device (the paper), of the whole step, or of each "
           "image (torchvision)",
       .value = word(c.loss_normaliser),
       .choices = {"device", "step", "image"}},
      {.key = "drop_crowd",
       .help = "leave boxes of crowds out of training; else they train as ordinary ones",
       .value = &c.drop_crowd},
      {.key = "score_threshold",
       .help = "detections have a score above this",
       .value = Setting::MaybeNumber{&c.score_threshold, -1},
       .default_text = "1e-8; torchvision's style: 0.05"},
      {.key = "nms_threshold",
       .help = "of two detections of a class with an IoU above this, the one of the lower score goes",
       .value = Setting::MaybeNumber{&c.nms_threshold, -1},
       .default_text = "0.6; torchvision's style: 0.5"},
      {.key = "detections_per_image",
       .help = "detections of an image, best first",
       .value = Setting::MaybeWhole{&c.detections_per_image, 0},
       .default_text = "100; torchvision's style: 300"},
  };
}

std::vector<Setting> device_settings(TrainConfig& c) {
  return {
      {.key = "batch_per_device",
       .help = "images per device and step; batch norm takes its statistics over them",
       .value = &c.batch_per_device},
      {.key = "devices",
       .help = "devices of all processes together, a multiple of the processes. Several devices in one process are "
               "simulated: batch norm keeps their statistics apart",
       .value = &c.devices,
       .default_text = "one per process"},
      {.key = "accumulate",
       .help = "batches whose gradients are added up for one update of the weights",
       .value = &c.accumulate},
      {.key = "images_at_once",
       .help = "to save memory: images that pass through the network at a time, at least --batch-per-device",
       .value = &c.images_at_once,
       .default_text = "all images of a batch",
       .free_on_resume = true},
      {.key = "device",
       .help = "what a process computes on; cuda: one GPU per process, in a program that was built with CUDA",
       .value = word(c.device),
       .choices = {"cpu", "cuda"}},
      {.key = "autocast",
       .help = "number type of convolutions and matrix products (mixed precision); none: float32",
       .value = word(c.autocast),
       .choices = {"none", "bfloat16"}},
      {.key = "layout",
       .help = "memory layout of images and weights",
       .value = word(c.layout),
       .choices = {"channels-last", "contiguous"}},
      {.key = "memory",
       .help =
           "least: what a norm gives is not kept for the convolutions that read it but computed again for their "
           "gradients; fast: it is kept; auto: least where it costs little, so not for batch norm. The weights come "
           "out the same",
       .value = word(c.memory),
       .choices = {"auto", "least", "fast"},
       .free_on_resume = true},
      {.key = "threads",
       .help = "processor threads of the network; another number rounds sums differently",
       .value = &c.threads,
       .default_text = "all processors, shared by the processes of this machine",
       .free_on_resume = true},
      {.key = "timeout",
       .help = "with several processes: seconds to wait for the others before reporting which one does not answer",
       .value = &c.timeout,
       .free_on_resume = true},
  };
}

std::vector<Setting> schedule_settings(TrainConfig& c) {
  return {
      {.key = "epochs",
       .help = "passes over the training set; without effect when --steps is given",
       .value = &c.epochs,
       .default_text = "30; detectors: 67.6, as in the paper"},
      {.key = "steps",
       .help = "updates of the weights, in place of --epochs",
       .value = Setting::MaybeWhole{&c.steps, 0},
       .default_text = "what --epochs amounts to"},
      {.key = "lr_base",
       .help = "learning rate for --lr-images; the highest rate of a run is this times the images per update / "
               "--lr-images",
       .value = Setting::MaybeNumber{&c.lr_base, c.default_rate(), false},
       .default_text = "0.1 for sgd, 0.001 for adamw; detectors: 0.05 for sgd"},
      {.key = "lr_images",
       .help = "images per update that --lr-base is meant for",
       .value = &c.lr_images,
       .default_text = "256; detectors: 64"},
      {.key = "schedule",
       .help = "how the learning rate falls after warm-up",
       .value = word(c.schedule),
       .choices = {"cosine", "step", "constant"}},
      {.key = "warmup_steps",
       .help = "steps in which the learning rate rises from 0, along a cosine",
       .value = Setting::MaybeWhole{&c.warmup_steps, -1},
       .default_text = "--warmup-share of the steps"},
      {.key = "warmup_share",
       .help = "warm-up as a share of all steps, where --warmup-steps is not given",
       .value = &c.warmup_share,
       .default_text = "0.05; detectors: 0.016"},
      {.key = "lr_drops",
       .help = "only with --schedule step: shares of the steps after which the learning rate drops",
       .value = &c.lr_drops},
      {.key = "lr_drop_factor",
       .help = "only with --schedule step: what each drop multiplies the learning rate by",
       .value = &c.lr_drop_factor},
      {.key = "optimizer",
       .help = "how gradients change the weights: sgd with momentum, as in the paper, or adamw",
       .value = word(c.optimizer),
       .choices = {"sgd", "adamw"}},
      {.key = "momentum", .help = "only with --optimizer sgd: momentum", .value = &c.momentum},
      {.key = "nesterov", .help = "only with --optimizer sgd: Nesterov's momentum", .value = &c.nesterov},
      {.key = "adam_beta1",
       .help = "only with --optimizer adamw: decay of the mean of gradients",
       .value = &c.adam_beta1},
      {.key = "adam_beta2",
       .help = "only with --optimizer adamw: decay of the mean of squared gradients",
       .value = &c.adam_beta2},
      {.key = "adam_eps",
       .help = "only with --optimizer adamw: added to the root of the mean square",
       .value = &c.adam_eps},
      {.key = "weight_decay",
       .help = "weight decay of the weights of convolutions and linear layers",
       .value = &c.weight_decay,
       .default_text = "0.0001; detectors: 0.0004"},
      {.key = "decay_norms",
       .help = "apply the weight decay to the parameters of norms and activations too",
       .value = &c.decay_norms},
      {.key = "decay_biases", .help = "apply the weight decay to biases too", .value = &c.decay_biases},
      {.key = "label_smoothing",
       .help = "share of each label that is spread evenly over all classes",
       .value = &c.label_smoothing},
      {.key = "clip_gradient_norm",
       .help = "scale a larger gradient down to this norm",
       .value = &c.clip_gradient_norm,
       .default_text = "no limit"},
      {.key = "ema_decay",
       .help = "decay of a moving average of the weights, such as 0.999; the averaged weights are then validated",
       .value = &c.ema_decay,
       .default_text = "no average"},
      {.key = "seed",
       .help = "seed of the initial weights, the order of images, augmentation and dropout",
       .value = &c.seed},
  };
}

std::vector<Setting> output_settings(TrainConfig& c) {
  return {
      {.key = "log_every",
       .help = "steps between lines of log.jsonl",
       .value = &c.log_every,
       .default_text = "200 lines in a run"},
      {.key = "validate_every",
       .help = "steps between validations",
       .value = &c.validate_every,
       .default_text = "one epoch",
       .free_on_resume = true},
      {.key = "layers_every",
       .help =
           "steps between records of each norm's output: its scale and the share of units that the activation clips",
       .value = &c.layers_every,
       .default_text = "never",
       .free_on_resume = true},
      {.key = "checkpoint_every",
       .help = "steps between checkpoints",
       .value = &c.checkpoint_every,
       .default_text = "one epoch",
       .free_on_resume = true},
      {.key = "checkpoints_kept",
       .help = "number of newest checkpoints to keep",
       .value = &c.checkpoints_kept,
       .free_on_resume = true},
      {.key = "max_steps",
       .help = "stop after this step, as if interrupted",
       .value = &c.max_steps,
       .default_text = "train to the end",
       .free_on_resume = true},
  };
}

}  // namespace

std::vector<Setting> settings_of(TrainConfig& config) {
  std::vector<Setting> out;
  const auto add = [&out](std::string_view group, std::vector<Setting> settings) {
    for (auto& setting : settings) {
      setting.group = group;
      out.push_back(std::move(setting));
    }
  };
  add("Data", data_settings(config));
  add("Model", model_settings(config));
  add("Detection (retinanet-*)", detection_settings(config));
  add("Batch, devices and precision", device_settings(config));
  add("Schedule and optimiser", schedule_settings(config));
  add("Output and checkpoints", output_settings(config));
  return out;
}

}  // namespace frn::train
