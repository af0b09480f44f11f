// The loop: batches in, updates, and at chosen steps a line in the log, a validation, a checkpoint. Trainer is for a
// program's own model, task and data; train() for what the tables of this library name, as `frn train` does.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "frn/core/run_rows.h"
#include "frn/dist/group.h"
#include "frn/train/config.h"
#include "frn/train/evaluate.h"
#include "frn/train/optimizer.h"
#include "frn/train/run_folder.h"
#include "frn/train/task.h"

namespace frn::train {

// What is known once data and model are there.
struct RunPlan {
  int64_t steps = 0;
  int64_t first_step = 0;  // 0, or where a resumed run goes on
  int64_t batches_per_epoch = 0;
  int64_t samples = 0;
  int64_t validation_samples = 0;
  int64_t classes = 0;
  int64_t parameters = 0;
  Schedule schedule;
  std::vector<Metric> metrics;           // of validations, the first decides which is the best
  std::vector<Metric> training_metrics;  // of lines of training
};

// How a run tells what happens; every function may be left empty.
struct TrainerEvents {
  std::function<void(const RunPlan&)> planned = [](const RunPlan&) {};
  std::function<void(int64_t step)> stepped = [](int64_t) {};
  std::function<void(const TrainRow&)> trained = [](const TrainRow&) {};
  std::function<void(const ValidationRow&)> validated = [](const ValidationRow&) {};
  std::function<void(const std::string&)> warned = [](const std::string&) {};
};

// A line of the log may speak for a few steps; the training accuracy of a finished run for at least so many images.
inline constexpr int64_t kImagesAtTheEnd = 2000;

enum class Status { kFinished, kInterrupted, kDiverged };
std::string_view status_name(Status status);

struct Outcome {
  Status status = Status::kFinished;
  int64_t step = 0;
  std::optional<TrainRow> train;            // over the last kImagesAtTheEnd of training and what came with them
  std::optional<ValidationRow> validation;  // the last one
  std::optional<ValidationRow> best;        // by the task's first metric
  double seconds = 0;                       // spent on training, of all sittings
  std::string message;                      // of a run that diverged: step, rate, layer, what to try
};

// Never true.
const std::atomic<bool>& never();

struct TrainerOptions : TrainSettings {
  std::filesystem::path out;  // the run's folder: new or empty, or one with a run of the same settings, which goes on
  TrainerEvents events{};
  // How images become tensors, for sets that give images; none: as is usual for the set (data::SetFacts), the
  // validation set without random changes.
  std::optional<data::Pipeline> training_pipeline{};
  std::optional<data::Pipeline> validation_pipeline{};
  // Made from the model's parameters; empty: SGD or AdamW by the settings. For an optimiser of torch's own:
  //   [&](const torch::nn::Module& model) { return wrap_optimizer(std::make_shared<torch::optim::Adam>(...)); }
  std::function<std::unique_ptr<Optimizer>(const torch::nn::Module&)> make_optimizer{};
  // Processes that train together; null: those that torchrun, Slurm or MPI started, or this one alone.
  std::shared_ptr<dist::Group> group = nullptr;
};

// Trains a model of one's own: any torch::nn module, data::Dataset and Task. What `frn train` has is there for it:
// virtual devices, accumulation, data parallel over processes, moving averages, logs that `frn report` draws, and
// checkpoints from which a killed run goes on to bitwise the same weights (with as many threads; a dropout of torch's
// own draws from torch's generator, which is set for every step and given back to the caller afterwards).
//
// Batch norms of this library keep virtual devices apart; torch's own see all that goes through the network at once
// (images_at_once = batch_per_device keeps them apart too).
//
// The weights change in place, so the model is trained after run(). Throws frn::Error for what a person has to mend.
class Trainer {
 public:
  // Nothing is done yet. `validation_set` may be null: then nothing is validated.
  Trainer(Network network, std::shared_ptr<const Task> task, std::shared_ptr<const data::Dataset> training_set,
          std::shared_ptr<const data::Dataset> validation_set, TrainerOptions options);

  // From the start or the newest whole checkpoint in options.out to the last step, or until `stop` is set: then it ends
  // after the step at hand, with a checkpoint. With several processes every one of them calls it.
  Outcome run(const std::atomic<bool>& stop = never());

 private:
  Network network_;
  std::shared_ptr<const Task> task_;
  std::shared_ptr<const data::Dataset> training_set_, validation_set_;
  TrainerOptions options_;
};

// Trains by the settings, in a folder that is started with them or holds a run with them. What cannot begin leaves no
// folder. A folder with checkpoints goes on from the newest whole one, to bitwise
// the same weights as a run that was never interrupted (with as many threads). `stop` ends it after the step at hand
// with a checkpoint. Throws frn::Error for what a person has to mend; the folder can then be resumed.
//
// With a group, every rank calls it with the same settings; config.devices counts the devices of all ranks, which share
// them evenly. Rank 0 alone reads and writes the folder, and its events are told; warnings are told on every rank.
// Without one the group is what the environment names (dist::read_place), with the config's timeout and device.
Outcome train(const RunFolder& folder, const TrainConfig& config, const TrainerEvents& events,
              const std::atomic<bool>& stop = never(), std::shared_ptr<dist::Group> group = nullptr);

}  // namespace frn::train
