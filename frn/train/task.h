// A task is what a run learns: how a model's outputs and the samples' targets become losses, and how well the model
// does. The loop, checkpoints, logs and reports know no task; a new one is one source (docs/adding-a-task.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frn/core/metric.h"
#include "frn/data/batch.h"
#include "frn/train/network.h"

namespace frn::train {

struct DescribeOptions {
  int64_t most = 5;        // entries, the best ones
  double least_score = 0;  // of an entry; from 0 to 1
};

// What `frn predict` shows of one sample.
struct Description {
  struct NamedBox {
    data::Box box;  // in pixels of the image as it was read
    std::string name;
    double score = 0;
  };
  Value entries = Value::empty_table();  // for --json
  std::string text{};                    // lines for a person
  std::vector<NamedBox> boxes{};         // to be drawn on the image
};

// What `frn eval` tells of a set beside a score's values: entries of its eval.json, lines for a person, files beside
// it, and images to draw, with what was to be found on one side and what was found on the other.
struct Details {
  struct File {
    std::string name;
    std::string text;
  };
  struct Example {
    int64_t index = 0;  // of the sample
    std::vector<Description::NamedBox> truths{};
    std::vector<Description::NamedBox> found{};
  };
  Value entries = Value::empty_table();
  std::string text{};
  std::vector<File> files{};
  std::vector<Example> examples{};
};

// Adds up what is measured over many batches.
class Score {
 public:
  virtual ~Score() = default;
  virtual void add(const Outputs& outputs, const data::Batch& batch) = 0;
  // What was added so far as numbers, and the way back: merge() adds another's. So a score passes through checkpoints
  // and from one process to another. Packs may differ in length. Those of a training score do not, and add up: pack()
  // of what was added here and there is the sum of both packs.
  virtual std::vector<double> pack() const = 0;
  virtual void merge(std::span<const double> packed) = 0;
  // One for each of the task's metrics, in their order; not a number where nothing was added.
  virtual std::vector<double> values() const = 0;
  // What `frn eval` tells beside the values.
  virtual Details details() const { return {}; }
};

struct NamedLoss {
  std::string name;  // ends in "_loss": "box_loss"
  at::Tensor value;  // one number
};

struct LossContext {
  bool training = true;
  int64_t devices = 1;  // that share the batch evenly, samples in order
};

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string name() const = 0;

  // The batch's losses, each a mean over weight(batch); training makes their sum small. A batch may be a piece of a
  // step's batch: the step's loss is the mean of its pieces' losses by their weights.
  virtual std::vector<NamedLoss> losses(const Outputs& outputs, const data::Batch& batch,
                                        const LossContext& context) const = 0;
  // What the losses are normalised by: the samples, unless a task says otherwise. 0 or more.
  virtual double weight(const data::Batch& batch) const { return static_cast<double>(batch.size()); }
  // Whether batches of as many samples weigh the same. If not, processes have to tell each other before each step.
  virtual bool weighs_samples() const { return true; }

  // What is measured on a validation set, and, unless training_metrics says otherwise, on the batches of training. The
  // first one decides which validation is the best.
  virtual std::vector<Metric> metrics() const = 0;
  virtual std::unique_ptr<Score> make_score() const = 0;
  virtual std::vector<Metric> training_metrics() const { return metrics(); }
  virtual std::unique_ptr<Score> make_training_score() const { return make_score(); }

  // Of sample number `sample`.
  virtual Description describe(const Outputs& /*outputs*/, const data::Batch& /*batch*/, int64_t /*sample*/,
                               const DescribeOptions& /*options*/) const {
    return {};
  }
};

// A score's values under its metrics' keys.
NamedValues named_values(std::span<const Metric> metrics, const Score& score);

}  // namespace frn::train
