// How a model does on a whole set, every sample counted once.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "frn/data/loader.h"
#include "frn/dist/group.h"
#include "frn/train/task.h"

namespace frn::train {

struct Evaluation {
  NamedValues values;  // "loss", its parts where there are several, and the task's metrics
  int64_t samples = 0;
  std::vector<data::BrokenSample> broken;  // this rank's samples that could not be read, and do not count
  std::shared_ptr<const Score> score;      // of the whole set

  double operator[](std::string_view key) const { return value_of(values, key); }
};

struct EvaluateOptions {
  int64_t images_at_once = 100;
  int64_t workers = 1;
  bool channels_last = false;
  bool bfloat16 = false;
  int64_t broken_limit = 100;
  std::shared_ptr<dist::Group> group = nullptr;  // ranks take turns at batches, and all get the whole set's result
  // Called after every batch with the samples done so far.
  std::function<void(int64_t)> progress = nullptr;
};

// In eval mode; the model's mode is as before afterwards. `pipeline` is for sets that give images.
Evaluation evaluate(const Network& network, const Task& task, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Pipeline& pipeline, const EvaluateOptions& options);

}  // namespace frn::train
