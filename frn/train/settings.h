// How a run is trained, whatever its model, data and task: what Trainer takes from a program, and what TrainConfig adds
// names to. A plain value; no torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "frn/train/schedule.h"

namespace frn::train {

enum class DeviceKind { kCpu, kCuda };
enum class Autocast { kNone, kBfloat16 };
enum class Layout { kChannelsLast, kContiguous };
enum class Memory { kAuto, kLeast, kFast };
enum class LastBatch { kDrop, kKeep };
enum class OptimizerKind { kSgd, kAdamW };

inline constexpr double kSgdRate = 0.1;
inline constexpr double kAdamWRate = 1e-3;

struct TrainSettings {
  // Batch and devices
  int64_t batch_per_device = 32;
  int64_t devices = 1;         // of all processes together; 1 with several processes: one per process
  int64_t accumulate = 1;      // batches whose gradients are added up for one update
  int64_t images_at_once = 0;  // that pass through the network at a time; 0: all of a batch
  LastBatch last_batch = LastBatch::kDrop;
  DeviceKind device = DeviceKind::kCpu;
  Autocast autocast = Autocast::kNone;
  Layout layout = Layout::kChannelsLast;
  Memory memory = Memory::kAuto;
  int64_t threads = 0;   // of the processor; 0: as they are
  double timeout = 600;  // seconds to wait for other processes

  // Schedule
  double epochs = 30;
  std::optional<int64_t> steps{};   // none: as many as the epochs have
  std::optional<double> lr_base{};  // for lr_images images; none: kSgdRate or kAdamWRate, by the optimizer
  double lr_images = 256;           // section 4.1; detectors: 64 (section 4.2)
  Decay schedule = Decay::kCosine;
  std::optional<int64_t> warmup_steps{};  // none: warmup_share of the steps
  double warmup_share = 0.05;
  std::vector<double> lr_drops{0.33, 0.67, 0.9};
  double lr_drop_factor = 0.1;

  // Optimizer
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double momentum = 0.9;
  bool nesterov = false;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;
  double weight_decay = 1e-4;
  bool decay_norms = false;
  bool decay_biases = false;
  double clip_gradient_norm = 0;  // 0: no limit
  double ema_decay = 0;           // 0: no moving average

  int64_t seed = 0;
  int64_t max_steps = 0;  // stop after so many, as if interrupted; 0: never

  // Loading, logs, checkpoints
  int64_t workers = 1;
  int64_t broken_limit = 100;    // unreadable samples that are passed over; one more ends the run
  int64_t log_every = 0;         // 0: 200 times in a run
  int64_t validate_every = 0;    // 0: every epoch
  int64_t layers_every = 0;      // 0: never
  int64_t checkpoint_every = 0;  // 0: every epoch
  int64_t checkpoints_kept = 3;

  int64_t batch_global() const { return batch_per_device * devices * accumulate; }
  // What lr_base is when nobody says.
  double default_rate() const { return optimizer == OptimizerKind::kSgd ? kSgdRate : kAdamWRate; }
  double lr_peak() const;  // lr_base*batch_global/lr_images
  bool bfloat16() const { return autocast == Autocast::kBfloat16; }
  bool channels_last() const { return layout == Layout::kChannelsLast; }
};

// Throws frn::Error for the first value that cannot be: "[train] batch_per_device must be ...".
void check(const TrainSettings& settings);

// The steps and the rate of every step, for a set with so many batches per epoch.
Schedule schedule_of(const TrainSettings& settings, int64_t batches_per_epoch);

}  // namespace frn::train
