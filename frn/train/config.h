// The settings of a training run: one list that drives the command line, TOML files, and the resolved config.toml of a
// run directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frn/core/value.h"
#include "frn/data/augment.h"
#include "frn/detection/anchors.h"
#include "frn/train/loss_normaliser.h"
#include "frn/train/settings.h"

namespace frn::train {

// What the program trains: names of a model, a norm and a set in its tables, and how images are prepared.
struct TrainConfig : TrainSettings {
  std::string model = "resnetv2-20";
  std::string norm = "frn+tlu";
  std::string data = "fashion-mini";
  std::string weights;  // a safetensors file to start from; empty: fresh

  std::optional<int64_t> image_size;               // none: the set's own
  std::optional<data::Augmentation> augmentation;  // none: what is usual for the set
  std::optional<bool> colour;                      // none: with Inception's augmentation
  double evaluation_crop = 0;                      // 0: the whole image, squashed to a square
  std::string weights_standardised = "off";        // as WeightSpec::parse reads it
  std::optional<double> dropout;                   // none: the model's own
  double label_smoothing = 0;

  // Of detectors
  detection::Style style = detection::Style::kPaper;
  std::string backbone;            // weights of a classifier, or its run, to start the backbone from; empty: fresh
  bool he_initialisation = false;  // of fresh backbones; else the style's own
  LossNormaliser loss_normaliser = LossNormaliser::kDevice;
  bool drop_crowd = false;
  std::optional<double> score_threshold;  // none, here and below: the style's own
  std::optional<double> nms_threshold;    // IoU above which the lower of two boxes of a class goes
  std::optional<int64_t> detections_per_image;
};

// The defaults of runs that train a detector: the schedule of section 4.2, as epochs of COCO's 118,287 images, so that
// it counts for other sets and numbers of images per step.
TrainConfig detector_defaults(OptimizerKind optimizer = OptimizerKind::kSgd);

// One setting: its key in TOML (the option is --its-key), what it means, and its value in a config.
struct Setting {
  // A value that may be missing, and the number that stands for that in files and on the command line.
  struct MaybeWhole {
    std::optional<int64_t>* value;
    int64_t missing;
  };
  struct MaybeNumber {
    std::optional<double>* value;
    double missing;
    bool reads_as_missing = true;  // false: the number is the default itself, and counts as given when it is read
  };
  // One of the words of `choices`, by its place among them.
  struct Word {
    std::function<size_t()> get;
    std::function<void(size_t)> set;
  };
  using Place =
      std::variant<std::string*, int64_t*, double*, bool*, std::vector<double>*, MaybeWhole, MaybeNumber, Word>;

  std::string_view key;
  std::string_view help;  // starts in lower case; names other settings as options: "--batch-per-device"
  Place value;
  std::string_view default_text = {};  // what the default means where its value does not tell: "the data's own size"
  std::string_view value_name = {};    // stands for the value in the help of the option; empty: by type
  std::vector<std::string_view> choices = {};
  // Whether a resumed run may have another value: it changes how the run is carried out, not what comes out.
  bool free_on_resume = false;
  std::string_view group = {};  // heading in the help

  // The value as a file has it, and the way back: false when it has another type or is none of the choices.
  Value get() const;
  bool put(const Value& value) const;
};

// All settings of a config, group after group, in the order of the help. They point into the config.
std::vector<Setting> settings_of(TrainConfig& config);
// Whether a setting is TrainSettings' own, so that it counts for every Trainer.
bool is_general(std::string_view key);

// A setting that changes nothing, since `other` has the value `is`; it would with the value `instead`.
struct IdleSetting {
  std::string_view key;
  std::string_view other;
  std::string is;
  std::string_view instead;
};
// `detects`: whether the model finds boxes.
std::vector<IdleSetting> idle_settings(const TrainConfig& config, bool detects);

// Throws frn::Error unless the devices can be shared out among so many processes. `resumed`: a run that goes on, which
// keeps its devices.
void check_devices(const TrainSettings& settings, int64_t processes, bool resumed);

// Throws frn::Error for the first value that cannot be: "[train] batch_per_device must be ...".
void check(const TrainConfig& config);

// Reads keys into the config. Throws frn::Error for a file that is not TOML, an unknown key (with the nearest known
// one) or a value of another type.
void read_toml(TrainConfig& config, const std::filesystem::path& path);
// The same from a text that `source` names in messages.
void read_toml_text(TrainConfig& config, const std::string& text, const std::string& source);
// Every setting, so that the run can be repeated from it.
std::string to_toml(const TrainConfig& config);
// Those that count for every Trainer.
std::string to_toml(const TrainSettings& settings);

}  // namespace frn::train
