// The loop: batches in, updates, and at chosen steps a line in the log, a validation, a checkpoint.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "frn/dist/group.h"
#include "frn/train/config.h"
#include "frn/train/evaluate.h"
#include "frn/train/layer_report.h"
#include "frn/train/run_folder.h"

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
};

struct TrainRow {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;  // these three over the steps since the row before
  double precision_at_1 = 0;
  double recall_at_5 = 0;
  double lr = 0;
  double images_per_second = 0;  // with the wait for data
  double wait_share = 0;         // of the time, spent waiting for data
  double gradient_norm = 0;
  int64_t samples = 0;  // in those steps
};

struct ValidationRow {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  double precision_at_1 = 0;
  double recall_at_5 = 0;
  int64_t samples = 0;
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
  std::optional<ValidationRow> best;        // the one with the highest Precision@1
  double seconds = 0;                       // spent on training, of all sittings
  std::string message;                      // of a run that diverged: step, rate, layer, what to try
};

// Trains by the settings, in a folder that is started with them or holds a run of theirs. What cannot begin leaves no
// folder. A folder with checkpoints goes on from the newest whole one, to bitwise
// the same weights as a run that was never interrupted (with as many threads). `stop` ends it after the step at hand
// with a checkpoint. Throws frn::Error for what a person has to mend; the folder can then be resumed.
//
// With a group, every rank calls it with the same settings; config.devices counts the devices of all ranks, which share
// them evenly. Rank 0 alone reads and writes the folder, and its events are told; warnings are told on every rank.
Outcome train(const RunFolder& folder, const TrainConfig& config, const TrainerEvents& events,
              const std::atomic<bool>& stop, std::shared_ptr<dist::Group> group = dist::make_single_group());

}  // namespace frn::train
