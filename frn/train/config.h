// The settings of a training run: one list that drives the command line, TOML files, and the resolved config.toml of a
// run directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frn/train/schedule.h"

namespace frn::train {

struct TrainConfig {
  std::string model = "resnetv2-20";
  std::string norm = "frn+tlu";
  std::string data = "fashion-mini";
  std::string weights;  // a safetensors file to start from; empty: fresh

  int64_t image_size = 0;             // 0: the data kind's
  std::string augmentation = "auto";  // auto: the data kind's
  std::string colour = "auto";        // auto: with the augmentation inception
  double evaluation_crop = 0;         // 0: the whole image, squashed to a square
  std::string last_batch = "drop";

  int64_t batch_per_device = 32;
  int64_t devices = 1;
  int64_t accumulate = 1;
  int64_t images_at_once = 0;

  double epochs = 30;
  int64_t steps = 0;  // 0: as many as the epochs have
  double lr_base = 0.1;
  std::string schedule = "cosine";
  int64_t warmup_steps = -1;  // -1: kWarmupShare of the steps
  std::vector<double> lr_drops{0.33, 0.67, 0.9};
  double lr_drop_factor = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  bool decay_norms = false;
  bool decay_biases = false;
  double label_smoothing = 0;
  double dropout = -1;  // -1: the model's own
  double clip_gradient_norm = 0;
  double ema_decay = 0;
  std::string autocast = "none";
  std::string device = "cpu";
  std::string layout = "channels-last";

  int64_t seed = 0;
  int64_t max_steps = 0;  // stop after so many, as if interrupted; 0: never

  int64_t threads = 0;  // 0: all processors
  int64_t workers = 1;
  int64_t log_every = 0;         // 0: kLogsPerRun times in a run
  int64_t validate_every = 0;    // 0: every epoch
  int64_t layers_every = 0;      // 0: never
  int64_t checkpoint_every = 0;  // 0: every epoch
  int64_t checkpoints_kept = 3;
  int64_t broken_limit = 100;
  double timeout = 600;  // seconds

  int64_t batch_global() const { return batch_per_device * devices * accumulate; }
  double lr_peak() const;  // lr_base*batch_global/256 (section 4.1)
};

// One setting: its key in TOML (the option is --its-key), what it means, and its value in a config.
struct Setting {
  using Value = std::variant<std::string*, int64_t*, double*, bool*, std::vector<double>*>;
  std::string_view key;
  std::string_view help;  // starts in lower case; names other settings as options: "--batch-per-device"
  Value value;
  std::string_view default_text = {};  // what the default means where its value does not tell: "the data's own size"
  std::string_view placeholder = {};   // stands for the value in the help of the option; empty: by type
  std::vector<std::string_view> choices = {};
  // Whether a resumed run may have another value: it changes how the run is carried out, not what comes out.
  bool free_on_resume = false;
  std::string_view group = {};  // heading in the help
};

// All settings of a config, group after group, in the order of the help.
std::vector<Setting> settings_of(TrainConfig& config);

// A setting that changes nothing, since `other` has the value `is`; it would with the value `instead`.
struct IdleSetting {
  std::string_view key;
  std::string_view other;
  std::string is;
  std::string_view instead;
};
std::vector<IdleSetting> idle_settings(const TrainConfig& config);

// Throws frn::Error for the first value that cannot be: "[train] batch_per_device must be ...".
void check(const TrainConfig& config);

// Reads keys into the config. Throws frn::Error for a file that is not TOML, an unknown key (with the nearest known
// one) or a value of another type.
void read_toml(TrainConfig& config, const std::filesystem::path& path);
// The same from a text that `source` names in messages.
void read_toml_text(TrainConfig& config, const std::string& text, const std::string& source);
// Every setting, so that the run can be repeated from it.
std::string to_toml(const TrainConfig& config);

// The steps and the rate of every step, for a set with so many batches per epoch.
Schedule schedule_of(const TrainConfig& config, int64_t batches_per_epoch);

}  // namespace frn::train
