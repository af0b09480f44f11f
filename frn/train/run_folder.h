// The folder of a run, and what a run's settings name: data, pipelines, model. Training, evaluation and prediction open
// a run through this.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "frn/data/dataset.h"
#include "frn/data/pipeline.h"
#include "frn/models/model.h"
#include "frn/train/checkpoint.h"
#include "frn/train/config.h"
#include "frn/train/task.h"

namespace frn::train {

struct RunFolder {
  std::filesystem::path path;

  std::filesystem::path config() const { return path / "config.toml"; }
  std::filesystem::path log() const { return path / "log.jsonl"; }
  std::filesystem::path metrics() const { return path / "metrics.json"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }

  // Whether a run was started here.
  bool holds_run() const;
  // Throws frn::Error when a run is there already, or anything else that is not ours: what a start that failed takes
  // back, and what `--resume` finds, is then all of this run.
  void check_free() const;
  // Makes the folder and writes config.toml, as train() does for a folder without one. Throws as check_free does, or
  // when the folder cannot be made.
  void start(const TrainConfig& config) const;
  // Throws frn::Error when there is no run.
  TrainConfig read_config() const;
};

// What `apply` makes of the defaults, which are others for a detector than for a classifier: those of the model that it
// names. Throws frn::Error for an unknown one.
TrainConfig applied_to_defaults(const std::function<void(TrainConfig&)>& apply);

// The settings with the eps that the weights to start from were trained with, where their file names it, their norm is
// the same and the settings name none; and so with how they were standardised. Neither is a weight, and others give
// other outputs.
TrainConfig with_settings_of_weights(TrainConfig config);

// How the images of a set reach the network.
data::Pipeline training_pipeline(const TrainConfig& config, const data::SetFacts& facts);
data::Pipeline evaluation_pipeline(const TrainConfig& config, const data::SetFacts& facts);

// How many images go through the network at once when nobody says, with so many processes: what training takes, from 16
// to 100. Without gradients an image keeps two maps or three, where training keeps them all.
int64_t images_to_evaluate_at_once(const TrainSettings& settings, int64_t processes = 1);

// Lays the weights out, and has norms keep or compute again what they give, as the settings say.
void arrange(torch::nn::Module& network, const TrainSettings& settings);
// Fresh weights that follow from the seed; torch's own generator goes on as if nothing had been drawn from it.
std::shared_ptr<Model> make_model(const TrainConfig& config, int64_t classes, const data::SetFacts& facts);
// What the model learns, on a set with these classes (data::Dataset::classes, class_ids).
std::shared_ptr<const Task> make_task(const TrainConfig& config, const Model& model,
                                      const std::vector<std::string>& classes,
                                      const std::vector<int64_t>& class_ids = {});
std::shared_ptr<const Task> make_task(const TrainConfig& config, const Model& model, const data::Dataset& set);
// The weights that the settings name to start from, --weights or --backbone. Throws frn::Error when they do not fit.
void load_start(Model& model, const TrainConfig& config);

// A run's network with the weights of its newest whole checkpoint, in eval mode; the moving average's where one is kept
// and asked for.
struct TrainedModel {
  std::shared_ptr<Model> model;
  std::shared_ptr<const Task> task;
  TrainConfig config;
  std::vector<std::string> classes;
  data::SetFacts facts;  // of the set it was trained on
  int64_t step = 0;
  std::filesystem::path checkpoint;
  bool averaged = false;
  std::vector<std::string> damaged;  // newer checkpoints that could not be read, one sentence each
};
enum class Weights { kAuto, kPlain, kAveraged };  // kAuto: averaged where there are some
TrainedModel open_trained(const RunFolder& folder, Weights weights = Weights::kAuto);

}  // namespace frn::train
