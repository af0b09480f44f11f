// A run from its first step, or its newest checkpoint, to its end: what Trainer and train() share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frn/train/evaluate.h"
#include "frn/train/gradients.h"
#include "frn/train/layer_report.h"
#include "frn/train/moving_average.h"
#include "frn/train/records.h"
#include "frn/train/run_hold.h"
#include "frn/train/step.h"
#include "frn/train/trainer.h"

namespace frn::train {

struct LoopParts {
  RunFolder folder;
  std::string config_text;  // of config.toml
  Network network;
  std::shared_ptr<const Task> task;
  std::shared_ptr<const data::Dataset> training_set, validation_set;  // the latter may be null
  data::Pipeline training_pipeline, validation_pipeline;
  std::string data_name;               // for messages
  std::function<void()> load_weights;  // to start from, where there is no checkpoint; empty: as the network has them
  TrainSettings settings;
  TrainerEvents events;
  std::shared_ptr<dist::Group> group;
  std::unique_ptr<Optimizer> optimizer;  // null: by the settings
};

class Loop {
 public:
  // Loads the newest checkpoint, or the weights to start from, and sends them to all ranks.
  explicit Loop(LoopParts parts);

  // `hold`: on rank 0.
  Outcome run(const std::atomic<bool>& stop, const RunHold* hold);

 private:
  Outcome loop(const std::atomic<bool>& stop);
  StepOptions step_options();
  void join_statistics();
  // As virtual devices share device 0's running statistics, so do ranks.
  void share_statistics() {
    if (group_->world() > 1) group_->broadcast(statistics_);
  }
  // On rank 0: its newest checkpoint, or the weights to start from.
  void load_start();
  // Rank 0's state on all ranks.
  void start_alike();
  void send_optimizer();
  void load(const CheckpointFolder::Found& found);
  void check_same_training(const TrainState& saved) const;
  bool finished() const { return state_.step >= plan_.steps; }
  // Whether something that is done every so many steps is due after the step just made.
  bool due(int64_t every) const { return finished() || state_.step % every == 0; }
  double epoch() const { return static_cast<double>(state_.step) / static_cast<double>(plan_.batches_per_epoch); }

  // Gives false, with the weights as they were, when the loss or a gradient is not finite on some rank.
  bool update(const data::Batch& batch);
  std::vector<RandomKey> random_keys(const data::Batch& batch) const;
  StepResult gradient(const data::Batch& batch);
  // Over all ranks: losses and score of the batch, and whether one of them was asked to stop.
  void add_up(StepResult& result);
  void remember(const StepResult& result);
  // Gives false when one is not finite.
  bool clip_gradients();
  void count_time(double seconds, double waited);
  void after_update(const data::Batch& batch);
  NamedValues running_values() const;
  void log_training();
  Evaluation evaluation();
  bool validation_is_due() const;
  void validate();
  void make_up_for_validation();
  void save();
  void save_if_possible();
  void tell_broken(const std::vector<data::BrokenSample>& broken, data::Split split);
  std::string explain_divergence(const data::Batch& batch);
  Outcome end(Status status, std::string message = "");

  LoopParts parts_;
  const TrainSettings& settings_;
  std::shared_ptr<dist::Group> group_;
  torch::nn::Module& module_;
  data::BatchOrder order_;
  RunPlan plan_;
  Gradients gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<MovingAverage> average_;
  std::unique_ptr<dist::Reducer> reducer_;
  std::vector<at::Tensor> statistics_;  // buffers that training changes
  Step step_;
  CheckpointFolder checkpoints_;
  std::optional<Records> records_;  // rank 0's
  const RunHold* hold_ = nullptr;   // rank 0's, while it runs
  const std::atomic<bool>* stop_ = nullptr;
  bool stops_ = false;  // all ranks agreed to

  TrainState state_;
  std::unique_ptr<Score> running_score_;  // since the last line of the log
  double seconds_since_log_ = 0, waited_since_log_ = 0;
  int64_t images_since_log_ = 0;
  double last_gradient_norm_ = 0;
  double last_loss_ = 0;
};

}  // namespace frn::train
