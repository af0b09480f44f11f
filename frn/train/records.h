// What a run leaves to read: lines in log.jsonl, TensorBoard's curves, metrics.json at the end.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "frn/core/run_log.h"
#include "frn/core/tensorboard.h"
#include "frn/train/trainer.h"

namespace frn::train {

class Records {
 public:
  // Lines of steps after the first one, left by a run that was killed, are dropped. The first of the metrics decides
  // which validation is the best.
  Records(const RunFolder& folder, int64_t first_step, int64_t seed, std::vector<Metric> metrics);

  void add(const TrainRow& row);
  void add(const ValidationRow& row);
  void add(int64_t step, const std::vector<LayerState>& layers);
  void add_broken(int64_t step, const data::BrokenSample& sample, data::Split split);
  void end(const Outcome& outcome, const std::filesystem::path& metrics);

  // What it writes to: the log and this sitting's curves.
  std::vector<std::filesystem::path> files() const { return {log_.path(), events_.path()}; }

  // Also from before an interruption.
  std::optional<TrainRow> train_at_the_end() const;
  std::optional<ValidationRow> last_validation() const { return last_validation_; }
  std::optional<ValidationRow> best_validation() const { return best_validation_; }
  // Of the training set, told before an interruption.
  const std::vector<data::BrokenSample>& known_broken() const { return known_broken_; }

 private:
  void remember(const TrainRow& row);
  void remember(const ValidationRow& row);
  void remember_broken(const Value& line);
  void add_scalars(const std::string& group, const NamedValues& values, int64_t step);

  std::vector<Metric> metrics_;
  RunLog log_;
  tensorboard::EventFile events_;
  std::deque<TrainRow> last_trained_;  // as many as kImagesAtTheEnd need
  std::optional<ValidationRow> last_validation_, best_validation_;
  std::vector<data::BrokenSample> known_broken_;
};

}  // namespace frn::train
